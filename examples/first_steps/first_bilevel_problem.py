r"""
A first bilevel problem
=======================

A town pays a subsidy for solar panels; a household decides how many to buy.

The town pays :math:`x` for every panel. The household sees :math:`x` and decides how many panels
:math:`y` it wants. The town cannot decide :math:`y`: it can only choose :math:`x` and foresee the
answer. That is a *bilevel* problem, one optimisation problem with another one inside:

.. math:: \min_{0 \le x \le 4} \; f(x, y) = (y - 2)^2 + x\,y \quad\text{where}\quad
          y \in \operatorname{argmin}_{0 \le y \le 2} \; g(x, y) = (3 - x)\,y - 2y + \tfrac12 y^2.

The town would like to see two panels and pays the subsidy for each. A panel costs the household 3, less
the subsidy; the first panel is worth 2 to it, further ones less and less; the roof has room for two.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

x = cp.Variable(name="x")
y = cp.Variable(name="y")

household = bm.Lower(
    cp.Minimize((3 - x) * y - 2 * y + y**2 / 2), [0 <= y, y <= 2], variables=[y], name="the household"
)
problem = bm.BilevelProblem(cp.Minimize((y - 2) ** 2 + x * y), [0 <= x, x <= 4], household)
problem.solve()
print(f"{problem.status}: subsidy {x.value:.4f}, panels {y.value:.4f}, cost {problem.value:.4f}")

# %%
# ``x`` and ``y`` are ordinary cvxpy variables. ``variables=[y]`` says what the household decides;
# every other variable belongs to the town. The status ``optimal`` means that a bound proves that no
# subsidy is better. ``print(problem)`` shows the model, and the *certificate* an independent check
# of the answer: the household's problem is solved once more, and it would not leave the point.
print(problem)
print(problem.certificate)

# %%
# The picture
# -----------
# What the town pays for each subsidy when the household answers; the star is the solution. Up to a
# subsidy of 1 the household buys nothing; from 3 on the roof is full. These are the two kinks. (Without
# ``ax=``, ``problem.plot()`` makes a figure of its own, with the answer below.)
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[])
axes.set_title("What the town pays", loc="left")
axes.set(xlabel="subsidy $x$", ylabel="")
plt.show()

# %%
# Two tempting answers that are wrong
# -----------------------------------
# *Wishful thinking.* Minimise :math:`f` over both as if the town decided both: no subsidy, two panels,
# cost 0. But without a subsidy the household builds nothing, and ``bm.certify`` refuses the point.
wishful = bm.certify(problem, x=0.0, y=2.0)
print(wishful.accepted, "-", wishful.reasons[0])

# %%
# *Taking turns.* The town chooses the best :math:`x` for the present :math:`y`, the household
# answers, and so on. With the panels fixed, the town saves money with :math:`x = 0`; the household
# answers :math:`y = 0`; there it ends, at a cost of 4. It is a valid answer, but a bad one: taking
# turns ignores that the household *reacts*.
turns = bm.certify(problem, x=0.0, y=0.0)
print(turns.accepted, "cost", turns.objective)

# %%
# The names of things
# -------------------
# * :math:`y^*(x)`, the lower answer: ``problem.answer(x)``.
# * :math:`\varphi(x) = f(x, y^*(x))`, what the town really minimises: ``problem.value_at(x)``.
# * :math:`v(x) = g(x, y^*(x))`, the best that the household can get: ``problem.lower_value(x)``.
for at in (1.5, 1.75, 3.5):
    bought, cost = float(problem.answer(at).values["y"]), problem.value_at(at)
    print(f"x = {at}: y* = {bought:.3f}, phi = {cost:.3f}, v = {problem.lower_value(at):.3f}")

# %%
# Is it right?
# ------------
# With a pencil: :math:`g` has the slope :math:`1 - x + y`, so :math:`y^*(x) = x - 1` between 1 and
# 3. There :math:`\varphi(x) = (x - 3)^2 + x(x - 1)` with the slope :math:`4x - 7`: the subsidy is
# 7/4, the household builds 3/4, and the cost is 23/8.
grid = np.linspace(0, 4, 41)
assert np.allclose(problem.answer(grid).y.ravel(), np.clip(grid - 1, 0, 2), atol=1e-6)
assert problem.status == "optimal" and abs(problem.value - 23 / 8) < 1e-6
assert abs(float(x.value) - 7 / 4) < 1e-5 and abs(float(y.value) - 3 / 4) < 1e-5
assert not wishful.accepted and turns.accepted and turns.objective == 4.0
print("checked with a pencil: x = 7/4, y = 3/4, cost 23/8")
