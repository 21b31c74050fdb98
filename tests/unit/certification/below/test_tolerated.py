"""What the tolerated lower gap can hide, and exact answers in its place."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def test_a_value_that_only_the_gap_buys_is_no_local_optimum() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 - 0.5 * y), [-1 <= x, x <= 1], lower)
    exact = bm.certify(problem, 0.25, 0.25)
    assert exact.claim == "locally_optimal"
    bought = bm.certify(problem, 0.25, 0.25 + 9e-4)
    assert bought.accepted and bought.objective < exact.objective - 1e-4
    assert bought.claim == "feasible" and "bought" in bought.reasons[0]
    least, largest = exact.tolerated_objective
    # (y - x)^2 <= 1e-6 lets y move by 1e-3, and f by half of that.
    assert largest - least == pytest.approx(1e-3, rel=0.2)


def test_solve_reports_the_exact_answer() -> None:
    r = np.random.default_rng(0)
    A, b = r.standard_normal((12, 3)), np.sign(r.standard_normal(12))
    x, w = cp.Variable(name="x"), cp.Variable(3, name="w")
    g = cp.sum(cp.logistic(-cp.multiply(b, A @ w))) / 12 + cp.exp(x) * cp.sum_squares(w)
    lower = bm.Lower(cp.Minimize(g), variables=[w])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(w - 0.3)), [-5 <= x, x <= 2], lower)
    problem.solve()
    from scipy.optimize import minimize

    def loss(v: np.ndarray) -> float:
        return float(np.logaddexp(0, -b * (A @ v)).mean() + np.exp(x.value) * (v @ v))

    best = minimize(loss, w.value, method="BFGS", options={"gtol": 1e-12}).x
    assert w.value == pytest.approx(best, abs=1e-6)


def test_several_answers_span_f() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(y) * 1.0), [y >= 0, cp.sum(y) >= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y[0] - y[1]), [-1 <= x, x <= 1], lower)
    certificate = bm.certify(problem, 0.0, [0.0, 1.0])
    assert certificate.lower_is_unique is not True
    assert certificate.tolerated_objective == pytest.approx((-1.0, 1.0), abs=1e-4)
    assert "f of tolerated answers" in str(certificate)
