"""Random bilevel problems in one or two variables of each level, and their optimum by brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import minimize

import blomodel as bm

KINDS = ("linear", "quadratic", "absolute", "exponential", "double well", "sine", "cubic")
EXACT = 1e-9


@dataclass(frozen=True)
class Stated:
    """The same problem as plain functions over the boxes [-1, 1]; rows are ``<= 0``."""

    n_x: int
    n_y: int
    f: Callable[[np.ndarray, np.ndarray], float]
    g: Callable[[np.ndarray, np.ndarray], float]
    lower_rows: list[Callable[[np.ndarray, np.ndarray], float]]
    upper_rows: list[Callable[[np.ndarray, np.ndarray], float]]


def random_problem(seed: int) -> tuple[bm.BilevelProblem, Stated]:
    """A problem of the kind ``KINDS[seed % len(KINDS)]``."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    n_x, n_y = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    b, C = np.round(rng.normal(size=n_y), 2), np.round(rng.normal(size=(n_y, n_x)), 2)
    slope_x, slope_y = np.round(rng.normal(size=n_x), 2), np.round(rng.normal(size=n_y), 2)
    weight, bend = np.round(np.abs(rng.normal(size=n_y)), 2) + 0.1, float(rng.integers(0, 2))
    row_y, row_x = np.round(rng.normal(size=n_y), 2), np.round(rng.normal(size=n_x), 2)
    room = round(0.4 + 0.5 * abs(rng.normal()), 2)
    coupling, has_upper_row = rng.integers(0, 3), rng.integers(0, 4) == 0

    def f(x: Any, y: Any) -> Any:
        squares = sum((x[k] - 0.3) ** 2 for k in range(n_x)) + sum((y[k] + 0.2) ** 2 for k in range(n_y))
        return slope_x @ x + slope_y @ y + bend * squares

    def g(x: Any, y: Any) -> Any:
        sin, exp, size = (cp.nlp.sin, cp.exp, cp.abs) if isinstance(y, cp.Expression) else _NUMPY
        terms = {
            "linear": lambda u, w: 0.0 * u,
            "quadratic": lambda u, w: w * u**2,
            "absolute": lambda u, w: w * size(u - 0.2) + 0.3 * u**2,
            "exponential": lambda u, w: exp(w * u),
            "double well": lambda u, w: 0.4 * u**4 - w * u**2,
            "sine": lambda u, w: sin(3 * w * u + x[0]),
            "cubic": lambda u, w: 0.5 * w * u**3,
        }
        own = sum(terms[kind](y[k], weight[k]) for k in range(n_y))
        return own + b @ y + sum((C @ x)[k] * y[k] for k in range(n_y))

    lower_rows, upper_rows = [], []
    if coupling == 1:
        lower_rows.append(lambda x, y: row_y @ y + row_x @ x - room)
    if coupling == 2 and kind != "linear":
        lower_rows.append(lambda x, y: sum(y[k] ** 2 for k in range(n_y)) - 1.2 - 0.6 * x[0])
    if has_upper_row:
        upper_rows.append(lambda x, y: y[0] - x[0] - 0.7)
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    below = [-1 <= y, y <= 1, *(row(x, y) <= 0 for row in lower_rows)]
    above = [-1 <= x, x <= 1, *(row(x, y) <= 0 for row in upper_rows)]
    lower = bm.Lower(cp.Minimize(g(x, y)), below, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f(x, y)), above, lower)
    return problem, Stated(n_x, n_y, f, g, lower_rows, upper_rows)


_NUMPY = (np.sin, np.exp, np.abs)


def brute_force(problem: Stated) -> float:
    """The best f of bilevel feasible points on a grid of x: an upper bound of the optimum."""
    best = np.inf
    for x in _grid(problem.n_x, 15 if problem.n_x == 1 else 5):
        answers = _lower_answers(problem, x)
        if not answers:
            continue
        value = min(g for g, _ in answers)
        for g, y in answers:
            if g <= value + EXACT and all(row(x, y) <= EXACT for row in problem.upper_rows):
                best = min(best, float(problem.f(x, y)))
    return best


def _lower_answers(problem: Stated, x: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Lower points: the best of a grid, and where searches from these end."""
    points = _grid(problem.n_y, 61 if problem.n_y == 1 else 11)
    feasible = [y for y in points if all(row(x, y) <= 0 for row in problem.lower_rows)]
    found = sorted(((float(problem.g(x, y)), y) for y in feasible), key=lambda pair: pair[0])[:2]
    rows = [
        {"type": "ineq", "fun": lambda y, row=row: -row(x, y)}  # noqa: B023
        for row in problem.lower_rows
    ]
    is_exact = False
    for _, start in list(found):
        end = minimize(
            lambda y: float(problem.g(x, y)),
            start,
            bounds=[(-1, 1)] * problem.n_y,
            constraints=rows,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 200},
        )
        if end.success and all(row(x, end.x) <= EXACT for row in problem.lower_rows):
            found.append((float(problem.g(x, end.x)), end.x))
            is_exact = True
    return found if is_exact else []  # the best point of a grid alone is no lower answer


def _grid(n: int, count: int) -> np.ndarray:
    axes = np.meshgrid(*[np.linspace(-1, 1, count)] * n)
    return np.stack(axes, -1).reshape(-1, n)
