"""Flatness, slopes left out, derivatives of answers, against pencil and differences."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import ModelError
from blomodel.problems.penalty_paper import example_4
from blomodel.studies import diagnostics


def quadratic():
    """y*(x) = x; phi(x) = (x - 1)^2 + (x - 3)^2, so x = 2 solves it."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(2 * (y - x) ** 2), variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 3) ** 2), [], lower)


def test_flatness_of_a_flat_and_a_steep_objective():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    flat = bm.BilevelProblem(cp.Minimize(x**2 + 0.5 * (y - x) ** 2), [], lower)
    found = diagnostics.flatness(flat, 1.0)
    assert found.delta == pytest.approx(0.0, abs=1e-12)
    assert found.is_flat()
    steep = bm.BilevelProblem(cp.Minimize(x**2 + 20 * y), [], lower)
    # y_gamma = x - 20 / (2 gamma) = x - 1, so delta = 20 - 1.
    found = diagnostics.flatness(steep, 1.0, gamma=10.0)
    assert found.delta == pytest.approx(19.0, abs=1e-4)
    assert found.slope == pytest.approx(20.0)
    assert not found.is_flat()
    assert "may go wrong" in str(found)


def test_flatness_says_when_f_holds_no_x():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y**2), [-5 <= x, x <= 5], lower)
    found = diagnostics.flatness(problem, 0.0)
    assert not found.depends_on_x
    assert not found.is_flat()
    assert "only through y" in str(found)


def test_flatness_of_the_papers_example():
    """Example 2: slope 1000 at the lower answer, from a bump that is 2.9 high and 0.005 wide.

    The paper states delta = 3e-3; a fine grid of the formula as printed gives 2.8988 within 1 of the
    lower answer, at the top of the bump, which is also where the penalised answer lies.
    """
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    d = y - x
    bump = 10 * cp.multiply(cp.exp(-(d**2) / (2 * 0.005**2)), cp.nlp.sin(100 * d))
    f = cp.multiply(cp.nlp.sin(d) + 2, d**2) + bump
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [-10 <= x, x <= 10], lower)
    found = diagnostics.flatness(problem, 1.0, alpha=1.1, modulus=5.0, gamma=15.0)
    assert found.slope == pytest.approx(1000.0, rel=1e-6)
    t = np.linspace(-1, 1, 200_001)
    values = (np.sin(t) + 2) * t**2 + 10 * np.exp(-(t**2) / (2 * 0.005**2)) * np.sin(100 * t)
    assert found.delta == pytest.approx(np.max(np.abs(values) - 5 * np.abs(t) ** 1.1), rel=1e-3)


def test_penalty_smoothness_does_not_grow_with_gamma():
    problem = quadratic()
    points = list(np.linspace(-1, 3, 9))
    found = [diagnostics.penalty_smoothness(problem, points, gamma=g) for g in (10.0, 1000.0)]
    # phi has curvature 4; F_gamma tends to it.
    assert found[1].smoothness == pytest.approx(4.0, rel=1e-2)
    assert found[0].smoothness < 5.0
    assert len(found[0].ratios) == 8
    assert "gamma = 10" in str(found[0])
    with pytest.raises(ModelError, match="two points"):
        diagnostics.penalty_smoothness(problem, [1.0])


def test_penalty_smoothness_with_a_nonconvex_lower_level():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2 + 0.6 * cp.nlp.sin(y) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [], lower)
    found = diagnostics.penalty_smoothness(problem, [0.0, 0.1, 0.2, 0.3], gamma=100.0)
    assert 1.0 < found.smoothness < 20.0


@pytest.mark.parametrize("inner", ["exact", "max-min"])
def test_penalty_smoothness_along_a_run(inner):
    """Example 4: the steps that a run has taken tell a smoothness that gamma does not raise."""
    found = []
    for gamma in (10.0, 100.0):
        problem = example_4()
        x, _ = problem.variables
        x.value = 0.5
        problem.solve(method="blocc", inner=inner, gamma=gamma, step_size=0.05)
        path = problem.solution.history["x"]
        assert len(path) >= 2
        found.append(diagnostics.penalty_smoothness(problem, list(path), gamma=gamma).smoothness)
    assert found[1] == pytest.approx(found[0], rel=0.2)
    assert 1 / found[1] > 0.01  # far above 1/gamma times the same


