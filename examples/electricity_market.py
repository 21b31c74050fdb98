"""
Strategic bidding in an electricity market
==========================================

A company owns two power plants, one in the north and one in the south of a country. It tells the
market operator at which price it offers their power. The operator then chooses the cheapest plants
that serve the demand of both regions, with a line of limited capacity between them. Everybody in a
region is paid the *price of the region*, which is what one more unit of demand there would cost.
What should the company bid?

The price is neither a decision of the company nor one of the operator: it is a *multiplier* of the
operator's problem. ``lower.multiplier(constraint)`` brings it into the upper level. Run it with
``python examples/electricity_market.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import blomodel as bm

parser = argparse.ArgumentParser(description="Strategic bidding in an electricity market.")
parser.add_argument("--save", type=Path, default=Path("electricity_market.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The plants
# ----------
# Seven plants with the cost of a unit and a capacity. The first two are ours. The others bid what
# they cost.
NORTH, SOUTH = 0, 1
region = np.array([NORTH, SOUTH, NORTH, NORTH, SOUTH, SOUTH, SOUTH])
cost = np.array([10.0, 25.0, 18.0, 30.0, 40.0, 55.0, 80.0])
capacity = np.array([60.0, 40.0, 40.0, 40.0, 40.0, 40.0, 60.0])
demand = np.array([65.0, 95.0])
OURS = slice(0, 2)
RIVALS = slice(2, 7)
in_region = np.array([region == NORTH, region == SOUTH], dtype=float)

# %%
# The market: the lower level
# ---------------------------
# The operator minimises the total of bids. What flows to the south is missing in the north. The
# balance is written as *demand minus supply equals zero*, so that its multiplier is the price of a
# unit of demand. The capacity of the line is a ``cp.Parameter``: we shall change it later.
bids = cp.Variable(2, name="bids")
output = cp.Variable(7, name="output")
to_south = cp.Variable(name="to_south")
line = cp.Parameter(nonneg=True, value=20.0, name="line")

balance = demand + cp.hstack([to_south, -to_south]) - in_region @ output == 0
market = bm.Lower(
    cp.Minimize(bids @ output[OURS] + cost[RIVALS] @ output[RIVALS]),
    [balance, 0 <= output, output <= capacity, -line <= to_south, to_south <= line],
    variables=[output, to_south],
    name="the market",
)
prices = market.multiplier(balance)

# %%
# The company: the upper level
# ----------------------------
# Its profit is price times quantity less cost, in both regions. Bids may not exceed 100.
profit = (prices - cost[OURS]) @ output[OURS]
problem = bm.BilevelProblem(cp.Maximize(profit), [0 <= bids, bids <= 100], market)

problem.solve()
print(problem.certificate)


def report(title: str, offered: np.ndarray, paid: np.ndarray, produced: np.ndarray) -> None:
    """One line about an outcome of the market."""
    earned = float((paid - cost[OURS]) @ produced[OURS])
    print(
        f"{title}: bids {offered.round(4)}, prices {paid.round(4)}, "
        f"our output {produced[OURS].round(4) + 0.0}, profit {earned:.2f}"
    )


report("strategic", bids.value, prices.value, output.value)
best_profit, best_bids, best_prices = problem.value, bids.value.copy(), prices.value.copy()

# %%
# Profit is a product of a price and a quantity, which is not concave. But the optimality
# conditions of the market let the products be replaced by linear terms, and then branch and bound
# proves the optimum: the status is ``optimal``.
#
# The same market without the library
# -----------------------------------
# SciPy solves the market for given bids, and its ``marginals`` are the prices. First with honest
# bids, then for a grid of bids. Each grid bid lies one hundredth below a multiple of five, because
# at a tie with a rival it is left to chance who produces.


def clear_market(offered: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Output and prices when we offer at these bids."""
    exchange = np.array([[-1.0], [1.0]])
    answer = linprog(
        np.concatenate([offered, cost[RIVALS], [0.0]]),
        A_eq=np.hstack([in_region, exchange]),
        b_eq=demand,
        bounds=[*zip(np.zeros(7), capacity, strict=True), (-limit, limit)],
    )
    return answer.x[:7], answer.eqlin.marginals


