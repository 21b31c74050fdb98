"""Pieces of random small bilevel problems, each stated once for cvxpy and for NumPy.

A function of a model is written with ``o``, which stands for cvxpy's atoms or for NumPy's. For the
judge ``x`` and ``y`` are arrays with a column for each point, for the library they are expressions.
``draw`` is a generator of NumPy's, or ``fuzz_draws.Draws``, which asks hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

Function = Callable[[Any, Any, Any], Any]


class Numbers:
    """The atoms for arrays of shape (entries, points)."""

    exp, log, sin, cos, abs = np.exp, np.log, np.sin, np.cos, np.abs

    @staticmethod
    def column(values):
        return np.asarray(values, float)[:, None]

    @staticmethod
    def total(values):
        return np.sum(values, axis=0)

    @staticmethod
    def squares(values):
        return np.sum(np.square(values), axis=0)

    @staticmethod
    def norm(values):
        return np.sqrt(np.sum(np.square(values), axis=0))

    @staticmethod
    def logistic(values):
        return np.logaddexp(0, values)

    @staticmethod
    def positive(values):
        return np.maximum(values, 0)


class Atoms:
    """The same atoms of cvxpy."""

    exp, log, sin, cos, abs = cp.exp, cp.log, cp.nlp.sin, cp.nlp.cos, cp.abs
    total, squares, norm, logistic, positive = cp.sum, cp.sum_squares, cp.norm, cp.logistic, cp.pos

    @staticmethod
    def column(values):
        return np.asarray(values, float)


@dataclass
class Follower:
    """A lower level: least or largest g(x, y, o) over rows(x, y, o) <= 0 and a box, some y whole."""

    g: Function
    rows: list[Function]
    low: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    sense: int = 1
    is_quadratic: bool = True  # g quadratic and rows linear in y: answered by enumeration of faces
    equations: list[Function] = field(default_factory=list)
    edges: list[Callable] = field(default_factory=list)  # curves (x, t) -> y along rows that are curved


@dataclass
class Model:
    """Both levels. ``units`` scale what the library sees; the judge works on the numbers before."""

    kind: str
    seed: int
    f: Function
    rows: list[Function]
    low: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    followers: list[Follower]
    sense: int = 1
    units: dict[str, float] = field(default_factory=dict)  # of x, y, f, g, rows
    style: int = 0  # how boxes are stated
    names: tuple[str, str] = ("x", "y")
    row_units: tuple[float, ...] = ()  # of the lower rows, one after another
    parameters: dict[str, Any] = field(default_factory=dict)  # values that were set first


# Pieces


def digits(values):
    return np.asarray(values).round(1)


def box(draw, n, is_whole=False):
    if is_whole:
        return np.zeros(n), draw.integers(1, 4, n).astype(float)
    low = digits(draw.choice([-2.0, -1.0, 0.0], n))
    return low, low + digits(draw.uniform(1.5, 4, n))


def linear_rows(draw, m, x_box, y_box):
    """Rows A x + B y <= b that the middle of both boxes satisfies."""
    if m == 0:
        return []
    n_x, n_y = len(x_box[0]), len(y_box[0])
    A, B = digits(draw.normal(size=(m, n_x))), digits(draw.normal(size=(m, n_y)) * 1.5)
    A[draw.random(A.shape) < 0.3] = 0.0
    middle = A @ (np.add(*x_box) / 2) + B @ (np.add(*y_box) / 2)
    b = digits(middle + draw.uniform(0.2, 2, m))
    return [lambda x, y, o: A @ x + B @ y - o.column(b)]


def linear(draw, n_x, n_y):
    d, P = digits(draw.normal(size=n_y)), digits(draw.normal(size=(n_x, n_y)))
    if draw.random() < 0.6:
        return lambda x, y, o: d @ y
    return lambda x, y, o: d @ y + sum((P[i] @ y) * x[i] for i in range(n_x))  # prices


def quadratic(draw, n_x, n_y):
    rank = n_y if draw.random() < 0.75 else max(1, n_y - 1)
    L = digits(np.eye(n_y)[:rank] + 0.5 * draw.normal(size=(rank, n_y)))
    M, a, d = (
        digits(draw.normal(size=(rank, n_x))),
        digits(draw.normal(size=rank)),
        digits(draw.normal(size=n_y)),
    )
    return lambda x, y, o: o.squares(L @ y - M @ x - o.column(a)) + d @ y


def curved(draw, n_x, n_y, low):
    """Convex in y at every x, not quadratic."""
    d, P, M = (
        digits(draw.normal(size=n_y)),
        digits(draw.normal(size=(n_x, n_y))),
        digits(draw.normal(size=(n_y, n_x))),
    )
    a, w = digits(draw.normal(size=n_y)), float(digits(draw.uniform(0.2, 1)))
    shift = 1.0 - low
    pull = [
        lambda x, y, o: o.total(o.exp(0.7 * y)) - sum((P[i] @ y) * x[i] for i in range(n_x)),
        lambda x, y, o: -o.total(o.log(y + o.column(shift))) * 2 + d @ y + (P[0] @ y) * x[0],
        lambda x, y, o: o.norm(y - M @ x - o.column(a)) + w * o.squares(y),
        lambda x, y, o: o.total(o.abs(y - M @ x - o.column(a))) + w * o.squares(y),
        lambda x, y, o: o.total(o.logistic(2 * y)) - x[0] * y[0] + w * o.squares(y) + d @ y,
        lambda x, y, o: o.total(o.positive(y - M @ x - o.column(a))) + w * o.squares(y) - d @ y,
        lambda x, y, o: o.exp(d @ y + M[0] @ x) + w * o.squares(y - o.column(a)),
    ]
    return pull[draw.integers(len(pull))]


def wild(draw, n_x, n_y):
    """Not convex in y; with whether it is quadratic."""
    a, b = digits(draw.uniform(1, 3)), digits(draw.normal(size=n_x))
    c, d = digits(draw.normal(size=n_y)), digits(draw.normal(size=n_y))
    w, k = float(digits(draw.uniform(0.1, 1))), int(draw.integers(n_x))
    some = [
        (lambda x, y, o: o.total(o.sin(a * y)) + (b @ x) * y[0] + w * o.squares(y), False),
        (lambda x, y, o: o.total(o.cos(a * y + o.column(c))) - x[k] * y[0], False),
        (lambda x, y, o: o.total(y**3) - 2 * x[k] * y[0] + d @ y, False),
        (lambda x, y, o: o.total((y**2 - 1) ** 2) + w * x[k] * y[0] + d @ y, False),
        (lambda x, y, o: -o.squares(y - o.column(c)) + (b @ x) * y[0], True),
        (lambda x, y, o: o.sin(a * y[0] + b @ x) + o.squares(y - o.column(c)), False),
        (lambda x, y, o: o.exp(-y[0]) * (b @ x) + o.total(o.sin(a * y)), False),
    ]
    if n_y > 1:
        some += 3 * [(lambda x, y, o: y[0] * y[1] + (b @ x) * y[0] + d @ y, True)]
        some += [(lambda x, y, o: y[0] * y[1] * x[k] + o.squares(y) * w + d @ y, True)]
    return some[draw.integers(len(some))]


def tied(draw, n_x, n_y):
    """Indifferent followers; with whether it is quadratic."""
    d = draw.choice([-1.0, 0.0, 0.0, 1.0], n_y)
    at, k = float(draw.choice([0.0, 0.5, 1.0])), int(draw.integers(n_x))
    e = np.ones(n_y)
    some = [
        (lambda x, y, o: d @ y, True),
        (lambda x, y, o: (x[k] - at) * (e @ y), True),
        (lambda x, y, o: (e @ y - x[k]) ** 2, True),
        (lambda x, y, o: o.abs(e @ y - x[k]), False),
        (lambda x, y, o: o.positive(e @ y - x[k] - at), False),
        (lambda x, y, o: y[0] * (x[k] - at), True),
        (lambda x, y, o: -o.squares(y - at), True),
        (lambda x, y, o: o.total(y**3 - 3 * y) * 0.5 + x[k] - x[k] * y[0] * at, False),
        (lambda x, y, o: 0 * y[0], True),
    ]
    return some[draw.integers(len(some))]


def upper_objective(draw, n_x, n_y):
    """Any f, with the senses that suit it."""
    c, d = digits(draw.normal(size=n_x)), digits(draw.normal(size=n_y))
    a, b = digits(draw.normal(size=n_x)), digits(draw.normal(size=n_y))
    P = digits(draw.normal(size=(n_x, n_y)))
    w = float(digits(draw.uniform(0.2, 2)))
    some = [
        lambda x, y, o: c @ x + d @ y,
        lambda x, y, o: o.squares(x - o.column(a)) + w * o.squares(y - o.column(b)),
        lambda x, y, o: c @ x + d @ y + w * o.squares(y - o.column(b)),
        lambda x, y, o: sum((P[i] @ y) * x[i] for i in range(n_x)) + c @ x,
        lambda x, y, o: o.sin(2 * x[0]) + c @ x + d @ y,
        lambda x, y, o: o.exp(0.5 * x[0]) + d @ y + w * o.total(o.abs(x - o.column(a))),
        lambda x, y, o: -o.squares(x - o.column(a)) + d @ y,
        lambda x, y, o: o.norm(y - o.column(b)) + c @ x,
    ]
    return some[draw.integers(len(some))], int(draw.choice([1, 1, -1]))


# Followers by class


def follower(draw, kind, x_box, n_y=None):
    n_x = len(x_box[0])
    is_smooth = kind in ("convex", "nonconvex", "ties")
    n_y = n_y or int(draw.integers(1, 3 if is_smooth else 4))
    low, high = box(draw, n_y)
    m = int(draw.integers(0, 3))
    sense = int(draw.choice([1, -1]))
    rows, edges, is_quadratic = linear_rows(draw, m, x_box, (low, high)), [], True
    if kind == "lp":
        g = linear(draw, n_x, n_y)
    elif kind == "qp":
        g = quadratic(draw, n_x, n_y)
    elif kind == "convex":
        is_quadratic = False
        if n_y == 2 and draw.random() < 0.3:  # a disc that moves with x
            g, middle = linear(draw, n_x, n_y), (low + high) / 2
            radius, s = float(digits(draw.uniform(0.5, 1.5))), digits(0.4 * draw.normal(size=n_x))

            def disc(x, y, o):
                return o.squares(y - o.column(middle)) - radius - (s @ x) ** 2

            def circle(x, t):
                r = np.sqrt(radius + (s @ x) ** 2)
                return middle[:, None] + r * np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)])

            rows, edges = [*rows, disc], [circle]
        else:
            g = curved(draw, n_x, n_y, low)
    elif kind == "nonconvex":
        g, is_quadratic = wild(draw, n_x, n_y)
    else:
        g, is_quadratic = tied(draw, n_x, n_y)
        if m and draw.random() < 0.5:
            rows = rows + rows  # the same rows twice: no unique multipliers
    equations = []
    if kind in ("lp", "qp") and n_y > 1 and draw.random() < 0.2:
        e, s = digits(draw.uniform(0.5, 1.5, n_y)), digits(0.3 * draw.normal(size=n_x))
        t = float(digits(e @ (low + high) / 2))
        equations = [lambda x, y, o: e @ y - s @ x - t]
    if sense < 0:
        g = negative(g)
    return Follower(
        g, rows, low, high, np.zeros(n_y, bool), sense, is_quadratic, equations=equations, edges=edges
    )


def negative(g):
    return lambda x, y, o: -g(x, y, o)


def coupling(draw, x_box, y_box):
    """An upper row that holds y too, by far not always."""
    return linear_rows(draw, 1, x_box, y_box) if draw.random() < 0.35 else []


def finished(draw, kind, seed, x_box, x_whole, followers):
    y_box = tuple(
        np.concatenate([getattr(each, side) for each in followers]) for side in ("low", "high")
    )
    f, sense = upper_objective(draw, len(x_box[0]), len(y_box[0]))
    rows = coupling(draw, x_box, y_box)
    return Model(kind, seed, f, rows, *x_box, x_whole, followers, sense, style=int(draw.integers(3)))
