"""Parametric programs that are linear or quadratic in y, against cvxpy at fixed x."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.errors import NonconvexLowerError
from blomodel.programs.parametric import ParametricProgram
from blomodel.solvers.answer import InnerStatus

NO_P = np.zeros(0)
RNG = np.random.default_rng(0)
M = RNG.standard_normal((4, 4))
Q = M @ M.T + np.eye(4)
A = RNG.standard_normal((6, 4))


def program(build, n_x=2, n_y=4, parameters=(), bound=5.0):
    """The program of ``build(x, y, *parameters) -> terms, constraints``."""
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    terms, constraints = build(x, y, *parameters)
    blocks = {"x": Block("x", [x]), "y": Block("y", [y]), "p": Block("p", parameters)}
    bounds = np.full(n_x, -bound), np.full(n_x, bound)
    return ParametricProgram(terms, constraints, **blocks, x_bounds=bounds)


def reference(build, x, weights=(1.0,), n_y=4, parameters=()):
    """Value, minimiser and duals from cvxpy with x a constant."""
    y = cp.Variable(n_y)
    terms, constraints = build(cp.Constant(x), y, *parameters)
    total = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    problem = cp.Problem(cp.Minimize(total), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return problem.value, y.value, [constraint.dual_value for constraint in constraints]


def differences(function, x, step=1e-5):
    """Central differences of a scalar or vector function."""
    columns = []
    for unit in np.eye(len(x)):
        columns.append((function(x + step * unit) - function(x - step * unit)) / (2 * step))
    return np.array(columns).T


def strongly_convex(x, y):
    g = 0.5 * cp.quad_form(y, cp.psd_wrap(Q)) + x[0] * y[1] + cp.sum(cp.multiply(cp.exp(x), y[:2]))
    return [g], [A @ y <= 1 + x[1], y[0] + y[3] == x[0], y >= -1, cp.NonNeg(y[1] + 2 - x[1])]


def merely_convex(x, y):
    return [cp.sum_squares(A[:2] @ y - x) + y[2]], [y >= x[0] - 2, y <= 2, cp.sum(y) <= x[1]]


def linear(x, y):
    return [cp.sum(y) + x[0] * y[0] + x[1]], [y >= x[0], y <= 3, A[:2] @ y >= x[1] - 1]


def moving_matrices(x, y):
    g = cp.sum(cp.multiply(cp.exp(cp.hstack([x, x])), y**2)) + y[0] - x[1] * y[3]
    return [g], [x[0] * y[0] + y[1] <= -0.1, cp.sum(y) == x[1], x @ y[:2] <= 1]


def matrix_rows(x, y):
    Y = cp.reshape(y, (2, 2), order="F")
    return [cp.sum_squares(Y - 2)], [
        Y <= np.array([[1.0, 2.0], [3.0, 0.5]]) + x[0],
        x[1] <= Y[0, 1],
    ]


SMOOTH_POINTS = [np.array([0.3, 0.4]), np.array([-0.2, 0.7])]
CASES = [strongly_convex, merely_convex, linear, moving_matrices, matrix_rows]


@pytest.mark.parametrize("x", SMOOTH_POINTS)
@pytest.mark.parametrize("build", CASES)
def test_against_cvxpy(build, x):
    answer = program(build).solve(x, NO_P)
    value, y, duals = reference(build, x)
    assert answer.status is InnerStatus.OPTIMAL
    assert answer.value == pytest.approx(value, abs=1e-7)
    if build is not merely_convex:
        assert answer.y == pytest.approx(y, abs=1e-6)
        for ours, theirs in zip(answer.duals, duals, strict=True):
            assert np.shape(ours) == np.shape(theirs)
            assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("x", SMOOTH_POINTS)
@pytest.mark.parametrize("build", CASES)
def test_gradient(build, x):
    lower = program(build)
    answer = lower.solve(x, NO_P)
    expected = differences(lambda point: lower.solve(point, NO_P).value, x)
    assert lower.gradient(x, NO_P, (1.0,), answer) == pytest.approx(expected, abs=1e-8, rel=1e-7)


@pytest.mark.parametrize("x", SMOOTH_POINTS)
@pytest.mark.parametrize("build", [strongly_convex, moving_matrices, linear, matrix_rows])
def test_solution_jacobian(build, x):
    lower = program(build)
    answer = lower.solve(x, NO_P)
    expected = differences(lambda point: lower.solve(point, NO_P).y, x)
    found = lower.solution_jacobian(x, NO_P, (1.0,), answer)
    assert found == pytest.approx(expected, abs=1e-7)


def test_no_solution_jacobian_at_a_kink_or_without_uniqueness():
    kink = program(lambda x, y: ([cp.sum_squares(y - x[0])], [y >= 0]))
    x = np.zeros(2)
    assert kink.solution_jacobian(x, NO_P, (1.0,), kink.solve(x, NO_P)) is None
    flat = program(lambda x, y: ([cp.square(y[0] - x[0])], [y >= -1, y <= 1]))
    assert flat.solution_jacobian(x, NO_P, (1.0,), flat.solve(x, NO_P)) is None


@pytest.mark.parametrize(
    ("build", "minimiser"),
    [
        # y0 y1 + y0^2 + y1^2 - 3 x0 y0: stationary at y0 = 2 x0, y1 = -x0
        (lambda x, y: ([y[0] * y[1] + y[0] ** 2 + y[1] ** 2 - 3 * x[0] * y[0]], []), (1.2, -0.6)),
        (lambda x, y: ([(y[0] - x[0]) * (y[0] - x[0]) + (y[1] + 1) ** 2], []), (0.6, -1.0)),
        (lambda x, y: ([x[0] * y[0] + y[0] ** 2 + cp.sum_squares(y[1] * x[1])], []), (-0.3, 0.0)),
    ],
)
def test_quadratic_by_its_mathematics(build, minimiser):
    lower = program(build, n_y=2)
    assert lower.kind == "QP" and "quadratic" in lower.reason
    answer = lower.solve(np.array([0.6, 0.5]), NO_P)
    assert answer.y == pytest.approx(np.array(minimiser), abs=1e-10)


def test_linear_is_recognised():
    assert program(linear).kind == "LP"


@pytest.mark.parametrize("weights", [(0.0, 1.0), (1e-6, 1.0), (0.3, 0.7)])
def test_weights(weights):
    def build(x, y):
        f = cp.sum_squares(y - 1) + cp.sum_squares(x) + x[0] * y[1]
        return [f, *strongly_convex(x, y)[0]], strongly_convex(x, y)[1]

    x, lower = SMOOTH_POINTS[0], program(build)
    answer = lower.solve(x, NO_P, weights)
    value, y, _ = reference(build, x, weights)
    assert answer.value == pytest.approx(value, abs=1e-7) and answer.y == pytest.approx(y, abs=1e-6)
    expected = differences(lambda point: lower.solve(point, NO_P, weights).value, x)
    assert lower.gradient(x, NO_P, weights, answer) == pytest.approx(expected, abs=1e-8, rel=1e-7)


def test_wrong_number_of_weights():
    with pytest.raises(ValueError, match="as many weights"):
        program(linear).solve(np.zeros(2), NO_P, (1.0, 2.0))


def test_parameters_change_without_recompilation():
    data, rows = cp.Parameter(4, name="data"), cp.Parameter((2, 4), name="rows")

    def build(x, y, data, rows):
        return [cp.sum_squares(y - data) + x[0] * y[0]], [rows @ y <= x[1]]

    data.value, rows.value = np.ones(4), A[:2]
    lower = program(build, parameters=(data, rows))
    block = Block("p", (data, rows))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data.value, rows.value = rng.standard_normal(4), rng.standard_normal((2, 4))
        x = SMOOTH_POINTS[seed % 2]
        answer = lower.solve(x, block.pack())
        value, y, _ = reference(build, x, parameters=(data, rows))
        assert answer.value == pytest.approx(value, abs=1e-7)
        assert answer.y == pytest.approx(y, abs=1e-6)


def test_parameters_without_values_can_be_compiled():
    data = cp.Parameter(4, name="data")
    lower = program(lambda x, y, data: ([cp.sum_squares(y - data - x[0])], []), parameters=(data,))
    answer = lower.solve(np.array([1.0, 0.0]), np.arange(4.0))
    assert answer.y == pytest.approx(np.arange(4.0) + 1)


def test_infeasible_and_unbounded_are_ordinary_answers():
    lower = program(lambda x, y: ([y[0] + x[1] * y[1] ** 2], [y[0] >= 1, y[0] <= x[0], y[1:] >= 0]))
    statuses = [lower.solve(np.array([x0, 1.0]), NO_P).status for x0 in (2.0, 0.0, 2.0)]
    assert statuses == [InnerStatus.OPTIMAL, InnerStatus.INFEASIBLE, InnerStatus.OPTIMAL]
    empty = lower.solve(np.zeros(2), NO_P)
    assert empty.value == np.inf and np.isnan(lower.gradient(np.zeros(2), NO_P, (1.0,), empty)).all()
    falling = program(lambda x, y: ([x[0] * y[0] + y[1] ** 2], [y[0] <= 1]))
    assert falling.solve(np.ones(2), NO_P).status is InnerStatus.UNBOUNDED
    assert falling.solve(-np.ones(2), NO_P).status is InnerStatus.OPTIMAL


def test_nonconvex_lower_level_is_refused_by_name():
    with pytest.raises(NonconvexLowerError, match=r"eigenvalue -2.*y\[1\].*value-cuts"):
        program(lambda x, y: ([y[0] ** 2 + x[0] * y[0] - y[1] ** 2], [y <= 1, y >= -1]))


def test_nonconvex_upper_term_is_a_matter_of_weights():
    lower = program(lambda x, y: ([-cp.sum_squares(y), cp.sum_squares(y - x[0])], []))
    x = np.array([1.0, 0.0])
    assert lower.is_convex(x, NO_P, (0.5, 1.0)) and not lower.is_convex(x, NO_P, (1.5, 1.0))
    assert lower.convexity(x, NO_P, (1.5, 1.0)) == pytest.approx(-1.0)
    assert lower.solve(x, NO_P, (0.5, 1.0)).y == pytest.approx(np.full(4, 2.0))
    answer = lower.solve(x, NO_P, (1.5, 1.0))
    assert answer.status is InnerStatus.FAILED and "not convex" in answer.reason


def test_convexity_may_depend_on_x():
    lower = program(lambda x, y: ([x[0] * cp.sum_squares(y) + x[1] * y[0]], [y <= 1, y >= -1]))
    assert lower.solve(np.array([1.0, 1.0]), NO_P).y[0] == pytest.approx(-0.5)
    assert lower.solve(np.array([-1.0, 1.0]), NO_P).status is InnerStatus.FAILED


def test_cold_and_warm_agree():
    lower = program(strongly_convex)
    for x in SMOOTH_POINTS * 2:
        warm, cold = lower.solve(x, NO_P), lower.solve(x, NO_P, warm=False)
        assert warm.y == pytest.approx(cold.y, abs=1e-11)


def test_large_sparse_coupling_is_cheap():
    n = 2000
    rng = np.random.default_rng(1)
    rows = sp.random_array((n, n), density=3 / n, rng=rng) + sp.eye_array(n)
    coupling = sp.random_array((n, n), density=2 / n, rng=rng)
    limit = rng.uniform(0.2, 1.0, n)

    def build(x, y):
        return [cp.sum_squares(y) + (x - 1) @ y], [rows @ y <= limit + coupling @ x]

    lower = program(build, n_x=n, n_y=n)
    x = 0.1 * rng.standard_normal(n)
    answer = lower.solve(x, NO_P)
    assert answer.status is InnerStatus.OPTIMAL
    residual = 2 * answer.y + x - 1 + rows.T @ answer.duals[0]
    assert np.abs(residual).max() <= 1e-9
    assert (rows @ answer.y - limit - coupling @ x).max() <= 1e-9
    direction = 1e-4 * rng.standard_normal(n)
    change = lower.solve(x + direction, NO_P).value - lower.solve(x - direction, NO_P).value
    slope = lower.gradient(x, NO_P, (1.0,), answer)
    assert slope @ direction == pytest.approx(change / 2, rel=1e-6)
