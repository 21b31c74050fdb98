"""SCIP's tangents of a sine over a long interval may cut off points; what it is given has short ones."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

pytest.importorskip("pyscipopt")


def test_the_bound_of_a_sine_holds():
    # Stated as it is, SCIP 10 "proves" -1.2796 by a tangent that is none below the curve.
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = cp.nlp.sin(1.2 * y - 0.7 * x) + (y + 0.7) ** 2
    lower = bm.Lower(cp.Minimize(g), [y >= -1, y <= 1.9, 0.8 * y - 0.2 * x <= 1.7], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(1.9 * x * y + 0.2 * x), [x >= -1, x <= 1.8], lower)
    value = problem.solve()
    best = np.inf
    answers = np.linspace(-1, 1.9, 20001)
    for at in np.linspace(-1, 1.8, 561):
        allowed = answers[0.8 * answers - 0.2 * at <= 1.7]
        own = allowed[np.argmin(np.sin(1.2 * allowed - 0.7 * at) + (allowed + 0.7) ** 2)]
        best = min(best, 1.9 * at * own + 0.2 * at)
    assert value <= best + 1e-3
    assert problem.certificate.bound <= best + 1e-3
    assert problem.status == "optimal"


@pytest.mark.parametrize(
    ("slope", "square", "status"),
    [(-0.4, 0.0, "unbounded"), (0.4, 0.0, "optimal"), (0.0, 0.01, "optimal")],
)
def test_a_sine_over_an_endless_interval(slope, square, status):
    """SCIP called the first one solved at -5.73: it counted whole turns without end."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = (1.1 * y + 0.2 * x + 0.4) ** 2 - 2.2 * y
    lower = bm.Lower(cp.Minimize(g), [y >= -2, y <= 1.9], variables=[y])
    f = cp.nlp.sin(2 * x) + slope * x + square * x**2 + 0 * y
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -2], lower)
    value = problem.solve()
    assert problem.status == status
    if status == "optimal":
        at = np.linspace(-2, 50, 500_001)
        assert value == pytest.approx(np.min(np.sin(2 * at) + slope * at + square * at**2), abs=1e-6)
