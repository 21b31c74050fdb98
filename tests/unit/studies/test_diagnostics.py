"""Measures of the papers on problems where they are known in closed form."""

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


def test_galet_measures_vanish_at_the_solution_alone():
    problem = quadratic()
    there = diagnostics.galet_measures(problem, 2.0, 2.0)
    assert max(there.r_x, there.r_w, there.r_y) < 1e-12
    away = diagnostics.galet_measures(problem, 1.0, 1.0)
    # The gradient of phi at 1 is -4.
    assert away.r_x == pytest.approx(16.0)
    assert away.r_w < 1e-12
    assert diagnostics.galet_measures(problem, 2.0, 2.5).r_y == pytest.approx(0.5)
    assert "R_x" in str(away)


def test_galet_measures_with_a_singular_hessian():
    """g = (y_1 + y_2 - x)^2 has a line of minimisers; w of least norm still tells the measure."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((y[0] + y[1] - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + cp.sum_squares(y - 1)), [], lower)
    # With y = x/2 each by symmetry: x^2 + 2 (x/2 - 1)^2 is least where 2x + 2 (x/2 - 1) = 0.
    best = 2 / 3
    found = diagnostics.galet_measures(problem, best, [best / 2, best / 2])
    assert max(found.r_x, found.r_w, found.r_y) < 1e-10


def test_galet_measures_with_a_given_w():
    found = diagnostics.galet_measures(quadratic(), 1.0, 1.0, w=np.zeros(1))
    assert found.r_x == pytest.approx(0.0)
    assert found.r_w == pytest.approx((4 * -4) ** 2)


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


def test_constants_of_a_quadratic():
    found = diagnostics.local_constants(quadratic(), 1.0, 1.5)
    assert found.smoothness == pytest.approx(4.0)
    assert found.strong_convexity == pytest.approx(4.0)
    assert found.polyak == pytest.approx(4.0)
    assert "PL" in str(found)


def test_pl_without_convexity():
    """y^2 + 3 sin(y)^2 is PL with a constant above 1/32, though not convex."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2 + 3 * cp.nlp.sin(y) ** 2 + 0 * x), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y**2), [], lower)
    found = diagnostics.local_constants(problem, 0.0, 0.0, radius=6.0, samples=300)
    assert 1 / 32 <= found.polyak < 2.0
    assert found.smoothness == pytest.approx(8.0, rel=1e-6)


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


def test_galet_measures_along_a_run():
    problem = quadratic()
    problem.solve(method="galet")
    history = problem.solution.history
    for name in ("R_x", "R_w", "R_y"):
        assert history[name][-1] < 1e-10
