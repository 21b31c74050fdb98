"""The KKT and strong-duality problems: symbolic conditions, and what solvers make of them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from reformulation_problems import coupled_example, drive_to_zero, needs_solver, tracking

import blomodel as bm
from blomodel.errors import ReformulationError, UnsupportedAtomError
from blomodel.reformulations.mpec import LowerConditions, build_problem


def test_stationarity_is_the_compiled_one(rng):
    problem, _, _ = tracking()
    model = problem.model
    conditions = LowerConditions(model)
    for _ in range(3):
        x, y, multipliers = rng.normal(size=2), rng.normal(size=2), rng.uniform(size=3)
        conditions.assign(x, y)
        conditions.rows[0].multiplier.value = multipliers[0]
        conditions.rows[1].multiplier.value = multipliers[1:]
        found = conditions.stationarity[0][1].value
        expected = model.lower_stationarity(x, y, np.empty(0), multipliers)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_stationarity_of_matrices_and_several_variables(rng):
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    x = cp.Variable(nonneg=True, name="x")
    y, z = cp.Variable((3, 2), name="y"), cp.Variable(2, name="z", nonneg=True)
    g = cp.sum_squares(a @ y - b) + cp.exp(x) * cp.sum(cp.logistic(z)) + cp.sum(y @ z)
    row = cp.sum(y, axis=0) == z
    row.set_label("balance")
    lower = bm.Lower(cp.Minimize(g), [row, cp.sum_squares(y) <= x + 4], variables=[y, z])
    problem = bm.BilevelProblem(cp.Minimize(x + cp.sum(z)), [], lower)
    model = problem.model
    conditions = LowerConditions(model)
    # The attribute nonneg of z is a lower constraint like the others.
    assert [r.multiplier.name() for r in conditions.rows] == ["mu_balance", "lambda_2", "lambda_3"]
    u, w = rng.uniform(size=1), rng.normal(size=8)
    multipliers = rng.uniform(size=5)  # inequalities (one, then two), then the equalities
    conditions.assign(u, w)
    conditions.rows[0].multiplier.value = multipliers[3:]
    conditions.rows[1].multiplier.value = multipliers[0]
    conditions.rows[2].multiplier.save_value(multipliers[1:3])
    found = np.concatenate([slope.value.ravel(order="F") for _, slope in conditions.stationarity])
    expected = model.lower_stationarity(u, w, np.empty(0), multipliers)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("solver", ["ipopt", "uno"])
@pytest.mark.parametrize("name", ["kkt", "strong-duality"])
def test_the_problem_can_be_solved_by_the_user(name, solver):
    needs_solver(solver)
    problem, x, y = coupled_example()
    form = problem.reformulate(name)
    assert isinstance(form.problem, cp.Problem) and form.problem.is_dnlp()
    drive_to_zero(form, 0.2, solver)
    # In the user's own variables.
    assert float(x.value) == pytest.approx(0.300705, abs=1e-4)
    assert float(y.value) == pytest.approx(0.300705, abs=1e-4)
    assert form.problem.value == pytest.approx(2.654498, abs=1e-4)
    np.testing.assert_allclose([m.value for m in form.multipliers], [0.60141, 0, 0], atol=1e-3)


def test_both_forms_describe_the_lower_answer():
    """With x fixed the only feasible y is the lower level's answer, whatever the upper level wants."""
    needs_solver("ipopt")
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(3, 3))
    matrix = matrix @ matrix.T + np.eye(3)
    rows, right = rng.normal(size=(4, 3)), rng.uniform(0.1, 0.5, size=4)
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    g = cp.quad_form(y, matrix) / 2 + x @ y
    lower = bm.Lower(cp.Minimize(g), [rows @ y <= right + 0.1 * x[0], cp.sum(y) == 0.1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x == np.array([1.0, -1.0, 2.0])], lower)
    fixed = cp.Variable(3)
    point = np.array([1.0, -1.0, 2.0])
    direct = cp.Problem(
        cp.Minimize(cp.quad_form(fixed, matrix) / 2 + point @ fixed),
        [rows @ fixed <= right + 0.1, cp.sum(fixed) == 0.1],
    )
    direct.solve(solver="CLARABEL")
    for name in ("kkt", "strong-duality"):
        form = problem.reformulate(name)
        drive_to_zero(form, point)
        np.testing.assert_allclose(y.value, fixed.value, atol=1e-4)
        inequality, equality = form.multipliers
        np.testing.assert_allclose(inequality.value, direct.constraints[0].dual_value, atol=1e-3)
        assert float(equality.value) == pytest.approx(float(direct.constraints[1].dual_value), abs=1e-3)


def test_strong_duality_has_one_row_instead_of_the_products():
    problem, _, _ = coupled_example()
    labels = [c.label for c in problem.reformulate("strong-duality").problem.constraints]
    assert "stationarity in y" in labels
    assert not any(label and label.startswith("complementarity") for label in labels)


def _group_lasso(upper):
    """The answer is (1 - x/5)_+ (3, 4)."""
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(2, name="y")
    g = cp.sum_squares(y - np.array([3.0, 4.0])) / 2 + x * cp.norm(y)
    return (
        bm.BilevelProblem(
            cp.Minimize(upper(x, y)), [x <= 10], bm.Lower(cp.Minimize(g), [], variables=[y])
        ),
        x,
        y,
    )


