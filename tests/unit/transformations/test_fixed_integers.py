"""What is left when the upper integers are given: the same functions."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.transformations.fixed_integers import fixed_integers


def model():
    x = cp.Variable((2, 2), name="x", integer=[(0, 1), (1, 0)])
    z, w = cp.Variable(name="z"), cp.Variable(2, name="w", boolean=True)
    y, price = cp.Variable(2, name="y"), cp.Parameter(value=2.0, name="price")
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(y - x[0] - w) + price * z * y[0]), [y <= x[:, 1] + 3, w[0] <= 4], [y]
    )
    upper = cp.sum_squares(x) + cp.sum(w) * z + y[0]
    return bm.BilevelProblem(cp.Minimize(upper), [x >= -2, x <= 2, cp.sum(w) <= 1, z == 1], lower).model


def test_same_functions():
    whole = model()
    fixed = fixed_integers(whole)
    assert fixed_integers(whole) is fixed
    assert fixed.model.x.size == 3  # two entries of x, and z
    draw, p = np.random.default_rng(0), np.array([2.0])
    for _ in range(5):
        values, rest, y = draw.integers(0, 2, 4).astype(float), draw.normal(size=3), draw.normal(size=2)
        x = fixed.join(rest, values)
        at = rest, y, fixed.parameters(p, values)
        assert fixed.model.f(*at)[0] == pytest.approx(whole.f(x, y, p)[0])
        assert fixed.model.g(*at)[0] == pytest.approx(whole.g(x, y, p)[0])
        worst = max(rows.values(x, y, p).max() for rows in (whole.upper_in, whole.lower_in))
        kept = max(rows.values(*at).max() for rows in (fixed.model.upper_in, fixed.model.lower_in))
        assert max(kept, 0) == pytest.approx(max(worst, 0)) or not fixed.allows(p, values)
    assert fixed.allows(p, np.array([1.0, -1.0, 0.0, 1.0]))
    assert not fixed.allows(p, np.array([1.0, -1.0, 1.0, 1.0]))  # the sum of w is 2


def test_nothing_else_above():
    x, y = cp.Variable(2, integer=True), cp.Variable()
    lower = bm.Lower(cp.Minimize((y - cp.sum(x)) ** 2), [y <= 3], [y])
    fixed = fixed_integers(
        bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) - y), [x >= 0, x <= 3], lower).model
    )
    assert fixed.model.x.size == 0
    assert fixed.join(np.empty(0), np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert not fixed.allows(np.zeros(0), np.array([4.0, 0.0]))
