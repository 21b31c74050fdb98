"""Adjoint products against central differences of lower answers computed anew."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.programs.lagrangian import Lagrangian

DRAW = np.random.default_rng(0)
M = DRAW.standard_normal((4, 3))
DATA, LABELS = DRAW.standard_normal((12, 4)), DRAW.standard_normal(12)


def _problem(g, rows=lambda x, y: (), n_x=3, n_y=4, followers=1):
    x = cp.Variable(n_x, name="x")
    answers = [cp.Variable(n_y, name=f"y{k}") for k in range(followers)]
    lowers = [
        bm.Lower(cp.Minimize(g(x + 0.1 * k, y)), list(rows(x, y)), variables=[y])
        for k, y in enumerate(answers)
    ]
    upper = cp.sum_squares(x) + sum(cp.sum_squares(y - 1) for y in answers)
    return bm.BilevelProblem(cp.Minimize(upper), [x >= -2, x <= 2], lowers)


def _loss(w):
    return cp.sum_squares(DATA @ w - LABELS) / 2


PROBLEMS = {
    "free quadratic": _problem(lambda x, y: cp.sum_squares(y - M @ x)),
    "curvature that moves": _problem(lambda x, y: _loss(y) + cp.exp(x[0]) * cp.sum_squares(y)),
    "active bounds": _problem(
        lambda x, y: cp.sum_squares(y - M @ x), lambda x, y: (y >= 0, cp.sum(y) <= 1)
    ),
    "rows that move": _problem(
        lambda x, y: cp.sum_squares(y - 3), lambda x, y: (y <= M @ x + 1, cp.sum(y) == x[0])
    ),
    "vertex of a linear program": _problem(lambda x, y: cp.sum(y), lambda x, y: (y >= M @ x, y >= -5)),
    "logistic": _problem(
        lambda x, y: cp.sum(cp.logistic(DATA @ y)) + cp.exp(x[0]) * cp.sum_squares(y) + x[1] * y[0]
    ),
    "nonlinear row": _problem(
        lambda x, y: cp.sum_squares(y - M @ x), lambda x, y: (cp.sum(cp.exp(y)) <= 3 + x[1],)
    ),
    "lasso": _problem(lambda x, y: _loss(y) + cp.exp(x[0] + 1) * cp.norm1(y)),
    "group lasso": _problem(
        lambda x, y: _loss(y) + cp.exp(x[0] + 1) * cp.norm(y[:2]) + cp.exp(x[1]) * cp.norm(y[2:])
    ),
    "norm ball": _problem(
        lambda x, y: cp.sum_squares(y - M @ x), lambda x, y: (cp.norm(y) <= 0.5 + 0.1 * x[0],)
    ),
    "second-order cone": _problem(
        lambda x, y: cp.sum_squares(y - M @ x), lambda x, y: (cp.SOC(0.5 + 0.1 * x[0], y),)
    ),
    "followers": _problem(
        lambda x, y: cp.sum_squares(y - M @ x), lambda x, y: (y >= 0, y <= 1), followers=3
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_products_are_those_of_central_differences(name):
    model = PROBLEMS[name].model
    program, p = model.lower_program, np.zeros(0)
    x, h = np.array([0.4, -0.3, 0.7]), 1e-5
    slope = np.random.default_rng(1).standard_normal(model.y.size)
    adjoint = program.solution_adjoint(x, p, program.solve(x, p), slope)
    assert adjoint is not None and adjoint.is_smooth
    for direction in np.eye(3):
        ends = [program.solve(x + step * direction, p, warm=False).y for step in (h, -h)]
        wanted = slope @ (ends[0] - ends[1]) / (2 * h)
        assert adjoint.gradient @ direction == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_a_flat_direction_has_no_derivative_unless_the_slope_does_not_see_it():
    problem = _problem(lambda x, y: (y[0] + y[1] - x[0]) ** 2 + cp.sum_squares(y[2:]))
    program, p, x = problem.model.lower_program, np.zeros(0), np.array([0.5, 0.0, 0.0])
    answer = program.solve(x, p)
    assert program.solution_adjoint(x, p, answer, np.array([1.0, 0.0, 0.0, 0.0])) is None
    seen = program.solution_adjoint(x, p, answer, np.array([1.0, 1.0, 0.0, 0.0]))
    assert seen is not None
    assert seen.gradient == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)


def test_a_weakly_active_row_has_the_derivatives_of_both_pieces():
    problem = _problem(lambda x, y: cp.sum_squares(y - x), lambda x, y: (y >= 0,), 1, 1)
    program, p, x = problem.model.lower_program, np.zeros(0), np.zeros(1)
    answer = program.solve(x, p)
    free, tight = (
        program.solution_adjoint(x, p, answer, np.ones(1), keeps_weak=keeps) for keeps in (False, True)
    )
    assert not free.is_smooth and not tight.is_smooth
    assert sorted([free.gradient[0], tight.gradient[0]]) == pytest.approx([0.0, 1.0])


def test_matrix_inequalities_are_refused_with_a_reason():
    x, Y = cp.Variable(name="x"), cp.Variable((2, 2), symmetric=True, name="Y")
    lower = bm.Lower(cp.Minimize(cp.trace(Y)), [Y >> 0, Y[0, 1] == x], variables=[Y])
    problem = bm.BilevelProblem(cp.Minimize((cp.trace(Y) - 2) ** 2), [0 <= x, x <= 3], lower)
    program = problem.model.lower_program
    assert "derivatives" in program.why_no_adjoint
    assert (
        program.solution_adjoint(
            np.ones(1), np.zeros(0), program.solve(np.ones(1), np.zeros(0)), np.ones(3)
        )
        is None
    )


def test_products_alone_do_where_the_hessian_is_dear(monkeypatch):
    random = np.random.default_rng(0)
    A, x, y = random.standard_normal((30, 8)), cp.Variable(30, name="x"), cp.Variable(8, name="y")
    g = cp.sum(cp.multiply(x, cp.logistic(A @ y))) + cp.sum_squares(y)
    at, slope = random.random(30), random.standard_normal(8)

    def gradient(has_matrices=True):
        lower = bm.Lower(cp.Minimize(g), variables=[y])
        model = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x >= 0, x <= 1], lower).model
        program = model.lower_program
        answer = program.solve(at, np.zeros(0))
        with monkeypatch.context() as patched:
            if not has_matrices:
                patched.setattr(Lagrangian, "system_at", None)  # would find the Hessian
            return program.solution_adjoint(at, np.zeros(0), answer, slope).gradient

    whole = gradient()
    monkeypatch.setattr(limits, "HESSIAN_PRODUCTS", limits.Limit(1, "", ""))
    np.testing.assert_allclose(gradient(has_matrices=False), whole, atol=1e-7)
