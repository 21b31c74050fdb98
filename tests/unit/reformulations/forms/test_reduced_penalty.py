"""The reduced penalty: its value, its gradient, and where it goes as gamma grows."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.reduced_penalty import ReducedPenalty


def coupled_qp():
    """Two-dimensional levels, coupled rows, one upper constraint that holds y."""
    draw = np.random.default_rng(3)
    matrix, rows, push = (draw.standard_normal((2, 2)) for _ in range(3))
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(y - matrix @ x)), [rows @ y <= 1 + push @ x], variables=[y]
    )
    upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum(cp.exp(y)))
    return bm.BilevelProblem(upper, [x >= -2, x <= 2, y[0] <= 3], lower), x, y


def conic():
    """A lower level with a norm, an exponential and an x-dependent weight."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.sum(cp.exp(y)) + cp.exp(x[0]) * cp.norm(y, 1) - 4 * x[1] * y[0]),
        [cp.norm(y, 2) <= 1 + x[1] ** 2],
        variables=[y],
    )
    upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum_squares(y - 0.3))
    return bm.BilevelProblem(upper, [x >= -2, x <= 2], lower), x, y


def brute_force(problem, x, y, point, gamma):
    """gamma (v_gamma - v) by two plain cvxpy solves with x replaced by numbers."""
    from blomodel.compiler.expressions.rewriting import Substitution

    fix = Substitution([x], [cp.Constant(point)])
    f = fix(problem.objective.args[0])
    g = fix(problem.lower.objective.args[0])
    below = [fix(c) for c in problem.lower.constraints]
    coupling = [fix(c) for c in problem.constraints if y.id in {v.id for v in c.variables()}]
    tight = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    v = cp.Problem(cp.Minimize(g), below).solve(**tight)
    v_gamma = cp.Problem(cp.Minimize(f / gamma + g), below + coupling).solve(**tight)
    return gamma * (v_gamma - v)


@pytest.mark.parametrize("build", [coupled_qp, conic])
@pytest.mark.parametrize("gamma", [0.5, 20.0])
def test_value_against_plain_cvxpy(build, gamma):
    problem, x, y = build()
    penalty = ReducedPenalty(problem.model, np.empty(0))
    for point in ([0.3, 0.7], [-0.5, 1.2]):
        expected = brute_force(problem, x, y, np.array(point), gamma)
        assert penalty(np.array(point), gamma).value == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("build", [coupled_qp, conic])
@pytest.mark.parametrize("gamma", [0.5, 20.0, 1000.0])
def test_gradient_against_central_differences(build, gamma):
    problem, _, _ = build()
    penalty = ReducedPenalty(problem.model, np.empty(0))
    point = np.array([0.31, 0.72])
    step = 1e-6 * max(100.0, gamma)  # the inner solves' rounding is multiplied by gamma / step
    # A nonsmooth conic answer is known to some 1e-5, which gamma multiplies; a QP's is exact.
    noise = 5e-5 * gamma if build is conic else 0.0
    gradient = penalty(point, gamma).gradient
    for k, direction in enumerate(np.eye(2)):
        ahead = penalty(point + step * direction, gamma).value
        behind = penalty(point - step * direction, gamma).value
        assert gradient[k] == pytest.approx((ahead - behind) / (2 * step), rel=1e-3, abs=1e-4 + noise)


def test_penalty_grows_to_the_upper_objective():
    """F_gamma rises with gamma and stays below f at the lower answer."""
    problem, _, _ = coupled_qp()
    penalty = ReducedPenalty(problem.model, np.empty(0))
    point = np.array([0.3, 0.7])
    values = [penalty(point, gamma).value for gamma in (0.1, 1.0, 10.0, 100.0, 1e4)]
    assert all(a <= b + 1e-9 for a, b in zip(values, values[1:], strict=False))
    answer = problem.model.lower_program.solve(point, np.empty(0))
    limit = float(problem.model.f(point, answer.y, np.empty(0))[0])
    assert values[-1] <= limit + 1e-9
    assert values[-1] == pytest.approx(limit, rel=1e-2)


def test_infeasible_lower_level_gives_infinity():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= x, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [], lower)
    penalty = ReducedPenalty(problem.model, np.empty(0))
    assert penalty(np.array([0.5]), 1.0).is_finite
    assert not penalty(np.array([1.5]), 1.0).is_finite