@pytest.mark.parametrize("slope", [0.5, 0.3])
@pytest.mark.parametrize("gamma", [10.0, 1000.0])
def test_left_out_slope_is_the_whole_effect_of_y(slope, gamma):
    """Proposition 2: f = x^2 + l y, y*(x) = x - 1, so that l is left out for every gamma."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x + 1) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + slope * y), [], lower)
    found = diagnostics.left_out_slope(problem, 3.0, gamma=gamma)
    assert found.left_out == pytest.approx([slope], abs=1e-6)
    assert found.own == pytest.approx([6.0])
    assert "leaves out" in str(found)
    # y_gamma = x - 1 - l / (2 gamma): delta gamma = l^2 / 2 - gamma (l / (2 gamma))^1.5.
    flat = diagnostics.flatness(problem, 3.0, gamma=gamma)
    by_hand = slope**2 / 2 - gamma * (slope / (2 * gamma)) ** 1.5
    assert flat.delta * flat.gamma == pytest.approx(by_hand, abs=1e-6)
    assert flat.bias == pytest.approx(by_hand + gamma**-2.0, abs=1e-6)


def test_left_out_slope_with_coupled_rows():
    """min (y - 3 x)^2 over y <= x: y = x at both answers, so that all of f_y dy/dx is left out."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 3 * x) ** 2), [y <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + 2 * y), [x >= 0.5], lower)
    found = diagnostics.left_out_slope(problem, 1.5, gamma=50.0)
    assert found.left_out == pytest.approx([2.0], abs=1e-4)
    assert found.slope == pytest.approx([3.0], abs=1e-4)


def difference(problem, x, d, reach=1e-5):
    """One-sided difference of exact lower answers."""
    model, none = problem.model, np.zeros(0)
    ahead = model.lower_program.solve(x + reach * d, none, accuracy=1e-11).y
    return (ahead - model.lower_program.solve(x, none, accuracy=1e-11).y) / reach


def test_derivative_of_answers_without_constraints_and_with_bounds():
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    a, b = np.diag([1.0, 2, 4]) + 0.3, np.array([[1.0, 0], [2, 1], [-1, 1]])
    g = 0.5 * cp.quad_form(y, a) - y @ (b @ x)
    free = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [], bm.Lower(cp.Minimize(g), variables=[y]))
    d = np.array([0.5, -1.0])
    assert diagnostics.answer_derivative(free, [1.0, 1], d) == pytest.approx(np.linalg.solve(a, b @ d))
    held = bm.Lower(cp.Minimize(g), [y >= 0], variables=[y])
    held = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [], held)
    for point in ([1.0, 1.0], [0.0, 0.0]):  # one bound pushed; all rows active with multiplier 0
        for way in (d, -d):
            found = diagnostics.answer_derivative(held, point, way)
            assert found == pytest.approx(difference(held, np.array(point), way), abs=1e-4)
            if point[0] == 1:
                printed = diagnostics.answer_derivative(held, point, way, is_printed=True)
                assert printed == pytest.approx(found)  # bounds have no curvature: (15) is right


def test_derivative_of_answers_with_coupled_rows():
    problem = example_4()
    for point in (0.5, 2.5):
        for way in (1.0, -1.0):
            found = diagnostics.answer_derivative(problem, point, way)
            expected = difference(problem, np.array([point]), np.array([way]))
            assert found == pytest.approx(expected, abs=1e-4)


def test_derivative_on_a_ball_needs_the_multiplier():
    """Figure 4: g is not strongly convex, the Lagrangian is; (15) as printed has no meaning there."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = x * y[0] + (1 + x) * cp.square(y[1]) - y[1]
    lower = bm.Lower(cp.Minimize(g), [cp.sum_squares(y) <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [1 <= x, x <= 3], lower)
    for point in (1.5, 2.0):
        found = diagnostics.answer_derivative(problem, point, 1.0)
        assert found == pytest.approx(difference(problem, np.array([point]), np.ones(1)), abs=1e-3)
    with pytest.raises(ModelError, match="strongly convex"):
        diagnostics.answer_derivative(problem, 2.0, 1.0, is_printed=True)


def test_coupled_penalty_against_a_grid():
    """(62) for g = (y - 2x)^2, y <= x: the multiplier is 2x, g^lambda = (y - 2x)^2 + 2x (y - x)."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
    at, gamma, grid = 0.7, 5.0, np.linspace(0, 3, 300_001)
    value = at**2 + (grid - 2) ** 2 + gamma * ((grid - 1.4) ** 2 + 2 * at * (grid - at) - at**2)
    found = diagnostics.coupled_penalty(problem, at, gamma=gamma)
    assert found.value == pytest.approx(value.min(), abs=1e-5)
    assert found.y == pytest.approx([grid[value.argmin()]], abs=1e-4)
    assert found.multipliers[0] == pytest.approx(2 * at, abs=1e-6)
    assert x.value is None  # a measure leaves the user's values alone
    assert y.value is None
