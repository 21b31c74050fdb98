r"""
A leader among Cournot firms
============================

One firm moves first, the others compete in quantities: what is it worth to lead?

Three firms sell the same good at the price :math:`12 - q_0 - q_1 - q_2`. The leader commits to
:math:`q_0`. The other two see it and play a *Cournot game*: each chooses the quantity that is best for
itself given the other's.

.. math:: \max_{q_0 \ge 0} \; (12 - q_0 - q_1 - q_2 - 2)\,q_0 \quad\text{where}\quad
          q_k \in \operatorname{argmax}_{q_k \ge 0} \; (12 - q_0 - q_1 - q_2 - c_k)\,q_k, \quad k = 1, 2.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
from scipy.optimize import minimize_scalar

import blomodel as bm

cost = [2, 2, 3]
q = [cp.Variable(name=f"q{k}") for k in range(3)]
price = 12 - sum(q)

rivals = [
    bm.Lower(cp.Maximize((price - cost[k]) * q[k]), [q[k] >= 0], variables=[q[k]], name=f"firm {k}")
    for k in (1, 2)
]
profit = cp.Maximize((price - cost[0]) * q[0])
problem = bm.BilevelProblem(profit, [0 <= q[0], q[0] <= 12], bm.Nash(rivals))
problem.solve()
print(problem.solution)

# %%
# ``bm.Nash`` says that the followers see one another, so that their answer is an equilibrium. (A plain
# list is for followers who do not.) Each rival's objective holds the other's quantity.
#
# The picture
# -----------
# The leader's profit for every quantity it may commit to. Where it is large enough, firm 2 and then firm
# 1 leave the market: these are the kinks.
#
# If nobody led, all three would play the Cournot game, and the first firm would sell 2.75 units at a
# higher price. Leading is worth more, although the rivals answer as they like.
cournot = (12 - 3 * cost[0] + cost[1] + cost[2]) / 4  # by pencil, for three firms at once
print(f"profit as a leader {problem.value:.4f}, in the game of three {cournot**2:.4f}")

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[], span=(0, 11))
axes.plot(cournot, cournot**2, "o", color="#0072B2", label="game of three")
axes.legend(frameon=False, loc="lower center")
axes.set_title("Profit of the leader", loc="left")
axes.set(xlabel="quantity $q_0$", ylabel="")
plt.show()


# %%
# Is it right?
# ------------
# The rivals' equilibrium can be found by taking turns, which is right for a *game*; a line search over
# :math:`q_0` does the rest.
def profit_of(first: float) -> float:
    """The leader's profit when the rivals take turns until nothing moves."""
    a = b = 0.0
    for _ in range(100):
        a = max(0.0, (12 - first - b - cost[1]) / 2)
        b = max(0.0, (12 - first - a - cost[2]) / 2)
    return (12 - first - a - b - cost[0]) * first


best = minimize_scalar(lambda first: -profit_of(first), bounds=(0, 8), method="bounded")
assert problem.status == "optimal" and abs(problem.value + best.fun) < 1e-6
assert abs(profit_of(cournot) - cournot**2) < 1e-9 and problem.value > cournot**2 + 2
print(f"checked by a line search: q0 = {best.x:.4f}, profit {-best.fun:.4f}")
