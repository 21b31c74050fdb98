r"""
A tax on emissions
==================

A government taxes what two firms emit and foresees how much less they will emit.

Emitting :math:`e_k` is worth :math:`a_k \log(1 + e_k)` to firm :math:`k`; the damage of the total
:math:`E = e_1 + e_2` is :math:`E^2/4 + E/2`. The tax itself is no loss: what the firms pay, the
government has. So it looks for the tax with the largest welfare:

.. math:: \max_t \; \sum_k a_k \log(1 + e_k) - \tfrac14 E^2 - \tfrac12 E \quad\text{where}\quad
          e_k \in \operatorname{argmax}_{e_k \ge 0} \; a_k \log(1 + e_k) - t\,e_k.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
from scipy.optimize import brentq

import blomodel as bm

worth = {"steel": 8.0, "glass": 5.0}
tax = cp.Variable(name="tax")

firms, benefit, total = [], 0, 0
for name, a in worth.items():
    e = cp.Variable(name=name)
    firms.append(bm.Lower(cp.Maximize(a * cp.log(1 + e) - tax * e), [e >= 0], variables=[e], name=name))
    benefit, total = benefit + a * cp.log(1 + e), total + e
welfare = benefit - total**2 / 4 - total / 2
problem = bm.BilevelProblem(cp.Maximize(welfare), [0.2 <= tax, tax <= 20], firms)
problem.solve()
print(problem)
print(problem.solution)

# %%
# The firms do not care about each other, so ``lower=`` is a plain list of followers.
#
# The best tax is the damage that one more unit does
# --------------------------------------------------
# That is Pigou's rule, and it comes out by itself: the slope of the damage at the answer is the tax.
emitted = float(total.value)
print(f"tax {float(tax.value):.6f}, slope of the damage {emitted / 2 + 0.5:.6f}")

# %%
# The picture
# -----------
# Welfare for every tax; the star is the best one, circles are steps of the solve. The kinks are the
# taxes at which a firm stops.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[], span=(1.2, 10))
axes.set_title("Welfare", loc="left")
axes.set(xlabel="tax", ylabel="")
axes.get_legend().remove()
plt.show()

# %%
# What if the government wants money?
# -----------------------------------
# One line changes. A lower tax brings in more, because the firms then emit much more; everybody together
# is worse off. ``value_at`` gives the value of a problem at any decision of the upper level.
revenue = bm.BilevelProblem(cp.Maximize(tax * total), [0.2 <= tax, tax <= 20], firms)
for at in (1.0, 2.0, 4.0, 6.0):
    print(f"tax {at:g} brings in {revenue.value_at(at):.4f}, welfare {problem.value_at(at):.4f}")


# %%
# Is it right?
# ------------
# By pencil a firm emits :math:`\max(0, a/t - 1)`. Pigou's rule with this formula is one
# equation in one unknown.
def emissions(t: float) -> float:
    """What the two firms emit."""
    return sum(max(0.0, a / t - 1) for a in worth.values())


rule = brentq(lambda t: t - emissions(t) / 2 - 0.5, 0.5, 5)
assert problem.certificate.accepted and problem.status in ("optimal", "locally_optimal")
assert abs(float(tax.value) - rule) < 1e-4 and abs(emitted - emissions(rule)) < 1e-3
print(f"checked: Pigou's rule and the pencil give the tax {rule:.4f}")
