"""Problems with a smooth, free lower level, and their answers."""

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.methods.run.run import Run
from blomodel.problems.smooth_papers import flat_lower


def quadratic(n_x=5, n_y=6, condition=10.0, seed=0):
    """A strongly convex quadratic problem; returns it with the answer in x and y."""
    random = np.random.default_rng(seed)
    q, _ = np.linalg.qr(random.standard_normal((n_y, n_y)))
    a = q @ np.diag(np.geomspace(1, condition, n_y)) @ q.T
    b, target = random.standard_normal((n_y, n_x)), random.standard_normal(n_y)
    shift = random.standard_normal(n_y)
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    g = 0.5 * cp.quad_form(y, (a + a.T) / 2, assume_PSD=True) - y @ (b @ x + shift)
    f = 0.5 * cp.sum_squares(y - target) + 0.05 * cp.sum_squares(x)
    problem = bm.BilevelProblem(cp.Minimize(f), [], bm.Lower(cp.Minimize(g), [], variables=[y]))
    slope, rest = np.linalg.solve(a, b), np.linalg.solve(a, shift)
    x_best = np.linalg.solve(slope.T @ slope + 0.1 * np.eye(n_x), slope.T @ (target - rest))
    return problem, x, y, x_best, slope @ x_best + rest


def logistic(n_x=3, n_y=4, n_rows=12, seed=0):
    """Weights of ridge and rows in a logistic regression; the lower Hessian depends on x and y."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n_rows, n_y))
    held_out = random.standard_normal((n_rows, n_y))
    signs = np.sign(random.standard_normal(n_rows))
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    mixing = random.standard_normal((n_y, n_x)) / 2
    g = (
        cp.sum(cp.logistic(cp.multiply(-signs, rows @ y))) / n_rows
        + 0.5 * cp.sum_squares(y)
        - y @ (mixing @ x)
    )
    f = cp.sum_squares(held_out @ y - signs) / n_rows + 0.1 * cp.sum_squares(x - 1) + x[0] * y[1]
    problem = bm.BilevelProblem(cp.Minimize(f), [], bm.Lower(cp.Minimize(g), [], variables=[y]))
    return problem, x, y


def galet_example(x_start, y_start):
    """Example 1 of the GALET paper from a given start."""
    problem = flat_lower()
    (x,), (y,) = problem.levels.upper, problem.levels.lower
    x.value, y.value = x_start, np.array(y_start)
    return problem, x, y


def lower_answer(model, x, y=None, p=None):
    """The lower minimiser by Newton steps, to rounding."""
    p = np.zeros(0) if p is None else p
    y = np.zeros(model.y.size) if y is None else y.copy()
    for _ in range(50):
        slope = model.g_grad(x, y, p)[model.x.size :]
        hessian = model.g_hessian(x, y, p)[model.x.size :, model.x.size :]
        y = y - np.linalg.solve(hessian, slope)
    return y


def true_gradient(model, x, step=1e-5):
    """Central differences of f(x, y*(x))."""
    p = np.zeros(0)
    gradient = np.zeros(x.size)
    for i in range(x.size):
        unit = step * np.eye(x.size)[i]
        ahead, behind = x + unit, x - unit
        rise = model.f(ahead, lower_answer(model, ahead), p)[0]
        rise -= model.f(behind, lower_answer(model, behind), p)[0]
        gradient[i] = rise / (2 * step)
    return gradient


def new_run(problem, start=None, tolerance=1e-6, **limits):
    """A run of its own, for methods called without solve."""
    return Run(
        model=problem.model,
        p=problem.parameter_values(),
        start=start,
        tolerance=tolerance,
        seed=0,
        **limits,
    )
