"""Norms below that vanish at the answer."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def follower(slope: float) -> bm.BilevelProblem:
    """Near x = -1 the lower level answers y = (2.5 x, -x), where its norm is zero."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = cp.norm(y - cp.hstack([2.5 * x, -x])) + 0.05 * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    return bm.BilevelProblem(
        cp.Minimize(cp.square(x + 1) + slope * (y[0] + 2.5 * y[1])), [x >= -2, x <= 2], lower
    )


def test_the_answer_stays_where_the_norm_is_zero() -> None:
    # y[0] + 2.5 y[1] is zero along the answers, so that f = (x + 1)^2.
    problem = follower(3.0)
    right = bm.certify(problem, -1.0, [-2.5, 1.0])
    assert right.claim == "locally_optimal" and right.lower_is_unique
    wrong = bm.certify(problem, -0.5, [-1.25, 0.5])
    assert wrong.claim == "feasible" and wrong.descent is not None and wrong.descent[0] < 0


@pytest.mark.parametrize("form", ["sum", "mixed"])
def test_group_lasso_agrees_with_differences_of_phi(form: str) -> None:
    r = np.random.default_rng(1)
    A, b = r.standard_normal((20, 4)), r.standard_normal(20)
    level, w = cp.Variable(name="level"), cp.Variable((2, 2), name="w")
    flat = cp.vec(w, order="F")
    norms = cp.sum(cp.norm(w, 2, axis=0)) if form == "sum" else cp.mixed_norm(w.T, 2, 1)
    g = cp.sum_squares(A @ flat - b) / 2 + cp.exp(level) * norms
    lower = bm.Lower(cp.Minimize(g), variables=[w])
    target = r.standard_normal(4)
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum_squares(flat - target)), [level >= -3, level <= 3], lower
    )
    model = problem.plain_model

    def phi(at: float) -> float:
        y = model.lower_program.solve(np.array([at]), np.zeros(0), accuracy=1e-10).y
        return float(model.f(np.array([at]), y, np.zeros(0))[0])

    seen = 0
    for at in np.linspace(-1.5, 1.8, 7):
        y = model.lower_program.solve(np.array([at]), np.zeros(0), accuracy=1e-10).y
        certificate = bm.certify(problem, at, y)
        if certificate.stationarity is None:
            continue
        slope = (phi(at + 1e-4) - phi(at - 1e-4)) / 2e-4
        steepness = 1 + np.abs(model.f_grad(np.array([at]), y, np.zeros(0))).max()
        assert certificate.stationarity == pytest.approx(abs(slope) / steepness, abs=2e-3)
        seen += 1
    assert seen >= 4


def test_kinks_that_rows_cannot_tell_are_not_judged() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    peak = bm.BilevelProblem(cp.Minimize(-cp.abs(x) + x**2 + y**2), [-1 <= x, x <= 1], lower)
    assert bm.certify(peak, 0.0, 0.0).claim == "feasible"
