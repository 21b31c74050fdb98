r"""
A classifier that expects an attack
===================================

Adversarial training: fit a line between two classes while an attacker moves every point.

After the line :math:`w^\top z + b` is drawn, an attacker may shift each point :math:`z_i` by up to
:math:`\varepsilon` in each coordinate, and shifts it to the wrong side as far as it can. The upper level
pays the logistic loss at the *shifted* points:

.. math:: \min_{w, b} \; \frac1n \sum_i \log\bigl(1 + e^{-m_i}\bigr) + \tfrac1{20} \|w\|^2
          \quad\text{where}\quad
          d \in \operatorname{argmin}_{|d| \le \varepsilon} \; \sum_i m_i, \qquad
          m_i = l_i\,(w^\top (z_i + d_i) + b).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

rng = np.random.default_rng(1)
n, reach = 16, 0.4
labels = np.repeat([1.0, -1.0], n // 2)
points = 0.6 * rng.standard_normal((n, 2)) + np.outer(labels, [1.0, 1.0])

w, b = cp.Variable(2, name="w"), cp.Variable(name="b")
shift = cp.Variable((n, 2), name="shift")
margins = cp.multiply(labels, (points + shift) @ w + b)
attacker = bm.Lower(
    cp.Minimize(cp.sum(margins)),
    [-reach <= shift, shift <= reach],
    variables=[shift],
    name="the attacker",
)
loss = cp.sum(cp.logistic(-margins)) / n + cp.sum_squares(w) / 20
problem = bm.BilevelProblem(cp.Minimize(loss), [], attacker)
problem.solve()
print(problem.solution.status, "loss under attack", round(problem.value, 6), "w", w.value.round(4))

# %%
# For a given line the attacker's problem is linear: it moves every point against :math:`w`, to a
# corner of its square. Which corner changes with the sign of :math:`w_j`: there the loss has a
# kink.
#
# The picture
# -----------
# The points, how far each was shifted, and the line.
figure, axes = plt.subplots(figsize=(5, 3.8), layout="constrained")
moved = points + shift.value
for label, colour in ((1.0, "#0072B2"), (-1.0, "#E69F00")):
    chosen = labels == label
    axes.plot(*points[chosen].T, "o", color=colour, markersize=9)
    axes.plot(*moved[chosen].T, "x", color=colour, markersize=7)
axes.plot(*np.stack([points, moved], axis=0).transpose(2, 0, 1), color="#BBBBBB", linewidth=2, zorder=0)
axes.axline((0, -float(b.value) / w.value[1]), slope=-w.value[0] / w.value[1], color="#000000")
axes.set(title="Points (dots), attacked (crosses)", aspect="equal")
plt.show()

# %%
# Is it right?
# ------------
# For a linear classifier the attack has a formula: each margin loses :math:`\varepsilon \|w\|_1`.
# With it the problem is one convex problem, which cvxpy solves.
v, c = cp.Variable(2), cp.Variable()
attacked = cp.multiply(labels, points @ v + c) - reach * cp.norm1(v)
robust = cp.Problem(cp.Minimize(cp.sum(cp.logistic(-attacked)) / n + cp.sum_squares(v) / 20))
robust.solve(solver=cp.CLARABEL)
assert problem.certificate.accepted
assert abs(problem.value - robust.value) < 1e-5 and np.allclose(v.value, w.value, atol=1e-2)
print(f"checked: the robust counterpart has the loss {robust.value:.6f}")
