"""Parametric programs beyond quadratic ones, against cvxpy at fixed x."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.blocks import Block
from blomodel.errors import NonconvexLowerError
from blomodel.programs.parametric import ParametricProgram
from blomodel.solvers.answer import InnerStatus

NO_P = np.zeros(0)
A = np.random.default_rng(0).standard_normal((4, 3))
POINTS = [np.array([0.3, 0.4]), np.array([-0.2, 0.6])]


def program(build, parameters=(), n_y=3, bound=5.0):
    """The program of ``build(x, y, *parameters) -> terms, constraints``."""
    x, y = cp.Variable(2, name="x"), cp.Variable(n_y, name="y")
    terms, constraints = build(x, y, *parameters)
    blocks = {"x": Block("x", [x]), "y": Block("y", [y]), "p": Block("p", parameters)}
    bounds = np.full(2, -bound), np.full(2, bound)
    return ParametricProgram(terms, constraints, **blocks, x_bounds=bounds)


def reference(build, x, weights=(1.0,), parameters=(), n_y=3):
    """Value, minimiser and duals from cvxpy with x a constant."""
    y = cp.Variable(n_y)
    terms, constraints = build(cp.Constant(x), y, *parameters)
    total = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    problem = cp.Problem(cp.Minimize(total), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value, y.value, constraints


def differences(function, x, step=1e-4):
    """Central differences, one column for each element of x."""
    return np.array(
        [(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    ).T


def symmetric(y):
    """The symmetric matrix of three numbers."""
    return cp.bmat([[y[0], y[1]], [y[1], y[2]]])


def norm_row(x, y):
    return [cp.sum(A @ y)], [cp.norm(A @ y - x[0]) <= 2 + x[1], y[0] >= -1]


def second_order_cone(x, y):
    return [cp.sum(A @ y)], [cp.SOC(2 + x[1], A @ y - x[0])]


def second_order_cones(x, y):
    bounds, vectors = cp.hstack([2 + x[1], 3 + x[0]]), cp.vstack([y, 2 * y - x[0]])
    return [cp.sum(A @ y)], [cp.SOC(bounds, vectors, axis=1)]


def exponentials(x, y):
    slope = cp.multiply(-0.3, cp.exp(x[1]))
    return [cp.sum(cp.exp(y - x[0])) + cp.sum(y) * slope], [y <= 3, y >= -3]


def logarithms(x, y):
    g = -cp.sum(cp.log(y)) + cp.sum_squares(y)
    return [g], [cp.sum(y) <= 2 + x[0], cp.log(y[0]) >= x[1] - 1]


def exponential_cone(x, y):
    g = y[2] + cp.sum_squares(y[:2])
    return [g], [cp.ExpCone(y[0] + x[0], y[1] + 2, y[2]), y[0] >= x[1]]


def power_cone(x, y):
    g = -y[2] + cp.sum_squares(y[:2] - 1)
    return [g], [cp.PowCone3D(y[0] + x[0], y[1] + 1, y[2], 0.3), y[1] <= x[1]]


def semidefinite(x, y):
    shift = cp.bmat([[1 + x[0], x[1]], [x[1], 1.0]])
    return [cp.trace(symmetric(y)) + cp.sum_squares(y)], [symmetric(y) - shift >> 0]


def projection_on_semidefinite(x, y):
    target = np.array([1.0, 2.0, -1.0])
    return [cp.sum_squares(y - target)], [symmetric(y) + cp.diag(x) >> 0]


def absolute_values(x, y):
    return [cp.norm1(y) * cp.exp(x[0]) + cp.sum_squares(A @ y - 1)], [cp.sum(y) == x[1]]


def logistic(x, y):
    return [cp.sum(cp.logistic(x[0] * (A @ y))) + cp.exp(x[1]) * cp.sum_squares(y)], []


def relative_entropy(x, y):
    return [cp.sum(cp.kl_div(y, cp.exp(cp.hstack([x, x[0]]))))], [cp.sum(y) == 1]


def quadratic_row(x, y):
    return [cp.sum(y)], [cp.sum_squares(y - x[0]) <= 2 + x[1], cp.norm(y, "inf") <= 3]


def scaled_curve_of_x(x, y):
    weights = 1 + x**2
    g = weights[0] * cp.huber(y[0] - x[1]) + weights[1] * cp.sum(cp.huber(y[1:] - x[0]))
    return [g + 0.1 * cp.sum_squares(y)], [cp.sum(y) <= 1]


CASES = [
    norm_row,
    second_order_cone,
    second_order_cones,
    exponentials,
    logarithms,
    exponential_cone,
    power_cone,
    semidefinite,
    projection_on_semidefinite,
    absolute_values,
    logistic,
    relative_entropy,
    quadratic_row,
    scaled_curve_of_x,
]
BECOME_QUADRATIC = [absolute_values, scaled_curve_of_x]  # once their kinks are rows


@pytest.mark.parametrize("x", POINTS, ids=str)
@pytest.mark.parametrize("build", CASES)
def test_against_cvxpy(build, x):
    lower = program(build)
    answer = lower.solve(x, NO_P)
    value, y, constraints = reference(build, x)
    assert lower.kind == ("QP" if build in BECOME_QUADRATIC else "conic")
    assert answer.status is InnerStatus.OPTIMAL
    assert answer.value == pytest.approx(value, abs=1e-7)
    assert answer.y == pytest.approx(y, abs=1e-4)
    for ours, constraint in zip(answer.duals, constraints, strict=True):
        parts = [np.ravel(part.value, order="F") for part in constraint.dual_variables]
        theirs = np.concatenate(parts)
        assert np.ravel(ours, order="F") == pytest.approx(theirs, abs=1e-3, rel=1e-3)


@pytest.mark.parametrize("x", POINTS, ids=str)
@pytest.mark.parametrize("build", CASES)
def test_gradient(build, x):
    lower = program(build)
    slope = lower.gradient(x, NO_P, (1.0,), lower.solve(x, NO_P))
    expected = differences(lambda point: lower.solve(point, NO_P).value, x)
    assert slope == pytest.approx(expected, abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("build", [case for case in CASES if case not in BECOME_QUADRATIC])
def test_canonicalised_once(build):
    assert program(build)._program.data is not None


@pytest.mark.parametrize("build", [exponentials, logarithms, logistic, relative_entropy, quadratic_row])
def test_smooth_problems_are_solved_to_rounding(build):
    lower = program(build)
    answer = lower.solve(POINTS[0], NO_P)
    assert "newton" in answer.solver
    y = answer.y if answer.lifted is None else answer.lifted
    cotangent = lower.lagrangian.signs * answer.multipliers
    slope = lower.lagrangian.terms_grad_y(POINTS[0], y, NO_P, np.ones(1))
    if lower.lagrangian.rows is not None:
        slope = slope + lower.lagrangian.rows_grad_y(POINTS[0], y, NO_P, cotangent)
    assert np.abs(slope).max() <= 1e-10


@pytest.mark.parametrize(
    "build", [exponentials, logarithms, logistic, relative_entropy, *BECOME_QUADRATIC]
)
def test_solution_jacobian(build):
    lower, x = program(build), POINTS[0]
    found = lower.solution_jacobian(x, NO_P, (1.0,), lower.solve(x, NO_P))
    expected = differences(lambda point: lower.solve(point, NO_P).y, x)
    assert found == pytest.approx(expected, abs=1e-6)


def test_no_solution_jacobian_for_kinked_objectives():
    # The Euclidean norm has its kink at the origin, where this minimiser lies.
    lower = program(lambda x, y: ([cp.norm(y) + 0.1 * cp.sum_squares(y - x[0])], []))
    assert lower.solution_jacobian(POINTS[0], NO_P, (1.0,), lower.solve(POINTS[0], NO_P)) is None


@pytest.mark.parametrize("weights", [(0.01, 1.0), (1.0, 0.5)])
@pytest.mark.parametrize("build", [exponentials, absolute_values, logarithms])
def test_weights(build, weights):
    def both(x, y):
        terms, constraints = build(x, y)
        f = cp.sum_squares(y - x[0]) + cp.exp(x[1]) * cp.sum(cp.exp(-y)) + cp.sum(cp.abs(y + x[0]))
        return [f, *terms], constraints

    lower, x = program(both), POINTS[0]
    answer = lower.solve(x, NO_P, weights)
    value, y, _ = reference(both, x, weights)
    assert lower._program.data is not None
    assert answer.value == pytest.approx(value, abs=1e-7) and answer.y == pytest.approx(y, abs=1e-4)
    expected = differences(lambda point: lower.solve(point, NO_P, weights).value, x)
    slope = lower.gradient(x, NO_P, weights, answer)
    assert slope == pytest.approx(expected, abs=1e-6, rel=1e-6)


def test_one_weight_scales_value_and_duals():
    lower = program(logarithms)
    one, three = (lower.solve(POINTS[0], NO_P, (weight,)) for weight in (1.0, 3.0))
    assert three.value == pytest.approx(3 * one.value)
    assert three.duals[0] == pytest.approx(3 * one.duals[0])


def test_parameters_change_without_recompilation():
    size, data = cp.Parameter(nonneg=True, name="size"), cp.Parameter(3, name="data")

    def build(x, y, size, data):
        return [size * cp.norm1(y) + cp.sum_squares(A @ y - A @ data)], [data @ y <= 1 + x[0]]

    size.value, data.value = 1.0, np.ones(3)
    lower, block = program(build, (size, data)), Block("p", (size, data))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        size.value, data.value = rng.uniform(0, 1), rng.standard_normal(3)
        answer = lower.solve(POINTS[0], block.pack())
        value, y, _ = reference(build, POINTS[0], parameters=(size, data))
        assert answer.value == pytest.approx(value, abs=1e-7)
        assert answer.y == pytest.approx(y, abs=1e-5)


def test_level_set_of_a_quadratic_with_a_parameter():
    level = cp.Parameter(name="level")

    def build(x, y, level):
        g = y[0] * y[1] + y[0] ** 2 + y[1] ** 2 + (y[2] - x[0]) * (y[2] - x[0])
        return [cp.sum(y)], [g <= level]

    lower = program(build, (level,))
    for bound in (1.0, 2.0):
        answer = lower.solve(POINTS[0], np.array([bound]))
        # At the minimum grad g is a multiple of the ones: y0 = y1 = -t/3, y2 = x0 - t/2.
        t = np.sqrt(bound / (1 / 3 + 1 / 4))
        expected = [-t / 3, -t / 3, POINTS[0][0] - t / 2]
        assert answer.y == pytest.approx(np.array(expected), abs=1e-6)


def test_quadratic_parts_by_their_coefficients():
    def build(x, y):
        g = y[0] * y[1] + y[0] ** 2 + y[1] ** 2 + (y[2] - x[0]) * (y[2] - x[0])
        return [g + cp.abs(y[2])], [y[0] >= x[1]]

    answer = program(build).solve(POINTS[0], NO_P)
    # y1 = -y0/2 with y0 = x1 held by its bound; |y2| shrinks x0 = .3 to zero.
    assert answer.y == pytest.approx(np.array([0.4, -0.2, 0.0]), abs=1e-7)


def test_sign_of_a_factor_from_the_bounds_of_x():
    def build(x, y):
        return [cp.exp(2 - y[0]) / (2 + cp.nlp.cos(4 * x[0])) + cp.sum_squares(y)], [y <= 3]

    lower, x = program(build), POINTS[0]
    slope = lower.gradient(x, NO_P, (1.0,), lower.solve(x, NO_P))
    expected = differences(lambda point: lower.solve(point, NO_P).value, x)
    assert lower._program.data is not None
    assert slope == pytest.approx(expected, abs=1e-6)


def test_infeasible_and_unbounded_are_ordinary_answers():
    lower = program(lambda x, y: ([cp.exp(y[0]) + cp.norm(y)], [y[0] >= 1, y[0] <= x[0]]))
    statuses = [lower.solve(np.array([x0, 0.0]), NO_P).status for x0 in (2.0, 0.0, 2.0)]
    assert statuses == [InnerStatus.OPTIMAL, InnerStatus.INFEASIBLE, InnerStatus.OPTIMAL]
    falling = program(lambda x, y: ([x[0] * y[0] + cp.exp(y[1])], [y[0] >= 0, y[1] >= 0]))
    assert falling.solve(-np.ones(2), NO_P).status is InnerStatus.UNBOUNDED
    assert falling.solve(np.ones(2), NO_P).status is InnerStatus.OPTIMAL


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda x, y: ([cp.sum(cp.log(1 + cp.exp(y)))], []), r"log\(.*exp\(y\)\)' applies log"),
        (lambda x, y: ([cp.exp(y[0])], [y[0] * y[1] <= x[0]]), r"y\[0\] \* y\[1\]' is a product"),
        (lambda x, y: ([x[0] * cp.exp(y[0])], []), "factor whose sign is not known"),
        (lambda x, y: ([-cp.exp(y[0])], [y[0] <= 1]), "concave"),
        (lambda x, y: ([cp.exp(y[0]) - y[1] ** 2], []), "eigenvalue -2"),
        (lambda x, y: ([cp.exp(y[0])], [cp.exp(y[0]) == x[0]]), "exp"),
    ],
)
def test_nonconvex_lower_level_is_refused_by_name(build, named):
    with pytest.raises(NonconvexLowerError, match=named) as caught:
        program(build)
    assert "value-cuts" in str(caught.value)


def test_concave_multiple_is_not_mistaken_for_convex():
    # The curved factor holds parameters itself; lifting it would hide the wrong sign.
    with pytest.raises(NonconvexLowerError):
        program(lambda x, y: ([-(1 + x[0] ** 2) * cp.huber(y[0] - x[1])], [y <= 1, y >= -1]))


def test_nonconvex_upper_term_fails_only_when_it_counts():
    lower = program(lambda x, y: ([cp.nlp.sin(y[0]), cp.norm1(y - x[0])], []))
    x = POINTS[0]
    assert lower.is_convex(x, NO_P, (0.0, 1.0)) and not lower.is_convex(x, NO_P, (0.1, 1.0))
    assert lower.solve(x, NO_P, (0.0, 1.0)).status is InnerStatus.OPTIMAL
    answer = lower.solve(x, NO_P, (0.1, 1.0))
    assert answer.status is InnerStatus.FAILED and "sin" in answer.reason


def test_matrix_variable_with_matrix_duals():
    x, Z = cp.Variable(2, name="x"), cp.Variable((2, 2), name="Z")
    constraints = [Z >> cp.diag(x), Z == Z.T, Z[0, 0] <= 4]
    lower = ParametricProgram(
        [cp.trace(Z) + cp.sum_squares(Z)],
        constraints,
        x=Block("x", [x]),
        y=Block("y", [Z]),
        p=Block("p", []),
    )
    point = np.array([1.0, 0.5])
    answer = lower.solve(point, NO_P)
    assert answer.y.reshape(2, 2) == pytest.approx(np.diag(point), abs=1e-6)
    assert answer.duals[0].shape == (2, 2)
    expected = differences(lambda at: lower.solve(at, NO_P).value, point)
    assert lower.gradient(point, NO_P, (1.0,), answer) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("build", [exponentials, logarithms, logistic, norm_row])
def test_newton_from_the_last_answer_agrees_with_a_cold_solve(build):
    lower, used = program(build), set()
    for step in range(6):
        x = POINTS[0] + 0.02 * step
        warm = lower.solve(x, NO_P)
        cold = program(build).solve(x, NO_P)
        used.add(warm.solver)
        assert warm.status is cold.status is InnerStatus.OPTIMAL
        assert warm.value == pytest.approx(cold.value, abs=1e-9)
        assert warm.y == pytest.approx(cold.y, abs=1e-6)
    assert ("newton" in used) == (build is not norm_row)  # its norm would allow a wrong branch
    assert lower.solve(x, NO_P, warm=False).solver.startswith("clarabel")


def powers(x, y):
    return [cp.sum(cp.power(y, 5)) - cp.sum(y) * cp.exp(x[0]) + cp.power(6 + x[1], -2)], [
        y >= 0.1 * x[1]
    ]


def test_newton_is_used_for_powers_whose_argument_the_rows_keep_nonnegative():
    points = [np.array([0.3, 0.4]), np.array([0.31, 0.42]), np.array([0.5, 0.1])]
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    terms, constraints = powers(x, y)
    blocks = {"x": Block("x", [x]), "y": Block("y", [y]), "p": Block("p", ())}
    bounds, at_least_zero = (np.full(2, 0.0), np.full(2, 5.0)), (np.zeros(3), np.full(3, np.inf))
    for y_bounds in (None, at_least_zero):
        made = ParametricProgram(terms, constraints, **blocks, x_bounds=bounds, y_bounds=y_bounds)
        answers = [made.solve(point, NO_P) for point in points]
        assert any(answer.solver == "newton" for answer in answers) == (y_bounds is not None)
        for answer, point in zip(answers, points, strict=True):
            value, minimiser, _ = reference(powers, point)
            assert answer.value == pytest.approx(value, abs=1e-6)
            assert np.allclose(answer.y, minimiser, atol=1e-4)


def losses(x, y):
    return [cp.sum(cp.logistic(A @ y - 1)) + cp.exp(x[0]) * cp.sum_squares(y) - x[1] * y[0]], []


def losses_over_rows(x, y):
    return losses(x, y)[0], [y <= 0.05 + 0.1 * x[1], y[0] + y[1] >= -1]


@pytest.mark.parametrize("build", [losses, losses_over_rows])
def test_the_adjoint_with_the_factor_of_the_last_newton_step_is_exact(build):
    made, slope = program(build), np.array([1.0, -2.0, 0.5])
    for shift in np.linspace(0.0, 0.3, 7):  # the later answers come by Newton steps from those before
        at = np.array([0.3 + shift, 0.4 - shift])
        answer = made.solve(at, NO_P)
        found = made.solution_adjoint(at, NO_P, answer, slope)
    assert answer.solver == "newton" and answer.system is not None
    fresh = program(build)
    numbers = differences(lambda z: fresh.solve(z, NO_P, warm=False).y, at)
    assert found.gradient == pytest.approx(slope @ numbers, abs=1e-4)
    plain = made.solution_adjoint(at, NO_P, dataclasses.replace(answer, system=None), slope)
    assert found.gradient == pytest.approx(plain.gradient, rel=1e-8)


def test_newton_does_not_leave_the_domain():
    # 1/y has a stationary point of its own for y < 0, which is no minimiser.
    lower = program(lambda x, y: ([cp.sum(cp.inv_pos(y)) + cp.exp(x[0]) * cp.sum(y)], []))
    for x0 in (0.0, 3.0, -3.0, 2.0):
        answer = lower.solve(np.array([x0, 0.0]), NO_P)
        assert answer.y == pytest.approx(np.full(3, np.exp(-x0 / 2)), rel=1e-6)
