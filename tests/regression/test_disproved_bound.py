"""SCIP's bound of this problem is 1.04 in its first statement; points disprove it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.bounds import Bound
from blomodel.certification.certifying import certify_point
from blomodel.declare.point import Point
from blomodel.model.global_lower import GlobalLower


def stated() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = 1.5 * x * cp.exp(-y[0]) + cp.sum(cp.nlp.sin(2.4 * y))
    box = [y >= -1, y <= np.array([1.7, 2.0])]
    f = cp.exp(0.5 * x) + 0.9 * y[0] - 0.4 * y[1] + 1.5 * cp.abs(x + 1)
    return bm.BilevelProblem(
        cp.Minimize(f), [x >= -2, x <= 2], bm.Lower(cp.Minimize(g), box, variables=[y])
    )


def brute_force() -> float:
    y0, y1 = np.linspace(-1, 1.7, 5401), np.linspace(-1, 2, 6001)
    waves = np.sin(2.4 * y1)
    best_1 = y1[waves <= waves.min() + 1e-6].max()  # of two answers that are equally good
    values = []
    for x in np.linspace(-2, 2, 401):
        best_0 = y0[np.argmin(1.5 * x * np.exp(-y0) + np.sin(2.4 * y0))]
        values.append(np.exp(0.5 * x) + 0.9 * best_0 - 0.4 * best_1 + 1.5 * abs(x + 1))
    return min(values)


def test_the_bound_holds():
    pytest.importorskip("pyscipopt")
    problem, best = stated(), brute_force()
    assert problem.solve() == pytest.approx(best, abs=2e-3)
    assert problem.certificate.bound is None or problem.certificate.bound <= best + 1e-3


def test_a_bound_that_the_point_disproves_is_not_shown():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(x - 1) + y), [x >= 0, x <= 2], lower)
    point = Point(problem.levels, np.array([0.5]), np.array([0.5]))
    certificate = certify_point(problem, point, tolerance=1e-6, reported=Bound(5.0, "nothing"))
    assert certificate.bound is None
    assert certificate.claim != "optimal"
    assert any("must be wrong" in reason for reason in certificate.reasons)


def test_a_bound_that_a_point_without_proof_contradicts_is_not_shown(monkeypatch):
    monkeypatch.setattr(GlobalLower, "confirm", lambda self, x, p, known, *rest: (known, False))
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.cos(2 * y) + x * y), [y >= -2, y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x >= 0, x <= 1], lower)
    problem.solve(effort="quick")
    point = Point(problem.levels, np.array([float(x.value)]), np.array([float(y.value)]))
    certificate = certify_point(problem, point, tolerance=1e-6, reported=Bound(50.0, "nothing"))
    assert certificate.accepted and certificate.bound is None
    assert "contradicted" in certificate.bound_source
