"""An exponential that is huge only far from the answers must not set the unit of the lower objective.

Counted in units of 1e75, every y below looked optimal, and a wrong one was called ``optimal``.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import blomodel as bm


def stated(unit: float) -> tuple[bm.BilevelProblem, cp.Variable, cp.Variable]:
    """The same problem for every unit in which y is counted."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    z = y / unit
    g = 1000 * (cp.exp(x - 1.6 * z) + 0.4 * cp.square(z + 0.8))
    lower = bm.Lower(cp.Minimize(g), [y >= 0, y <= 1.6 * unit], variables=[y])
    f = -0.1 * x - 0.8 * z + 0.4 * cp.square(z - 0.4)
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 3.4], lower), x, y


def answer(x: float) -> float:
    """By SciPy."""
    return minimize_scalar(
        lambda z: np.exp(x - 1.6 * z) + 0.4 * (z + 0.8) ** 2, bounds=(0, 1.6), method="bounded"
    ).x


@pytest.mark.parametrize("unit", [1.0, 0.01])
def test_the_answer_is_the_lower_levels_own(unit):
    problem, x, y = stated(unit)
    value = problem.solve()
    assert y.value / unit == pytest.approx(answer(float(x.value)), abs=1e-3)
    best = min(
        -0.1 * at - 0.8 * z + 0.4 * (z - 0.4) ** 2
        for at in np.linspace(0, 3.4, 341)
        for z in [answer(at)]
    )
    assert value == pytest.approx(best, abs=1e-3)


def test_a_wrong_answer_is_refused():
    problem, _, _ = stated(0.01)
    assert not bm.certify(problem, np.array([3.4]), np.array([0.014])).accepted


@pytest.mark.parametrize("steepness", [30, 300])
def test_free_and_steep(steepness):
    # At y = 1 the lower objective is e^30 or more; it ended as failed.
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    z = steepness * y - x
    lower = bm.Lower(cp.Minimize(cp.exp(z) + cp.exp(-2 * z)), [], variables=[y])
    f = cp.square(steepness * y - 0.3) + cp.square(x - 1)
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)
    away = np.log(2) / 3  # z of every answer
    best = (1.3 - away) / 2
    assert problem.solve() == pytest.approx((best + away - 0.3) ** 2 + (best - 1) ** 2, abs=1e-5)
    wrong = np.array([0.3 / steepness])
    assert not bm.certify(problem, np.array([0.65]), wrong).accepted
