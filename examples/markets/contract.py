r"""
A contract for somebody who works for you
=========================================

A principal pays a wage and a share of the output; the agent decides how hard to work.

The output is the effort :math:`e` plus luck. The agent gets :math:`w + s \cdot \text{output}`, dislikes
effort and dislikes luck. Nobody can write the effort into the contract, and the agent signs only a
contract that leaves it at least as well off as without one.

.. math:: \max_{s, w} \; (1 - s)\,e - w \quad\text{subject to}\quad u(s, w, e) \ge 0,
          \quad\text{where}\quad
          e \in \operatorname{argmax}_{e \ge 0} \; u(s, w, e) = w + s\,e - \tfrac12 e^2
          - \tfrac12 \rho\, s^2.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

share, wage, effort = (cp.Variable(name=name) for name in ("share", "wage", "effort"))
risk = cp.Parameter(nonneg=True, value=1.0, name="risk")

utility = wage + share * effort - effort**2 / 2 - risk * share**2 / 2
agent = bm.Lower(cp.Maximize(utility), [effort >= 0], variables=[effort], name="the agent")
bounds = [0 <= share, share <= 1, -2 <= wage, wage <= 2]
profit = cp.Maximize((1 - share) * effort - wage)
problem = bm.BilevelProblem(profit, [*bounds, utility >= 0], agent)
problem.solve()
print(problem.certificate)

# %%
# The constraint :math:`u \ge 0` (economists say *participation*) is one of the principal, although the
# agent's effort stands in it: it is the principal who has to offer enough. That the agent works as it
# likes (*incentive compatibility*) is the lower level.
#
# With :math:`\rho = 1` half of the output goes to the agent. A fixed wage would carry no risk and buy no
# effort; selling the whole output would buy the most effort, at the price of all the luck.
#
# More and more luck
# ------------------
# ``risk`` is a ``cp.Parameter``, and ``bm.sweep`` solves the problem for a list of its values.
sweep = bm.sweep(problem, {risk: np.linspace(0, 4, 9)})
print(sweep)

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, marker in (("share", "o-"), ("wage", "s--")):
    axes.plot(sweep["risk"], sweep[name], marker, label=name)
axes.set(title="More luck, less incentive", xlabel=r"risk $\rho$")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
plt.show()

# %%
# Is it right?
# ------------
# By pencil: the agent answers :math:`e = s`, the wage makes :math:`u = 0`, and what is left is
# :math:`s - s^2/2 - \rho s^2/2`, which is largest at :math:`s = 1/(1 + \rho)`.
assert all(row.status == "optimal" for row in sweep.rows)
assert np.allclose(sweep["share"], 1 / (1 + sweep["risk"]), atol=1e-4)
assert np.allclose(sweep.values, 1 / (2 * (1 + sweep["risk"])), atol=1e-6)
print("checked with a pencil: the share is 1 / (1 + risk) at every risk")
