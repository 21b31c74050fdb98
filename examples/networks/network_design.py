r"""
Which road to widen
===================

A town widens roads; the drivers then choose their own ways, until nobody gains by another.

Six thousand drivers an hour go from *s* to *t* over *a*, over *b*, or over both by a short cut. The time
on a link grows with its traffic :math:`v` and falls with its width: :math:`f + b\,v / (1 + x)`. Drivers
settle in a *user equilibrium*: all ways in use take the same time, and no other way is faster. Beckmann
showed in 1956 that this is the solution of a convex problem, so that it can be a lower level:

.. math:: \min_{x \ge 0} \; \sum_i v_i \Bigl(f_i + \frac{b_i v_i}{1 + x_i}\Bigr) + 2 \sum_i x_i
          \quad\text{where}\quad h \in \operatorname{argmin}_{h \ge 0,\; \sum h = 6} \;
          \sum_i \int_0^{v_i} \Bigl(f_i + \frac{b_i u}{1 + x_i}\Bigr) du, \qquad v = A h.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import blomodel as bm

free = np.array([1.0, 5.0, 5.0, 1.0, 0.5])  # the links sa, at, sb, bt, ab
slope = np.array([1.0, 0.2, 0.2, 1.0, 0.2])
ways = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [1, 0, 0, 1, 1]]).T  # over a, over b, over both

x = cp.Variable(2, name="x")  # more width for sa and for bt
h = cp.Variable(3, name="h")  # drivers on each way
flow = ways @ h
width = 1 + cp.hstack([x[0], 0, 0, x[1], 0])
queues = cp.hstack([slope[i] * cp.quad_over_lin(flow[i], width[i]) for i in range(5)])

drivers = bm.Lower(
    cp.Minimize(free @ flow + cp.sum(queues) / 2), [h >= 0, cp.sum(h) == 6], variables=[h]
)
total_time = free @ flow + cp.sum(queues)
problem = bm.BilevelProblem(cp.Minimize(total_time + 2 * cp.sum(x)), [0 <= x, x <= 5], drivers)
problem.solve()
print(problem.solution)

# %%
# The drivers minimise the *half* of the queues (the integral of the times), the town pays for the whole.
# That is why the drivers' answer is not what is best for all of them.
#
# The picture
# -----------
# What the town pays for every pair of widths.
figure, axes = plt.subplots(figsize=(5, 3.8), layout="constrained")
problem.plot(ax=axes, gammas=[], points=31)
axes.set_title("Travel time and cost of the roads", loc="left")
axes.set(xlabel="width of sa", ylabel="width of bt")
plt.show()

# %%
# What would the drivers do with other roads? ``answer`` tells, without solving the bilevel problem
# again.
for widths in ([0.0, 0.0], [3.0, 0.0], [5.0, 5.0]):
    found = problem.answer(widths)
    print(f"widths {widths}: ways {found.y.round(3) + 0.0}, town pays {found.value:.3f}")


# %%
# Is it right?
# ------------
# *Wardrop's condition*: at the widths found, every way in use takes the same time. And SciPy, which
# solves the equilibrium anew for each pair of widths, finds no better pair.
def equilibrium(widths: np.ndarray) -> np.ndarray:
    """Flows on the links, by SciPy."""
    grown = 1 + np.array([widths[0], 0, 0, widths[1], 0])

    def beckmann(on: np.ndarray) -> float:
        v = ways @ on
        return free @ v + np.sum(slope * v**2 / grown) / 2

    rule = {"type": "eq", "fun": lambda on: on.sum() - 6}
    return ways @ minimize(beckmann, np.full(3, 2.0), bounds=[(0, 6)] * 3, constraints=rule, tol=1e-10).x


def pays(widths: np.ndarray) -> float:
    """What the town pays."""
    v = equilibrium(widths)
    return (
        free @ v
        + np.sum(slope * v**2 / (1 + np.array([widths[0], 0, 0, widths[1], 0])))
        + 2 * sum(widths)
    )


times = ways.T @ (free + slope * flow.value / width.value)
assert np.all(times[h.value > 1e-4] <= times.min() + 1e-4), "a driver would change"
tried = [pays(np.array([a, b])) for a in np.linspace(0, 5, 11) for b in np.linspace(0, 5, 11)]
assert problem.status == "optimal" and problem.value <= min(tried) + 1e-6
assert abs(pays(x.value) - problem.value) < 1e-3
print(f"checked: ways take {times.round(4)} minutes; the best of 121 pairs costs {min(tried):.4f}")
