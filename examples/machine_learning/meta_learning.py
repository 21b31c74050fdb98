r"""
A start from which every task is learned fast
=============================================

Meta-learning: six tasks with two samples each share a point near which their models stay.

Each task is a small regression with too few samples of its own. Its model is held near a common point
:math:`\theta`; the upper level chooses :math:`\theta` so that the models predict *other* samples well.

.. math:: \min_\theta \; \frac16 \sum_k \|X'_k w_k - t'_k\|^2 \quad\text{where}\quad
          w_k = \operatorname{argmin}_w \; \|X_k w - t_k\|^2 + \|w - \theta\|^2.

The paper on implicit MAML (Rajeswaran, Finn, Kakade and Levine, 2019) states it so for neural networks.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

rng = np.random.default_rng(0)
common = np.array([1.0, -2.0, 0.5])  # what the tasks have in common; the model does not know it


def task() -> list[np.ndarray]:
    """Two samples to learn from and six to look at, of a law near the common one."""
    X, law = rng.standard_normal((8, 3)), common + 0.3 * rng.standard_normal(3)
    t = X @ law + 0.1 * rng.standard_normal(8)
    return [X[:2], t[:2], X[2:], t[2:]]


tasks = [task() for _ in range(6)]

theta = cp.Variable(3, name="theta")
learners, loss = [], 0
for k, (X, t, X_other, t_other) in enumerate(tasks):
    w = cp.Variable(3, name=f"w{k}")
    fit = cp.sum_squares(X @ w - t) + cp.sum_squares(w - theta)
    learners.append(bm.Lower(cp.Minimize(fit), variables=[w], name=f"task {k}"))
    loss += cp.sum_squares(X_other @ w - t_other) / 6
problem = bm.BilevelProblem(cp.Minimize(loss), [], learners)
problem.solve()
print(problem.status, "theta", theta.value.round(3), "loss", round(problem.value, 4))

# %%
# A new task
# ----------
# Two samples are not enough for three unknowns. Held near :math:`\theta` they are.
X, t, X_other, t_other = task()


def learn(start: np.ndarray) -> np.ndarray:
    """The model of the new task when it is held near a start."""
    return np.linalg.solve(X.T @ X + np.eye(3), X.T @ t + start)


errors = {}
for name, start in (("near 0", np.zeros(3)), ("near theta", theta.value)):
    errors[name] = float(np.mean((X_other @ learn(start) - t_other) ** 2))
    print(f"model of the new task {name}: mean error {errors[name]:.3f}")

# %%
# The picture
# -----------
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.plot(t_other, X_other @ learn(np.zeros(3)), "s", color="#BBBBBB", markersize=9, label="held near 0")
axes.plot(
    t_other,
    X_other @ learn(theta.value),
    "o",
    color="#0072B2",
    markersize=9,
    label=r"held near $\theta$",
)
axes.axline((0, 0), slope=1, color="#000000", linewidth=1)
axes.set(title="A new task with two samples", xlabel="truth", ylabel="prediction")
axes.legend(frameon=False)
plt.show()

# %%
# Is it right?
# ------------
# Each model is :math:`w_k = M_k^{-1}(X_k^\top t_k + \theta)` with :math:`M_k = X_k^\top X_k + I`.
# So the loss is one least-squares problem in :math:`\theta`, which NumPy solves.
rows, wanted = [], []
for X, t, X_other, t_other in tasks:
    M = X.T @ X + np.eye(3)
    rows.append(X_other @ np.linalg.inv(M))
    wanted.append(t_other - X_other @ np.linalg.solve(M, X.T @ t))
best, squares, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(wanted), rcond=None)
assert problem.status == "optimal" and abs(problem.value - squares[0] / 6) < 1e-6
assert np.allclose(theta.value, best, atol=1e-4) and errors["near theta"] < errors["near 0"]
print(f"checked: least squares gives theta {best.round(3)} as well")