honest_output, honest_prices = clear_market(cost[OURS], line.value)
honest_profit = float((honest_prices - cost[OURS]) @ honest_output[OURS])
report("honest", cost[OURS], honest_prices, honest_output)

steps = np.arange(5.0, 101.0, 5.0)
table = np.zeros((len(steps), len(steps)))
for row, in_north in enumerate(steps):
    for column, in_south in enumerate(steps):
        produced, paid = clear_market(np.array([in_north, in_south]) - 0.01, line.value)
        table[row, column] = (paid - cost[OURS]) @ produced[OURS]
row, column = np.unravel_index(np.argmax(table), table.shape)
print(f"grid: bids just below {steps[row]:g} and {steps[column]:g}, profit {table.max():.2f}")

# %%
# Does a stronger line help?
# --------------------------
# A line lets the regions compete, so one expects that it lowers the company's profit. The
# parameter can be changed and the problem solved again without compiling anything anew.
limits = np.arange(0.0, 81.0, 10.0)
strategic, honest = [], []
for limit in limits:
    line.value = limit
    strategic.append(problem.solve())
    produced, paid = clear_market(cost[OURS], limit)
    honest.append(float((paid - cost[OURS]) @ produced[OURS]))
    print(
        f"line {limit:3.0f}: strategic {strategic[-1]:7.2f} ({problem.status}), honest {honest[-1]:7.2f}"
    )

# %%
# The picture
# -----------
# Left: the profit for each pair of bids. The plateaus end in cliffs where a rival takes over.
# Right: the profit at each line capacity. It is not monotone: a stronger line opens the other
# region to the company's cheap plant as well. At capacities 40 and 50 the rivals set both prices
# anyway, and honest bids earn just as much.
figure, (surface, sweep) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
mesh = surface.pcolormesh(steps, steps, table.T, cmap="cividis", shading="nearest")
label = f"best: bids {best_bids[0]:.0f} and {best_bids[1]:.0f}, profit {best_profit:.0f}"
surface.plot(*best_bids, "*", color="#D55E00", markeredgecolor="white", markersize=18, label=label)
surface.set(title="Profit, line capacity 20", xlabel="bid in the north", ylabel="bid in the south")
surface.legend(loc="upper right")
figure.colorbar(mesh, ax=surface)
sweep.plot(limits, strategic, "o-", color="#D55E00", label="best bids")
sweep.plot(limits, honest, "s--", color="#0072B2", label="honest bids (bid = cost)")
sweep.set(title="The worth of strategy", xlabel="capacity of the line", ylabel="profit", ylim=(0, None))
sweep.legend(frameon=False, loc="lower right")
sweep.grid(alpha=0.3)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# The grid of the picture comes within 1 of the optimum, from below: it undercuts by 0.01 on at
# most 100 units. The prices that the model takes for multipliers are those that SciPy finds for
# bids just below ours. And at every line capacity, the bids that can matter (just below a rival's
# cost, or the highest bid allowed) are tried one by one.
produced, paid = clear_market(best_bids - 1e-6, 20.0)
assert problem.status == "optimal"
assert best_profit - 1.0 <= table.max() <= best_profit + 1e-6
assert np.allclose(best_bids, [steps[row], steps[column]], atol=1e-5)
assert np.allclose(paid, best_prices, atol=1e-4)
assert best_profit > honest_profit
assert abs(strategic[4] - honest[4]) < 1e-4 and abs(strategic[5] - honest[5]) < 1e-4

candidates = np.append(cost[RIVALS], 100.0) - 1e-4
for limit, found in zip(limits, strategic, strict=True):
    tried = -np.inf
    for in_north in candidates:
        for in_south in candidates:
            produced, paid = clear_market(np.array([in_north, in_south]), limit)
            tried = max(tried, float((paid - cost[OURS]) @ produced[OURS]))
    assert abs(tried - found) < 0.05, f"line {limit}: {found} found, but bids one by one give {tried}"
print("checked: the grid agrees, and so does trying all bids that matter at each line capacity")
