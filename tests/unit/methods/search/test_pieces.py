"""Choices among lower answers: where there is none, no program is solved for it."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.search.pieces import is_only_minimiser


def only_minimiser(g, below, x_value=0.5):
    """What the test of uniqueness says, and how far y can move among the minimisers (by LP or QP)."""
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(g(x, y)), below(x, y), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y) + x), [x >= 0, x <= 1], lower)
    model, p, at = problem.model, problem.parameter_values(), np.array([x_value])
    found = is_only_minimiser(model, at, p, model.lower_program.solve(at, p))
    z = cp.Variable(3)
    best = cp.Problem(cp.Minimize(g(x_value, z)), below(x_value, z)).solve(solver=cp.CLARABEL)
    level = [*below(x_value, z), g(x_value, z) <= best + 1e-9]
    ends = [
        [
            cp.Problem(sense(z[i]), level).solve(solver=cp.CLARABEL)
            for sense in (cp.Minimize, cp.Maximize)
        ]
        for i in range(3)
    ]
    return found, float(np.ptp(ends, axis=1).max())


@pytest.mark.parametrize(
    ("g", "is_unique"),
    [
        (lambda x, y: cp.sum(y), True),  # a vertex
        (lambda x, y: y[0] + y[1], False),  # an edge
        (lambda x, y: cp.square(y[0] - x) + y[1] + y[2], True),  # curvature and rows together
        (lambda x, y: cp.square(y[0] + y[1] - x) + y[2], False),  # curvature in one direction of two
        (lambda x, y: cp.exp(y[0] - x) - x * y[0] + y[1] + y[2], True),  # the same of a smooth program
        (lambda x, y: cp.exp(y[0] + y[1] - x) - y[0] - y[1] + y[2], False),
    ],
)
def test_only_minimisers_are_told_from_faces(g, is_unique):
    found, width = only_minimiser(g, lambda x, y: [y >= 0, y <= 1])
    assert found == is_unique == (width < 1e-3)
