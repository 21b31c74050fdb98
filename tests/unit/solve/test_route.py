"""When other values of parameters lead another way."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.solve.route import find_route


def test_units_and_signs_tell_routes_apart():
    x, y, a, b = cp.Variable(), cp.Variable(), cp.Parameter(), cp.Parameter()
    lower = bm.Lower(cp.Minimize(a * (y - x) ** 2 + b * y), [y >= -1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [x >= -1, x <= 1], lower)
    a.value, b.value = 1.0, 1.0

    def route(*p):
        return find_route(problem.plain_chain, problem.plain_model, np.array(p))

    here = route(1.0, 1.0)
    assert route(3.0, 2.0).is_same_as(here)
    assert not route(-1.0, 1.0).is_same_as(here)
    assert not route(1e-9, 1e-9).is_same_as(here)
