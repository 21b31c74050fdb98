"""Constants of lower objectives that are known."""

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.studies import diagnostics


def quadratic():
    """y*(x) = x; phi(x) = (x - 1)^2 + (x - 3)^2, so x = 2 solves it."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(2 * (y - x) ** 2), variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 3) ** 2), [], lower)


def test_constants_of_a_quadratic():
    found = diagnostics.local_constants(quadratic(), 1.0, 1.5)
    assert found.smoothness == pytest.approx(4.0)
    assert found.strong_convexity == pytest.approx(4.0)
    assert found.polyak == pytest.approx(4.0)
    assert "PL" in str(found)


def test_pl_without_convexity():
    """y^2 + 3 sin(y)^2 is PL with a constant above 1/32, though not convex."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2 + 3 * cp.nlp.sin(y) ** 2 + 0 * x), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y**2), [], lower)
    found = diagnostics.local_constants(problem, 0.0, 0.0, radius=6.0, samples=300)
    assert 1 / 32 <= found.polyak < 2.0
    assert found.smoothness == pytest.approx(8.0, rel=1e-6)
