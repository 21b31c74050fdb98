r"""
Bidding in an electricity market
================================

A company with two plants chooses its bids; the market then sets output and prices.

Two regions, north and south, are joined by a line. The operator buys from the cheapest bids, and each
region's price is the *multiplier* of its balance. The company knows its rivals' costs :math:`c` and
maximises its profit:

.. math:: \max_{0 \le b \le 100} \; \sum_{i \in \text{ours}} (\lambda_i - c_i)\,q_i
          \quad\text{where}\quad
          (q, s) \in \operatorname{argmin}_{0 \le q \le \bar q,\; |s| \le \bar s} \;
          \Bigl\{\sum_{\text{ours}} b_i q_i + \sum_{\text{rivals}} c_i q_i \;:\;
          d \pm s = R\,q \;\; (\lambda)\Bigr\}.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import blomodel as bm

cost = np.array([10.0, 25.0, 18.0, 30.0, 40.0, 55.0, 80.0])  # the first two plants are ours
capacity = np.array([60.0, 40.0, 40.0, 40.0, 40.0, 40.0, 60.0])
in_region = np.array([[1, 0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 1, 1, 1]], dtype=float)  # north, south
demand = np.array([65.0, 95.0])

bids, output = cp.Variable(2, name="bids"), cp.Variable(7, name="output")
to_south = cp.Variable(name="to_south")
line = cp.Parameter(nonneg=True, value=20.0, name="line")

balance = demand + cp.hstack([to_south, -to_south]) - in_region @ output == 0
market = bm.Lower(
    cp.Minimize(bids @ output[:2] + cost[2:] @ output[2:]),
    [balance, 0 <= output, output <= capacity, -line <= to_south, to_south <= line],
    variables=[output, to_south],
    name="the market",
)
prices = market.multiplier(balance)
profit = cp.Maximize((prices - cost[:2]) @ output[:2])
problem = bm.BilevelProblem(profit, [0 <= bids, bids <= 100], market)
problem.solve()
print(
    problem.status,
    "bids",
    bids.value.round(3),
    "prices",
    prices.value.round(3),
    "profit",
    round(problem.value, 2),
)

# %%
# ``market.multiplier(balance)`` is an expression like any other: the upper level earns prices that
# the lower level's own optimality conditions set. Profit is a price times a quantity, which is not
# concave, but branch and bound proves the optimum.
#
# Does a stronger line help?
# --------------------------
# One would think that a line lets the regions compete and lowers the company's profit. ``line`` is a
# parameter, so ``bm.sweep`` can try. Honest bids (bid = cost) are compared by SciPy.
sweep = bm.sweep(problem, {line: np.arange(0.0, 81.0, 20.0)})
for limit, value, offered in zip(sweep["line"], sweep.values, sweep["bids"], strict=True):
    print(f"line {limit:2.0f}: profit {value:.2f} with the bids {offered.round(3)}")


def clear_market(offered: np.ndarray, limit: float) -> float:
    """Our profit when we offer at these bids, by SciPy's linear programs alone."""
    found = linprog(
        np.concatenate([offered, cost[2:], [0.0]]),
        A_eq=np.hstack([in_region, [[-1.0], [1.0]]]),
        b_eq=demand,
        bounds=[*zip(np.zeros(7), capacity, strict=True), (-limit, limit)],
    )
    return float((found.eqlin.marginals - cost[:2]) @ found.x[:2])


figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.plot(sweep["line"], sweep.values, "o-", color="#D55E00", label="best bids")
honest = [clear_market(cost[:2], limit) for limit in sweep["line"]]
axes.plot(sweep["line"], honest, "s--", color="#0072B2", label="honest bids")
axes.set(title="The worth of strategy", xlabel="capacity of the line", ylabel="profit", ylim=(0, None))
axes.legend(frameon=False)
axes.grid(alpha=0.3)
plt.show()

# %%
# Is it right?
# ------------
# The bids that can matter lie just below a rival's cost, or are the highest allowed. All 36 pairs
# are tried one by one, at every capacity of the line.
candidates = np.append(cost[2:], 100.0) - 1e-4
for limit, found in zip(sweep["line"], sweep.values, strict=True):
    tried = max(clear_market(np.array([a, b]), limit) for a in candidates for b in candidates)
    assert abs(tried - found) < 0.05, f"line {limit}: {found} found, but {tried} by trying all"
assert all(row.status == "optimal" for row in sweep.rows)
print("checked: trying all bids that matter gives the same profit at each capacity")
