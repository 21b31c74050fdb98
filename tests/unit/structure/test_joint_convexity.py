"""Proofs of convexity in x and y together, against midpoints of segments."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.structure.joint_convexity import JointConvexity, convex_constraints

x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
ROOM = 1 + x[0]


def model_of(f, rows=()):
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= 0, y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1, *rows], lower)
    return problem.model, problem.parameter_values()


CONVEX = [
    cp.power(y[0], 5) * cp.power(ROOM, -4),
    y[0] * (y[0] / ROOM) ** 4,
    cp.sum(cp.multiply(cp.power(y, 3), cp.power(2 + x, -2))) + cp.exp(x[0] - y[1]),
    y[0] ** 2 / ROOM + 3 * cp.square(x[1]),
    cp.power(ROOM, -1) * cp.power(2 + y[0], -0.5),
    x[0] ** 2 + y[0] ** 2 + 1.9 * x[0] * y[0],
    cp.exp(cp.power(y[0], 2) * cp.power(ROOM, -1)),
]
OTHERS = [
    cp.power(y[0], 4) * cp.power(ROOM, -4),  # exponents add up to 0
    cp.power(y[0], 2) * cp.power(ROOM, 2),  # two of them rise
    -cp.power(y[0], 5) * cp.power(ROOM, -4),
    cp.power(y[0] - 1, 3) * cp.power(ROOM, -1),  # the base may be negative
    x[0] ** 2 + y[0] ** 2 + 2.1 * x[0] * y[0],
    cp.power(y[0] - 1, 3) + cp.square(x[0]),
]


@pytest.mark.parametrize("f", CONVEX)
def test_convex_functions_are_recognised(f):
    model, p = model_of(f)
    assert JointConvexity(model, p).holds_for(model.f_expression)
    draw = np.random.default_rng(0)
    for _ in range(200):
        one, other = draw.uniform(0, [1, 1, 2, 2], (2, 4))
        middle = (one + other) / 2
        values = [float(model.f(z[:2], z[2:], p)[0]) for z in (one, other, middle)]
        assert values[2] <= (values[0] + values[1]) / 2 + 1e-12 * (1 + abs(values[0]) + abs(values[1]))


@pytest.mark.parametrize("f", OTHERS)
def test_others_are_not(f):
    model, p = model_of(f)
    assert not JointConvexity(model, p).holds_for(model.f_expression)


def test_rows_that_are_not_convex_are_left_out():
    rows = [cp.sum_squares(x) <= 1.5, x[0] * x[1] == 0.1, x[0] * y[0] <= 1]
    model, p = model_of(cp.sum(x), rows)
    assert convex_constraints(model, p, model.upper_constraints) == {0, 1, 2}
