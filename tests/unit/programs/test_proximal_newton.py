"""Large lasso problems by products alone, beside cvxpy and Clarabel."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.deadline import Deadline
from blomodel.model.minimisers import ChoiceAmongMinimisers
from blomodel.programs.proximal_newton import ProximalProgram
from blomodel.solvers.answer import InnerStatus

M, N = 300, 700


def _lasso(has_weights: bool) -> tuple[bm.BilevelProblem, cp.Expression, cp.Variable, cp.Variable]:
    random = np.random.default_rng(0)
    A = sp.random_array((M, N), density=0.4, format="csr", rng=random, data_sampler=random.normal)
    true = np.where(random.random(N) < 0.05, 3 * random.standard_normal(N), 0.0)
    b = A @ true + 0.1 * random.standard_normal(M)
    x, y = cp.Variable(N if has_weights else (), name="x"), cp.Variable(N, name="y")
    norm = cp.sum(cp.multiply(x, cp.abs(y))) if has_weights else x * cp.norm1(y)
    g = cp.sum_squares(A @ y - b) / (2 * M) + norm
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= 0.01, x <= 1], lower), g, x, y


@pytest.mark.parametrize("has_weights", [False, True])
def test_the_same_answer_as_a_cone_solver(has_weights: bool) -> None:
    problem, g, x, y = _lasso(has_weights)
    program = problem.plain_model.lower_program
    assert isinstance(program._program, ProximalProgram)
    random = np.random.default_rng(1)
    at = 0.02 + 0.1 * random.random(N if has_weights else 1)
    answer = program.solve(at, np.empty(0))
    x.value = at if has_weights else at[0]
    again = cp.Problem(cp.Minimize(_fixed(g, x)), [])
    again.solve(solver=cp.CLARABEL)
    assert answer.status is InnerStatus.OPTIMAL
    assert answer.value == pytest.approx(again.value, rel=1e-7)
    np.testing.assert_allclose(answer.y, y.value, atol=1e-4)
    # The slope of the value in x: the sizes that the weights multiply.
    slope = program.gradient(at, np.empty(0), (1.0,), answer)
    slopes = np.abs(answer.y) if has_weights else [np.abs(answer.y).sum()]
    np.testing.assert_allclose(slope, slopes, atol=1e-6)


@pytest.mark.parametrize("has_weights", [False, True])
def test_the_derivative_of_the_answer_beside_differences(has_weights: bool) -> None:
    problem, *_ = _lasso(has_weights)
    program = problem.plain_model.lower_program
    random = np.random.default_rng(2)
    at, slope = 0.02 + 0.1 * random.random(N if has_weights else 1), random.standard_normal(N)
    way = random.standard_normal(at.size)
    answer = program.solve(at, np.empty(0), accuracy=1e-11)
    found = program.solution_adjoint(at, np.empty(0), answer, slope)
    assert found is not None
    h = 1e-6
    ends = [
        program.solve(at + sign * h * way, np.empty(0), accuracy=1e-11).y @ slope for sign in (1, -1)
    ]
    assert found.gradient @ way == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-3)


@pytest.mark.slow
def test_a_weight_that_leaves_as_many_entries_as_samples() -> None:
    """Proximal steps alone did not converge: ever fewer entries, one at a time."""
    problem, g, x, y = _lasso(False)
    at = 1e-5
    answer = problem.plain_model.lower_program.solve(np.array([at]), np.empty(0))
    x.value = at
    again = cp.Problem(cp.Minimize(_fixed(g, x)), [])
    again.solve(solver=cp.CLARABEL)
    assert answer.status is InnerStatus.OPTIMAL
    assert answer.value == pytest.approx(again.value, rel=1e-5)


def _fixed(g: cp.Expression, x: cp.Variable) -> cp.Expression:
    from blomodel.compiler.expressions.rewriting import Substitution

    return Substitution([x], [cp.Constant(x.value)])(g)


def test_no_answer_after_the_deadline() -> None:
    problem, *_ = _lasso(False)
    program = problem.plain_model.lower_program
    answer = program.solve(np.array([0.01]), np.empty(0), deadline=Deadline.after(0.0))
    assert answer.status is InnerStatus.FAILED
    assert "time" in answer.reason


def test_a_hessian_whose_factor_would_fill_up_is_not_made():
    """A lasso with thousands of sparse features, each tied to many others: answered by products."""
    random = np.random.default_rng(0)
    A = sp.random_array((400, 2000), density=0.05, rng=random, format="csr")
    b, x, y = A @ np.ones(2000), cp.Variable(name="x"), cp.Variable(2000, name="y")
    g = cp.sum_squares(A @ y - b) / 800 + x * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= 0.01, x <= 1], lower)
    assert problem.model.lower_program.is_for_products and problem.model.has_dear_curvatures
    found = problem.model.lower_program.solve(np.array([0.1]), np.zeros(0)).y
    slope = A.T @ (A @ found - b) / 400  # the optimality conditions, by hand
    assert np.abs(slope).max() <= 0.1 + 1e-6
    np.testing.assert_allclose(slope[found != 0], -0.1 * np.sign(found[found != 0]), atol=1e-6)


def test_no_choice_among_minimisers_is_stated_where_products_must_do(monkeypatch):
    """A cone program with the data once more would take minutes, and no limit would end it."""
    monkeypatch.setattr(limits, "HESSIAN_PRODUCTS", limits.Limit(5, "", ""))
    problem, *_ = _lasso(has_weights=False)
    model, at = problem.model, np.array([0.1])
    assert model.has_dear_curvatures
    monkeypatch.setattr(ChoiceAmongMinimisers, "_program", None)  # would state it
    answer = model.lower_program.solve(at, np.zeros(0))
    for ask in (model.optimistic_choice.solve, model.optimistic_choice.solve_by_level):
        assert not ask(at, np.zeros(0), answer, slack=1e-6).has_point
