"""Sets recognised from constraints, against projections by a conic solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels.projection import project

import blomodel as bm
from blomodel.errors import ModelError
from blomodel.structure.sets import NotProjectable, SimpleSet, simple_set

MATRIX = np.random.default_rng(1).normal(size=(2, 6))


def upper_set(variable: cp.Variable, constraints: list, extra: list | None = None) -> SimpleSet:
    """The set of x in a problem with these upper constraints."""
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y) + cp.sum(variable) * y[0]), [], variables=[y])
    objective = cp.Minimize(cp.sum_squares(variable) + cp.sum(y))
    problem = bm.BilevelProblem(objective, [*constraints, *(extra or [])], lower)
    return simple_set(problem.model, "x", problem.parameter_values())


def check_against_solver(variable: cp.Variable, constraints: list, found: SimpleSet) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        v = 3 * rng.normal(size=variable.size)
        distance = cp.sum_squares(cp.vec(variable, order="F") - v)
        reference = cp.Problem(cp.Minimize(distance), constraints).solve(solver=cp.CLARABEL)
        # The reference is good to about the root of its gap; to be allowed and as near is sharper.
        nearest = found.project(v)
        np.testing.assert_allclose(nearest, variable.value.ravel(order="F"), atol=1e-4)
        assert np.sum((nearest - v) ** 2) <= reference + 1e-6 * (1 + reference)
        variable.value = nearest.reshape(variable.shape, order="F")
        assert all(np.max(constraint.violation()) <= 1e-9 for constraint in constraints)


VECTOR_CASES = {
    "all of the space": lambda x: [],
    "box (6 bounded entries)": lambda x: [x >= -1, x[:2] <= 1],
    "box (3 bounded entries), 3 free entries": lambda x: [cp.abs(x[::2]) <= 1],
    "box (2 bounded entries), 4 free entries": lambda x: [cp.square(x[:2]) <= 4],
    "box (5 bounded entries), 1 free entry": lambda x: [cp.norm(x[1:] - 1, "inf") <= 1],
    "simplex of 6 entries": lambda x: [x >= 0, x <= 2, cp.sum(x) == 2],
    "capped simplex of 6 entries": lambda x: [x >= 0, 3 * cp.sum(x) <= 3],
    "box with one linear row of 6 entries": lambda x: [x >= 0, x <= 1, cp.sum(x) <= 2, cp.sum(x) >= 1],
    "box with one linear row of 6 entries ": lambda x: [x >= -1, MATRIX[0] @ x == 1],
    "box with one linear row of 6 entries  ": lambda x: [MATRIX[0] @ x <= 1],
    "affine subspace of 6 entries": lambda x: [MATRIX @ x == 1],
    "affine subspace of 6 entries ": lambda x: [cp.sum(x) == 1, 2 * cp.sum(x) == 2],
    "Euclidean ball of 6 entries": lambda x: [cp.norm(x - 1) <= 2],
    "Euclidean ball of 6 entries ": lambda x: [3 * cp.norm(1 - 2 * x) + 1 <= 7],
    "Euclidean ball of 6 entries  ": lambda x: [cp.sum_squares(x - np.arange(6)) <= 4],
    "Euclidean ball of 6 entries   ": lambda x: [cp.norm(x) ** 2 + cp.sum(x) <= 4],
    "Euclidean ball of 2 entries, 4 free entries": lambda x: [x[0] ** 2 + x[3] ** 2 <= 1],
    "l1 ball of 6 entries": lambda x: [cp.norm1(x) <= 1],
    "Euclidean ball of 3 entries, simplex of 3 entries": lambda x: [
        cp.SOC(cp.Constant(1), x[:3]),
        x[3:] >= 0,
        cp.sum(x[3:]) == 1,
    ],
}


@pytest.mark.parametrize("text", list(VECTOR_CASES))
def test_sets_of_vectors(text: str) -> None:
    x = cp.Variable(6, name="x")
    constraints = VECTOR_CASES[text](x)
    found = upper_set(x, constraints)
    assert found.text == text.strip()
    assert found.spec is not None and found.is_exact
    assert (found.box is not None) == (text.startswith("box (") or text.startswith("all"))
    check_against_solver(x, constraints, found)


MATRIX_CASES = {
    "4 x simplex of 3 entries": lambda x: [x >= 0, cp.sum(x, axis=1) == 1],
    "3 x simplex of 4 entries": lambda x: [x >= 0, cp.sum(x, axis=0) == 1],
    "4 x Euclidean ball of 3 entries": lambda x: [cp.norm(x, 2, axis=1) <= np.arange(1, 5)],
}


@pytest.mark.parametrize("text", list(MATRIX_CASES))
def test_rows_and_columns_of_matrices(text: str) -> None:
    x = cp.Variable((4, 3), name="x")
    constraints = MATRIX_CASES[text](x)
    found = upper_set(x, constraints)
    assert found.text == text and found.spec is not None
    check_against_solver(x, constraints, found)


def test_variable_attributes_count() -> None:
    x = cp.Variable(3, name="x", nonneg=True)
    found = upper_set(x, [cp.sum(x) == 1])
    assert found.text == "simplex of 3 entries"


def test_polyhedra_beside_a_formula() -> None:
    x = cp.Variable(6, name="x")
    rows = MATRIX[:, :4]
    constraints = [rows @ x[:4] <= 1, x[:4] >= -1, rows[0] @ x[:4] >= -1, x[4:] >= 0, x[4] + x[5] == 1]
    found = upper_set(x, constraints)
    assert found.spec is not None and found.is_exact
    assert found.text == "simplex of 2 entries, polyhedron of 4 entries"
    check_against_solver(x, constraints, found)
    random = np.random.default_rng(3)
    for _ in range(20):  # compiled, each from the multipliers of the last one
        point = 3 * random.standard_normal(6)
        wanted = found.project(point)
        project(found.spec, point)
        np.testing.assert_allclose(point, wanted, atol=1e-7)


def test_a_large_polyhedron_has_no_compiled_projection() -> None:
    x = cp.Variable(400, name="x")
    rows = np.random.default_rng(0).standard_normal((300, 400))
    found = upper_set(x, [rows @ x <= 1])
    assert found.spec is None
    point = found.project(np.full(400, 0.5))
    assert (rows @ point).max() <= 1 + 1e-6


def test_bounds_follow_the_parameters() -> None:
    x, bound = cp.Variable(2, name="x"), cp.Parameter(name="bound", value=1.0)
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [cp.norm(x) <= bound, x[0] == x[0]], lower)
    for value in (1.0, 3.0):
        found = simple_set(problem.model, "x", np.array([value]))
        assert np.linalg.norm(found.project(np.array([30.0, 40.0]))) == pytest.approx(value)


def test_lower_set_and_coupling() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y) + x @ y[:2]), [y >= 0, y[0] <= x[0]], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x >= 0, x <= 1], lower)
    p = problem.parameter_values()
    found = simple_set(problem.model, "y", p)
    assert not found.is_exact
    assert "y[0] <= x[0]" in found.reason and "lower" in found.reason
    assert found.box is not None and np.array_equal(found.box[0], np.zeros(3))
    assert simple_set(problem.model, "x", p).is_exact
    coupled = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x >= 0, x + y[:2] <= 1], lower)
    above = simple_set(coupled.model, "x", p)
    assert not above.is_exact and "upper" in above.reason
    with pytest.raises(ValueError, match="'x' or 'y'"):
        simple_set(problem.model, "z", p)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda x: [cp.norm(x) <= 1, x >= 0], "norm(x, 2) <= 1"),
        (lambda x: [cp.norm(x) <= 1, cp.norm(x - 1) <= 1], "norm(x, 2) <= 1"),
        (lambda x: [cp.norm(np.diag([1, 2, 3]) @ x) <= 1], "norm("),
        (lambda x: [cp.quad_form(x, np.diag([1.0, 2.0, 3.0])) <= 1], "quad_form("),
        (lambda x: [cp.norm(x[:2]) <= x[2]], "<= x[2]"),
        (lambda x: [cp.norm1(x - 1) <= 1], "norm1"),
        (lambda x: [cp.norm(x, 3) <= 1], "norm("),
        (lambda x: [cp.exp(x[0]) <= x[1]], "exp(x[0])"),
        (lambda x: [cp.diag(x) >> 0], "diag"),
    ],
)
def test_what_has_no_projection_is_named(make, named: str) -> None:
    x = cp.Variable(3, name="x")
    with pytest.raises(NotProjectable) as error:
        upper_set(x, make(x))
    assert named in str(error.value)
    assert isinstance(error.value, ModelError)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: [x >= 1, x <= 0],
        lambda x: [x >= 1, cp.sum(x) <= 2],
        lambda x: [cp.sum(x) == 1, cp.sum(x) == 2],
        lambda x: [x[0] + x[1] == 1, x[1] + x[2] == 1, x[0] - x[2] == 1],
        lambda x: [cp.norm(x) <= -1],
        lambda x: [cp.sum_squares(x) <= -1],
    ],
)
def test_contradictions_are_refused(make) -> None:
    x = cp.Variable(3, name="x")
    with pytest.raises(NotProjectable):
        upper_set(x, make(x))


def test_contradictions_seen_only_by_the_qp() -> None:
    x = cp.Variable(3, name="x")
    found = upper_set(x, [x >= 0, x[0] + x[1] <= 1, x[1] + 2 * x[2] <= 1, x[0] - x[2] >= 2])
    with pytest.raises(NotProjectable, match="infeasible"):
        found.project(np.zeros(3))
