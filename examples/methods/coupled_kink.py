r"""
A minimum on a kink
===================

Constraints that move with x put a kink into what is minimised, and the solution onto it.

An operator releases a capacity :math:`x`. A user would like to run at twice the capacity, but may
exceed it by no more than an allowance :math:`r`. That limit *couples* the levels: it is a
constraint of the lower level that moves with the decision of the upper level.

.. math:: \min_{0 \le x \le 3} \; \frac{e^{2 - y}}{2 + \cos 4x} + \tfrac12 \log\bigl((4x - 2)^2 + 1\bigr)
          + x^2

          \quad\text{where}\quad y = \operatorname{argmin}_{0 \le y \le 3}
          \{(y - 2x)^2 : y \le x + r\}.

With :math:`r = 0` this is Example 4 of Jiang, Xiao, Chen and Chen, "Efficient Penalty-Based Bilevel
Methods" (the story is ours).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

x, y = cp.Variable(name="x"), cp.Variable(name="y")
room = cp.Parameter(nonneg=True, value=0.39, name="room")

user = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x + room, 0 <= y, y <= 3], variables=[y])
cost = cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)) + cp.log((4 * x - 2) ** 2 + 1) / 2 + x**2
problem = bm.BilevelProblem(cp.Minimize(cost), [0 <= x, x <= 3], user)
problem.solve()
print(f"{problem.status}: x = {x.value:.6f}, value {problem.value:.6f}")

# %%
# While :math:`2x \le x + r` the limit does not bind and the user answers :math:`2x`; beyond, it
# answers :math:`x + r`. At :math:`x = r` the answer has a kink, and so has
# :math:`\varphi(x) = f(x, y^*(x))`. Its slope jumps there from negative to positive: the kink
# itself is the minimum, and no gradient vanishes.
for at in (0.389, 0.391):
    print(f"slope of phi at {at}: {float(problem.value_at(at, gradient=True)[1][0]):+.3f}")

# %%
# The picture
# -----------
# The penalty :math:`F_\gamma` rounds the kink off, which is why penalty methods can work with gradients.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[3], span=(0.1, 0.7), points=121)
axes.set_title("The minimum is the kink", loc="left")
axes.set(xlabel="capacity $x$", ylabel="cost")
plt.show()

# %%
# The solution follows the kink
# -----------------------------
# For small allowances the best capacity grows slowly, then it follows the kink along the line
# :math:`x = r`, and then it stays where the limit no longer binds.
sweep = bm.sweep(problem, {room: [0.0, 0.15, 0.3, 0.33, 0.36, 0.39, 0.45, 0.6]})
print(sweep)

# %%
# Why the multiplier matters
# --------------------------
# Gradient methods need the slope of the value function :math:`v(x) = \min_y g(x, y)`. For
# :math:`r = 0` the user answers :math:`y = x`, so :math:`v(x) = x^2` with the slope :math:`2x`. But
# :math:`\partial g/\partial x` at the answer is :math:`4x`: a larger :math:`x` also loosens the
# limit, and the multiplier of the limit says what that is worth.
room.value = 0.0
slope = float(problem.lower_value(1.0, gradient=True)[1][0])
print(f"v'(1) = {slope:.6f}, and 4 without the multiplier")


# %%
# Is it right?
# ------------
# A grid over the pencil's formula, at every allowance, and the solution that the paper gives for
# its own.
def phi(at: np.ndarray, allowance: float) -> np.ndarray:
    """Upper objective at the user's answer."""
    load = np.minimum(np.minimum(2 * at, at + allowance), 3)
    return np.exp(2 - load) / (2 + np.cos(4 * at)) + np.log((4 * at - 2) ** 2 + 1) / 2 + at**2


grid = np.linspace(0, 3, 300_001)
for allowance, value, found in zip(sweep["room"], sweep.values, sweep["x"], strict=True):
    assert abs(value - phi(grid, allowance).min()) < 1e-6, allowance
    assert abs(float(np.ravel(found)[0]) - grid[np.argmin(phi(grid, allowance))]) < 2e-5
assert (
    abs(sweep.values[0] - 2.654498) < 1e-6 and abs(float(np.ravel(sweep["x"][0])[0]) - 0.300705) < 1e-5
)
assert abs(slope - 2) < 1e-5
print("checked: a grid of 300001 points agrees at every allowance")
