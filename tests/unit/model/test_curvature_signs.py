"""Which questions of convexity parameters decide."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.model.curvature_signs import curvature_signs


def signs(make_f, make_g, value):
    x, y, a = cp.Variable(), cp.Variable(), cp.Parameter(value=value)
    lower = bm.Lower(cp.Minimize(make_g(x, y, a)), [y >= -1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(make_f(x, y, a)), [x >= -1, x <= 1], lower)
    return curvature_signs(problem.plain_model, np.array([value]))


def test_nothing_is_asked_where_no_parameter_moves_curvature():
    assert signs(lambda x, y, a: x + a * y, lambda x, y, a: (y - x) ** 2 + a * y, 1.0) == ()


def test_signs_follow_the_parameter():
    def f(x, y, a):
        return x**2 + y

    def g(x, y, a):
        return a * (y - x) ** 2

    assert signs(f, g, 1.0) == signs(f, g, 2.0) != signs(f, g, -1.0)


def test_a_parameter_on_a_product():
    def f(x, y, a):
        return x**2 + y**2 + a * x * y

    def g(x, y, a):
        return (y - x) ** 2

    assert signs(f, g, 1.0) != signs(f, g, 3.0)  # convex up to two
