"""Random small bilevel problems of every kind, each stated once for cvxpy and for NumPy.

A function of a model is written with ``o``, which stands for cvxpy's atoms or for NumPy's. For the
judge ``x`` and ``y`` are arrays with a column for each point, for the library they are expressions.
``draw_model(seed)`` gives the same model for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np

import blomodel as bm

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


# Models by class


def plain(draw, kind, seed):
    x_box = box(draw, int(draw.choice([1, 1, 2, 3] if kind in ("lp", "qp") else [1, 1, 2])))
    return finished(
        draw, kind, seed, x_box, np.zeros(len(x_box[0]), bool), [follower(draw, kind, x_box)]
    )


def several(draw, kind, seed):
    x_box = box(draw, int(draw.integers(1, 3)))
    kinds = draw.choice(["lp", "qp", "qp", "convex", "nonconvex"], int(draw.integers(2, 4)))
    followers = [follower(draw, each, x_box, int(draw.integers(1, 3))) for each in kinds]
    return finished(draw, kind, seed, x_box, np.zeros(len(x_box[0]), bool), followers)


def whole(draw, kind, seed):
    """Whole numbers above, below or at both levels; some levels are mixed."""
    is_above, is_below = kind in ("integers above", "integers both"), kind != "integers above"
    n_x = int(draw.integers(1, 4))
    x_whole = np.full(n_x, is_above)
    if is_above and n_x > 1 and draw.random() < 0.3:
        x_whole[-1] = False
    if not is_above and n_x == 3:
        n_x, x_whole = 2, x_whole[:2]
    x_box = box(draw, n_x, is_above)
    below = str(draw.choice(["lp", "qp", "lp", "qp", "convex", "nonconvex"]))
    each = follower(draw, below, x_box)
    if is_below:
        n_y = len(each.low)
        each.low, each.high = box(draw, n_y, True)
        each.whole = np.ones(n_y, bool)
        if each.is_quadratic and n_y > 1 and draw.random() < 0.35:
            each.whole[-1] = False
        low = np.zeros(n_y)  # logarithms want the box that they were drawn for
        draw_again = np.random.default_rng([seed, 7])
        m = int(draw.integers(0, 3))
        each.rows, each.edges = linear_rows(draw, m, x_box, (each.low, each.high)), []
        each.equations = []
        if below == "convex":
            each.g = curved(draw_again, n_x, n_y, low)
            each.sense = 1
    return finished(draw, kind, seed, x_box, x_whole, [each])


def scaled(draw, kind, seed):
    model = plain(draw, str(draw.choice(["lp", "qp", "convex", "nonconvex"])), seed)
    powers = {"x": (-2, 4), "y": (-2, 4), "f": (-2, 5), "g": (-4, 5), "rows": (-2, 4)}
    units = {name: 10.0 ** draw.integers(*span) for name, span in powers.items()}
    return replace(model, kind=kind, units=units)


def hopeless(draw, kind, seed):
    """Perhaps infeasible, unbounded above or below, or only just solvable."""
    x_box = box(draw, int(draw.integers(1, 3)))
    n_x = len(x_box[0])
    model = finished(
        draw,
        kind,
        seed,
        x_box,
        np.zeros(n_x, bool),
        [follower(draw, str(draw.choice(["lp", "qp", "nonconvex"])), x_box)],
    )
    each, case = model.followers[0], int(draw.integers(5))
    n_y = len(each.low)
    level = float(draw.choice([-0.3, 0.0, 0.2, 1.0]))
    if case == 0:  # the leader asks for more than there may be
        model.rows = [lambda x, y, o: each.high[0] + level - y[0] + x[0] - x_box[1][0]]
    elif case == 1:  # the follower's rows may contradict each other, at some x or at all
        top, middle = each.high.sum(), float(np.mean(x_box[0] + x_box[1]) / 2)
        each.rows = [*each.rows, lambda x, y, o: top + level + 0.5 * (x[0] - middle) - o.total(y)]
        each.edges = []
    elif case == 2:  # x without an end
        model.high = np.full(n_x, np.inf)
        each.rows, each.edges = [], []
    elif case == 3:  # y without an end, g strictly convex or not
        each.low, each.high, each.rows = np.full(n_y, -np.inf), np.full(n_y, np.inf), []
        each.equations = []
        each.g, each.sense, each.is_quadratic = quadratic(draw, n_x, n_y), 1, True
        model.f = lambda x, y, o: o.total(y) + x[0]
    else:  # the leader's rows contradict each other, or nearly
        model.rows = [lambda x, y, o: x[0] - x_box[0][0] - level]
    return model


CLASSES = {
    "lp": (plain, 250),
    "qp": (plain, 250),
    "convex": (plain, 250),
    "nonconvex": (plain, 250),
    "ties": (plain, 200),
    "followers": (several, 150),
    "integers above": (whole, 150),
    "integers below": (whole, 150),
    "integers both": (whole, 150),
    "units": (scaled, 100),
    "no answer": (hopeless, 100),
}
# Every forty seeds hold every class in its share.
ORDER = [kind for kind, (_, count) in CLASSES.items() for _ in range(count // 50)]


def degenerate(draw, kind, seed):
    """Rows that say nothing or the same again, variables that are fixed, large constants."""
    model = plain(draw, str(draw.choice(["lp", "qp", "ties", "convex"])), seed)
    each = model.followers[0]
    rows, f, g = list(each.rows), model.f, each.g
    for case in draw.choice(6, 2, replace=False):
        if case == 0:  # the same rows in other units
            rows += [lambda x, y, o, row=row: 1e3 * row(x, y, o) for row in each.rows]
        elif case == 1:  # 0 <= 0 and 0 <= 1
            rows += [lambda x, y, o: 0 * y[0], lambda x, y, o: 0 * (y[0] + x[0]) - 1]
        elif case == 2 and each.is_quadratic:  # an answer that is known
            k = int(draw.integers(len(each.low)))
            each.low[k] = each.high[k] = (each.low[k] + each.high[k]) / 2
        elif case == 3:
            model.f = lambda x, y, o: f(x, y, o) + 1e3
        elif case == 4:
            each.g = lambda x, y, o: g(x, y, o) - 1e3
        elif case == 5:  # a bound as a row
            rows += [lambda x, y, o, top=each.high[0]: y[0] - top]
    each.rows = rows
    return replace(model, kind=kind)


def with_attributes(draw, kind, seed):
    """Bounds by attributes of variables, and variables that are columns."""
    model = plain(draw, str(draw.choice(["lp", "qp", "convex", "nonconvex"])), seed)
    for part in (model, *model.followers):
        part.high = part.high - part.low
        part.low = np.zeros(len(part.low))
    return replace(model, kind=kind, style=int(draw.choice([4, 5])))


# From here on every fifth model is of a further class; those before keep their numbers.
FURTHER_FROM = 10_000
FURTHER = {"degenerate": degenerate, "attributes": with_attributes}


def draw_model(seed: int) -> Model:
    """The model of this number; the classes take turns."""
    if seed >= FURTHER_FROM and seed % 5 == 0:
        kind = [*FURTHER][seed // 5 % len(FURTHER)]
        return FURTHER[kind](np.random.default_rng([2026, seed]), kind, seed)
    kind = ORDER[seed % len(ORDER)]
    make, _ = CLASSES[kind]
    return make(np.random.default_rng([2026, seed]), kind, seed)


# For the library


def variable(low, high, whole, name, style):
    """An expression of scalars, some whole, its variables, and the box as constraints."""
    n = len(low)
    if whole.any() and not whole.all():
        parts = [cp.Variable(name=f"{name}{i}", integer=bool(whole[i])) for i in range(n)]
        z, own = cp.hstack(parts), parts
    elif style in (4, 5) and np.all(low == 0) and np.all(np.isfinite(high)) and not whole.any():
        z_ = cp.Variable((n, 1) if style == 5 else n, name=name, nonneg=True)
        z = cp.reshape(z_, (n,), order="F") if style == 5 else z_
        return z, [z_], [z <= high]
    elif style == 1 and np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
        z = cp.Variable(n, name=name, bounds=[low, high], integer=bool(whole.any()))
        return z, [z], []
    elif whole.all() and np.all(low == 0) and np.all(high == 1):
        z = cp.Variable(n, name=name, boolean=True)
        return z, [z], []
    else:
        z = cp.Variable(n, name=name, integer=bool(whole.any()))
        own = [z]
    rows = []
    if np.any(np.isfinite(low)):
        rows.append(z[np.isfinite(low)] >= low[np.isfinite(low)])
    if np.any(np.isfinite(high)):
        rows.append(z[np.isfinite(high)] <= high[np.isfinite(high)])
    return z, own, rows


def state(model: Model):
    """The problem for the library, and a function that reads x and y in the judge's units."""
    unit = {"x": 1.0, "y": 1.0, "f": 1.0, "g": 1.0, "rows": 1.0, **model.units}
    big, own, above = variable(
        model.low * unit["x"], model.high * unit["x"], model.whole, "x", model.style
    )
    x = big if unit["x"] == 1 else big / unit["x"]
    lowers, ys, owners = [], [], []
    for k, each in enumerate(model.followers):
        name = "y" if len(model.followers) == 1 else f"y{'abc'[k]}"
        large, names, rows = variable(
            each.low * unit["y"], each.high * unit["y"], each.whole, name, model.style
        )
        y = large if unit["y"] == 1 else large / unit["y"]
        rows += [unit["rows"] * row(x, y, Atoms) <= 0 for row in each.rows]
        rows += [row(x, y, Atoms) == 0 for row in each.equations]
        g = unit["g"] * each.g(x, y, Atoms)
        lowers.append(
            bm.Lower(cp.Minimize(g) if each.sense > 0 else cp.Maximize(g), rows, variables=names)
        )
        ys.append(y)
        owners.append(names)
    y = ys[0] if len(ys) == 1 else cp.hstack(ys)
    f = unit["f"] * model.f(x, y, Atoms)
    above += [unit["rows"] * row(x, y, Atoms) <= 0 for row in model.rows]
    objective = cp.Minimize(f) if model.sense > 0 else cp.Maximize(f)
    problem = bm.BilevelProblem(objective, above, lowers[0] if len(lowers) == 1 else lowers)

    def read():
        at_x = np.concatenate([np.ravel(each.value) for each in own]) / unit["x"]
        at_y = np.concatenate([np.ravel(each.value) for names in owners for each in names]) / unit["y"]
        return at_x, at_y

    return problem, read
