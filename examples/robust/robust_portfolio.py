r"""
A portfolio against the worst case
==================================

Invest, then nature chooses the worst returns that are still plausible: what does safety cost?

Four assets return :math:`\mu_i` on average and may fall short by up to :math:`s_i`. It is unlikely that
all fall short at once, so nature may spend a budget of :math:`\Gamma` on it. The investor maximises what
is left in the worst case:

.. math:: \max_{x \ge 0,\; \sum x = 1} \; (\mu - s \odot z)^\top x \quad\text{where}\quad
          z \in \operatorname{argmin}_{0 \le z \le 1} \; \{(\mu - s \odot z)^\top x :
          \textstyle\sum z \le \Gamma\}.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

mean = np.array([1.12, 1.10, 1.07, 1.03])
short = np.array([0.20, 0.12, 0.06, 0.01])
budget = cp.Parameter(nonneg=True, value=1.0, name="budget")

x, z = cp.Variable(4, name="x"), cp.Variable(4, name="z")
wealth = (mean - cp.multiply(short, z)) @ x
nature = bm.Lower(
    cp.Minimize(wealth), [0 <= z, z <= 1, cp.sum(z) <= budget], variables=[z], name="nature"
)
problem = bm.BilevelProblem(cp.Maximize(wealth), [x >= 0, cp.sum(x) == 1], nature)
problem.solve()
print(problem.solution)

# %%
# Both levels hold the same objective, once maximised and once minimised: a *max-min* problem is the
# bilevel problem in which the follower is an enemy. There is no question of being optimistic here:
# whatever nature answers among its best, the investor's wealth is the same.
#
# The price of safety
# -------------------
sweep = bm.sweep(problem, {budget: np.linspace(0, 3, 13)})

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
labels = [f"asset {i}" for i in range(4)]
axes.stackplot(
    sweep["budget"], sweep["x"].T, labels=labels, colors=["#D55E00", "#E69F00", "#56B4E9", "#009E73"]
)
axes.set(title="More fear, more of the safe asset", xlabel=r"budget $\Gamma$ of nature", ylabel="share")
axes.legend(loc="lower left")
plt.show()

# %%
# Is it right?
# ------------
# The dual of nature's linear program turns the worst case into one linear program (Bertsimas and Sim,
# 2004). cvxpy solves it for every budget.
for gamma, value in zip(sweep["budget"], sweep.values, strict=True):
    share, price, excess = (
        cp.Variable(4, nonneg=True),
        cp.Variable(nonneg=True),
        cp.Variable(4, nonneg=True),
    )
    covered = price + excess >= cp.multiply(short, share)
    worst = mean @ share - gamma * price - cp.sum(excess)
    robust = cp.Problem(cp.Maximize(worst), [cp.sum(share) == 1, covered])
    assert abs(robust.solve(solver=cp.CLARABEL) - value) < 1e-6
assert all(row.status == "optimal" for row in sweep.rows)
print(f"checked: the robust counterpart agrees at all {len(sweep.rows)} budgets")