@pytest.mark.parametrize(
    ("upper", "x_best", "y_best"),
    [
        (lambda x, y: cp.sum_squares(y - np.array([0.6, 0.8])) + 0 * x, 4.0, [0.6, 0.8]),
        # at the kink, where the norm has many subgradients
        (lambda x, y: cp.sum_squares(y) + (x - 7) ** 2, 7.0, [0.0, 0.0]),
    ],
)
def test_a_norm_is_split_into_length_and_direction(upper, x_best, y_best):
    needs_solver("ipopt")
    problem, x, y = _group_lasso(upper)
    form = problem.reformulate("kkt")
    assert {"length_1", "direction_1"} <= {v.name() for v in form.problem.variables()}
    drive_to_zero(form, 1.0)
    assert float(x.value) == pytest.approx(x_best, abs=1e-3)
    np.testing.assert_allclose(y.value, y_best, atol=1e-3)


def test_absolute_values_go_through_their_epigraph():
    """The answer is the soft threshold (a - x)_+."""
    needs_solver("ipopt")
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(2, name="y")
    g = cp.sum_squares(y - np.array([3.0, 4.0])) / 2 + x * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - np.array([0, 0.8]))), [x <= 10], lower)
    drive_to_zero(problem.reformulate("kkt"), 1.0)
    assert float(x.value) == pytest.approx(3.2, abs=1e-3)
    np.testing.assert_allclose(y.value, [0, 0.8], atol=1e-3)


@pytest.mark.parametrize("cone", [True, False])
def test_second_order_cones(cone):
    """max y_0 + y_1 over |y| <= x: both are x / sqrt 2."""
    needs_solver("ipopt")
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    row = cp.SOC(x, y) if cone else cp.norm(y) <= x
    lower = bm.Lower(cp.Maximize(cp.sum(y)), [row], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((y[0] - 1) ** 2), [x <= 10, x >= 0.5], lower)
    drive_to_zero(problem.reformulate("kkt"), 3.0)
    assert float(x.value) == pytest.approx(np.sqrt(2), abs=1e-3)
    np.testing.assert_allclose(y.value, [1, 1], atol=1e-3)


def test_kinks_in_x_may_stand_anywhere():
    """min over y in [-1, 1] of w(x) y with w = |x| - max(x, 1/2): y = 1 for |x| < 1/2."""
    needs_solver("ipopt")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((cp.abs(x) - cp.maximum(x, 0.5)) * y), [y >= -1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x + 0.4) ** 2 - y), [x >= -2, x <= 2], lower)
    form = problem.reformulate("kkt")
    assert form.problem.is_dnlp()
    drive_to_zero(form, 0.0)
    assert float(y.value) == pytest.approx(1.0, abs=1e-3)
    assert float(x.value) == pytest.approx(-0.4, abs=1e-3)


def test_maximising_levels_keep_their_sense():
    needs_solver("ipopt")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Maximize(-((y - x) ** 2)), [y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(-((x - 2) ** 2) - (y - 2) ** 2), [x <= 3], lower)
    form = problem.reformulate("kkt")
    drive_to_zero(form, 0.0)
    assert isinstance(form.problem.objective, cp.Maximize)
    assert form.problem.value == pytest.approx(-1.0, abs=1e-4)


def test_symmetric_variables():
    """y = x on all entries, so f = 2 (x - 2)^2 + (x - 3)^2 + 2 (x - 1)^2 with its least at 9/5."""
    needs_solver("ipopt")
    x, y = cp.Variable(name="x"), cp.Variable((2, 2), symmetric=True, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [], variables=[y])
    f = cp.sum_squares(y - np.array([[1.0, 2.0], [2.0, 3.0]])) + (x - 1) ** 2
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0], lower)
    form = problem.reformulate("kkt")
    drive_to_zero(form, 0.5)
    assert float(x.value) == pytest.approx(1.8, abs=1e-4)
    assert form.problem.value == pytest.approx(2.8, abs=1e-4)


def test_parameters_stay_parameters():
    needs_solver("ipopt")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    cap = cp.Parameter(name="cap", value=1.0)
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= cap], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [x <= 3], lower)
    form = problem.reformulate("kkt")
    assert cap.id in {parameter.id for parameter in form.problem.parameters()}
    drive_to_zero(form, 0.0)
    assert form.problem.value == pytest.approx(1.0, abs=1e-4)
    cap.value = 1.5
    drive_to_zero(form, 0.0)
    assert form.problem.value == pytest.approx(0.25, abs=1e-4)


def test_matrix_constraints_are_refused():
    x, y = cp.Variable(name="x"), cp.Variable((2, 2), name="y", symmetric=True)
    lower = bm.Lower(cp.Minimize(cp.trace(y)), [y >> x * np.eye(2)], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= 1], lower)
    with pytest.raises(ReformulationError, match="semidefinite"):
        LowerConditions(problem.model)
    # The same for a constraint of the upper level.
    z = cp.Variable((2, 2), name="z", symmetric=True)
    lower = bm.Lower(cp.Minimize((y[0, 0] - z[0, 0]) ** 2 + cp.sum_squares(y)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y) + cp.trace(z)), [z >> np.eye(2)], lower)
    with pytest.raises(ReformulationError, match="semidefinite"):
        build_problem(LowerConditions(problem.model))


def test_kinks_that_are_not_convex_are_refused():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2 - cp.abs(y)), [y >= -3, y <= 3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x >= 0], lower)
    with pytest.raises(UnsupportedAtomError, match="abs"):
        problem.reformulate("kkt")
