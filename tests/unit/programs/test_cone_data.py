"""The canonical form of cone programs: cvxpy's numbers, at a cost that large lower levels allow."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.programs.cone_data import ConeData, _ClarabelInterface


def mixed_cones():
    """Every cone that Clarabel takes, some of them twice, with parameters in rows and objective."""
    y, S = cp.Variable(4), cp.Variable((3, 3), symmetric=True)
    weight, shift = cp.Parameter(nonneg=True, value=0.7), cp.Parameter(3, value=[0.2, -0.1, 0.4])
    constraints = [
        cp.norm(y[:3] - shift) <= 2 + y[3],
        cp.norm(y, 2) <= 3,
        cp.exp(y[0]) + cp.exp(y[1]) <= 4,
        S >> 0.1 * np.eye(3),
        cp.trace(S) + y[2] == 2,
        cp.power(y[3] + 3, 0.3, approx=False) >= 1,
        -1 <= y,
    ]
    objective = cp.sum_squares(y - 1) + weight * cp.norm(y[1:], 1) + cp.sum(S)
    return cp.Problem(cp.Minimize(objective), constraints), y


def test_rows_are_those_of_cvxpy():
    problem, _ = mixed_cones()
    own = problem.get_problem_data(_ClarabelInterface(), solver_opts={})[0]
    theirs = problem.get_problem_data(cp.CLARABEL, solver_opts={})[0]
    for name in ("A", "P"):
        np.testing.assert_array_equal(own[name].toarray(), theirs[name].toarray())
    for name in ("b", "c"):
        np.testing.assert_array_equal(own[name], theirs[name])


def test_the_linear_part_is_added_to_the_objective():
    problem, y = mixed_cones()
    slope = np.array([0.5, -2.0, 0.3, 1.0])
    data = ConeData(problem, problem.constraints, [y])
    vector = data.blank.copy()
    for parameter in problem.parameters():
        vector[data.columns[parameter.id]] = np.ravel(parameter.value, order="F")
    found = data.y.apply(data.solve(vector, slope, 1e-9).y)
    cp.Problem(cp.Minimize(problem.objective.args[0] + slope @ y), problem.constraints).solve(
        solver=cp.CLARABEL
    )
    np.testing.assert_allclose(found, y.value, atol=1e-5)


def data_fit(m, n_samples=20, seed=0):
    draw = np.random.default_rng(seed)
    return draw.standard_normal((n_samples, m)), draw.standard_normal(n_samples)


def lasso_problem(m, penalty, n_samples=20):
    A, b = data_fit(m, n_samples)
    x, y = cp.Variable(2, name="x"), cp.Variable(m, name="y")
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(A @ y - b) + penalty(x, y)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x >= 0, x <= 9], lower), A, b


PENALTIES = {
    "l1": lambda x, y: x[0] * cp.norm1(y) + x[1] * cp.sum(y),
    "elastic": lambda x, y: x[0] * cp.norm1(y) + x[1] * cp.sum_squares(y) / 2,
    "groups": lambda x, y: x[0] * sum(cp.norm(y[k : k + 10]) for k in range(0, y.size, 10)),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_many_features_and_few_samples_keep_their_squares(name):
    m, n_samples = 900, 60
    problem, A, b = lasso_problem(m, PENALTIES[name], n_samples)
    program = problem.model.lower_program
    assert program.kind == "conic"
    # One row for each sample stands for the squares; no matrix with a row for each feature is made.
    assert program._program.data._P.nnz <= 2 * m + n_samples
    x = np.array([3.0, 0.2])
    answer = program.solve(x, np.zeros(0))
    z = cp.Variable(m)
    fit = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ z - b) + PENALTIES[name](x, z)))
    assert answer.value == pytest.approx(fit.solve(solver=cp.CLARABEL), rel=1e-6)


def test_few_features_stay_a_quadratic_program():
    problem, _, _ = lasso_problem(60, PENALTIES["l1"])
    assert problem.model.lower_program.kind == "QP"


def test_a_concave_square_is_not_taken_for_a_convex_one():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.norm(y) - 0.5 * cp.square(y[0] + y[1]) + x * y[0]), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y) + x), [x >= 0], lower)
    with pytest.raises(bm.errors.NonconvexLowerError, match="eigenvalue"):
        _ = problem.model.lower_program
