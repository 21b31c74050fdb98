"""Random small bilevel problems of every kind.

``draw_model(seed)`` is the same model for ever; ``KINDS[kind](draw, kind, seed)`` draws one of a kind.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
from fuzz_closed_forms import SPECIAL
from fuzz_pieces import (
    Model,
    Numbers,
    box,
    curved,
    digits,
    finished,
    follower,
    linear_rows,
    quadratic,
)


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
        is_seeded = isinstance(draw, np.random.Generator)
        draw_again = np.random.default_rng([seed, 7]) if is_seeded else draw
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


def in_shapes(draw, kind, seed):
    """Variables of every shape and attribute, names that nobody should use."""
    model = plain(draw, str(draw.choice(["lp", "qp", "convex", "nonconvex", "ties"])), seed)
    style = int(draw.choice([6, 6, 7, 8, 9]))
    if style == 9:  # nonpos
        for part in (model, *model.followers):
            part.low = part.low - part.high
            part.high = np.zeros(len(part.high))
        model = without_logarithms(draw, model)
    names = str(draw.choice(NAMES)), str(draw.choice(NAMES))
    return replace(model, kind=kind, style=style, names=names)


def without_logarithms(draw, model):
    """A lower level for a box that was moved."""
    each, n_x = model.followers[0], len(model.low)
    if each.is_quadratic:
        return model
    n_y = len(each.low)
    each.g, each.sense, each.is_quadratic = quadratic(draw, n_x, n_y), 1, True
    each.rows = linear_rows(draw, 1, (model.low, model.high), (each.low, each.high))
    each.edges, each.equations = [], []
    model.rows = []
    return model


NAMES = (
    "x",
    "y",
    "<script>alert(1)</script>",
    "$\\frac{x}{",
    "変数 \u2603",
    "a\nb",
    "",
    "%s {0}",
    "x[0]",
    "lambda",
    "'; DROP TABLE",
    "\u202egnorw",
)


def hostile(draw, kind, seed):
    """Zero rows and columns, the same row twice, rows in units of their own, narrow boxes."""
    model = plain(draw, str(draw.choice(["lp", "qp", "ties"])), seed)
    each = model.followers[0]
    rows, g = list(each.rows), each.g
    for case in draw.choice(6, 2, replace=False):
        if case == 0:  # an entry of y that occurs nowhere below
            each.g = without_last(g, len(each.low))
        elif case == 1 and rows:  # the same row, its units and its sign
            first = rows[0]
            rows += [
                lambda x, y, o, row=first: 1e-4 * row(x, y, o),
                lambda x, y, o, row=first: row(x, y, o) - 1e-9,
            ]
        elif case == 2:  # a row between two others that leave a line only
            rows += [lambda x, y, o, at=each.low[0]: at - y[0], lambda x, y, o: 0 * x[0] - 1e-3]
        elif case == 3:  # x may hardly move
            model.high = model.low + np.where(np.arange(len(model.low)) == 0, 1e-4, 1.0)
        elif case == 4:  # coefficients that nobody means
            each.g = lambda x, y, o: g(x, y, o) + 1e-10 * y[0]
        elif case == 5:
            model.high = model.low.copy()  # nothing to decide
    each.rows = rows
    count = sum(1 for _ in rows)
    units = tuple(10.0 ** draw.integers(-4, 5, count)) if count else ()
    return replace(model, kind=kind, row_units=units)


def without_last(g, n):
    """A function that does not see the last entry of y."""
    keep = np.ones(n)
    keep[-1] = 0.0
    return lambda x, y, o: g(x, o.column(keep) * y if o is Numbers else cp.multiply(keep, y), o)


def with_parameters(draw, kind, seed):
    """Solved with other values first: what was derived for them must not be left behind."""
    model = plain(draw, str(draw.choice(["lp", "qp", "convex", "nonconvex"])), seed)
    each = model.followers[0]
    g, q = each.g, digits(draw.normal(size=len(each.low)))
    each.g = lambda x, y, o: g(x, y, o) + q @ y
    first = {"f": float(draw.choice([0.0, 0.5, 2.0])), "q": digits(draw.normal(size=len(q)))}
    first["g"], first["right"] = g, float(draw.choice([0.0, 0.5, 1e3]))
    first["now"] = q
    return replace(model, kind=kind, parameters=first)


# From these numbers on further classes take turns with the others; those before keep their numbers.
FURTHER_FROM, LATER_FROM = 10_000, 100_000
FURTHER = {"degenerate": degenerate, "attributes": with_attributes}
LATER = {"shapes": in_shapes, "hostile data": hostile, "parameters": with_parameters}


def draw_model(seed: int) -> Model:
    """The model of this number; the classes take turns."""
    draw = np.random.default_rng([2026, seed])
    if seed >= LATER_FROM and seed % 2:
        makers = {**LATER, **SPECIAL}
        kind = [*makers][seed // 2 % len(makers)]
        return makers[kind](draw, kind, seed)
    if seed >= FURTHER_FROM and seed % 5 == 0:
        kind = [*FURTHER][seed // 5 % len(FURTHER)]
        return FURTHER[kind](draw, kind, seed)
    kind = ORDER[seed % len(ORDER)]
    return CLASSES[kind][0](draw, kind, seed)


KINDS = {kind: make for kind, (make, _) in CLASSES.items()} | FURTHER | LATER | SPECIAL
