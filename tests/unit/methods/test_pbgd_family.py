"""PBGD, JNT-PBGD, ALT-PBGD, F2SA and PBGD-Free on the examples of their papers."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import ModelError, UnsuitableMethodWarning
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run
from blomodel.problems.meha_paper import strongly_convex
from blomodel.problems.penalty_paper import example_1, example_3

PENALTY = [
    ("alt-pbgd", {}),
    ("f2sa", {}),
    ("jnt-pbgd", {}),
    ("v-pbgd", {}),
    ("pbgd", {}),
    ("pbgd", {"order": "gauss-seidel"}),
]


def run_method(problem, name, start=None, **settings):
    run = Run(model=problem.model, p=problem.parameter_values(), start=start, tolerance=1e-6, seed=0)
    create_method(name, settings).run(run)
    return run


@pytest.mark.parametrize(("name", "settings"), PENALTY)
def test_strongly_convex_without_settings(name, settings):
    last = run_method(strongly_convex(5), name, **settings).candidates[0]
    np.testing.assert_allclose(last.x, 0.5, rtol=1e-3)
    np.testing.assert_allclose(last.y, 0.5, rtol=1e-3)


@pytest.mark.parametrize(("name", "settings"), PENALTY)
def test_opposite_slopes_without_settings(name, settings):
    last = run_method(example_1(), name, **settings).candidates[0]
    assert last.x[0] == pytest.approx(-5, rel=1e-3)


@pytest.mark.parametrize("version", ["inner-loop", "single-loop"])
def test_pbgd_free_goes_wrong_and_says_so(version):
    start = (np.array([3.0]), np.array([0.0]))
    with pytest.warns(UnsuitableMethodWarning, match="not flat"):
        run = run_method(example_1(), "pbgd-free", start=start, version=version)
    assert run.candidates[0].x[0] == pytest.approx(0, abs=1e-3)
    assert any("not flat" in note for note in run.notes)


def test_pbgd_free_without_a_step_says_so():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(y - 1)), [], lower)
    with pytest.warns(UnsuitableMethodWarning, match="does not depend on x except through y"):
        run = run_method(problem, "pbgd-free")
    assert run.candidates


def coupled_slope(slope):
    """y = x because of y <= x, so that f(x, y(x)) = x^2 + slope * x."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x - 3) ** 2), [y <= x], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + slope * y), [x >= -8, x <= 8], lower), x


def test_pbgd_free_says_that_multipliers_carry_the_slope():
    """Both answers are y = x whatever f is, so that flatness there would not show it."""
    problem, x = coupled_slope(4.0)
    with pytest.warns(UnsuitableMethodWarning, match="left out has norm 4 .*try blocc"):
        problem.solve(method="pbgd-free")
    assert x.value == pytest.approx(1.0, abs=1e-6)
    problem.solve(method="blocc")
    assert x.value == pytest.approx(-1.0, abs=1e-4)


def test_pbgd_free_with_coupled_rows_is_silent_where_little_is_left_out():
    problem, x = coupled_slope(1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem.solve(method="pbgd-free", gamma=20.0)
    assert x.value == pytest.approx(1.0, abs=1e-6)
    assert problem.solution.evaluations >= problem.solution.iterations > 0


def test_pbgd_free_says_that_it_left_the_x_with_answers():
    """grad_x f leads to x = 0, but y >= 1 and y <= x need x >= 1."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y <= x, y >= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + 0.01 * y), [], lower)
    x.value = 3.0
    problem.solve(method="pbgd-free")
    assert x.value == pytest.approx(1.0, abs=1e-6)
    assert any("without lower answer" in note for note in problem.solution.notes)


@pytest.mark.parametrize(
    "settings", [{"version": "single-loop"}, {"inner_steps": 3}, {"inner_step_size": 0.1}]
)
def test_pbgd_free_refuses_inner_steps_over_a_set_that_moves(settings):
    problem, _ = coupled_slope(1.0)
    with pytest.raises(ModelError, match="contain x"):
        problem.solve(method="pbgd-free", **settings)


def test_pbgd_free_is_silent_where_f_is_flat():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), variables=[y])
    f = cp.square(x - 1) + 1e-3 * cp.square(y - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsuitableMethodWarning)
        run = run_method(bm.BilevelProblem(cp.Minimize(f), [], lower), "pbgd-free")
    assert run.candidates[0].x[0] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "step", "converges"),
    [
        ("alt-pbgd", 0.1, True),
        ("jnt-pbgd", 0.1, False),
        ("alt-pbgd", 0.01, True),
        ("jnt-pbgd", 0.01, True),
    ],
)
def test_large_steps_suit_the_reduced_penalty_only(name, step, converges):
    # Both penalties have their minimum at the same x, found by a fine search.
    start = (np.zeros(1), np.zeros(1))
    run = run_method(example_3(), name, start=start, gamma=10.0, step_size=step, max_steps=5000)
    assert (run.history["residual"][-1] < 1e-5) == converges
    assert (abs(run.candidates[0].x[0] - 0.36462) < 1e-4) == converges


def test_one_step_of_eq_19():
    start = (np.array([1.0]), np.array([2.0]))
    steps = {"gamma": 3.0, "step_size": 0.01, "inner_step_size": 0.5, "max_steps": 1}
    run = run_method(example_1(), "jnt-pbgd", start=start, **steps)
    # y_g = x - 1 = 0, g_x = -2 (y - x + 1), g_y = 2 (y - x + 1)
    assert run.candidates[0].x[0] == pytest.approx(1 - 0.01 * (2 + 3 * (-4 - 0)))
    assert run.candidates[0].y[0] == pytest.approx(2 - 0.01 * (10 + 3 * 4))


def test_one_step_of_eqs_18_to_21():
    start = (np.array([1.0]), np.array([2.0]))
    steps = {"gamma": 4.0, "step_size": 0.1, "inner_step_size": 0.25, "inner_steps": 1}
    run = run_method(example_1(), "alt-pbgd", start=start, **steps, max_steps=1)
    y_g, y_gamma = 2 - 0.25 * 4, 2 - 0.25 * (4 + 10 / 4)
    assert run.candidates[0].y[0] == pytest.approx(y_gamma)
    slope = 2 + 4 * (-2 * y_gamma + 2 * y_g)
    assert run.candidates[0].x[0] == pytest.approx(1 - 0.1 * slope)


def test_jacobi_begins_at_zero_when_asked():
    start = (np.array([1.0]), np.array([2.0]))
    steps = {"gamma": 3.0, "step_size": 0.01, "inner_step_size": 0.25, "inner_steps": 1}
    run = run_method(example_1(), "pbgd", start=start, restart=True, max_steps=1, **steps)
    # (7a) from w = 0 at x = 1: g_y = 0, so w stays 0.
    assert run.candidates[0].x[0] == pytest.approx(1 - 0.01 * (2 + 3 * (-4 - 0)))


@pytest.mark.parametrize(
    ("name", "wrong"), [("pbgd", {"order": "random"}), ("pbgd-free", {"version": "triple"})]
)
def test_unknown_variants_are_refused(name, wrong):
    with pytest.raises(bm.errors.UnknownSettingError, match="one of"):
        create_method(name, wrong)


@pytest.mark.parametrize("name", ["alt-pbgd", "f2sa", "jnt-pbgd", "pbgd"])
def test_sets_hold_x_and_y(name):
    # y follows x but is held in [0, 1]; the upper level wants y = 3 and x small.
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [0 <= y, y <= 1], variables=[y])
    f = cp.sum_squares(y - 3) + 0.1 * cp.sum_squares(x)
    problem = bm.BilevelProblem(cp.Minimize(f), [cp.sum(x) == 1.5, x >= 0], lower)
    last = run_method(problem, name).candidates[0]
    assert last.x.sum() == pytest.approx(1.5)
    assert np.all(last.y <= 1) and np.all(last.y >= 0)
    np.testing.assert_allclose(last.x, 0.75, atol=2e-3)


def test_whole_solve_is_certified():
    problem = strongly_convex(3)
    problem.solve(method="alt-pbgd")
    assert problem.certificate.accepted
    assert problem.value == pytest.approx(0.75, rel=1e-3)


# Gradients in an iteration with 5 inner steps, counted in the papers' formulas.
GRADIENTS = [
    ("alt-pbgd", {}, 5 + 5 * 2 + 3),  # g_y; f_y, g_y; f_x and g_x at two points
    ("f2sa", {}, 5 + 5 * 2 + 3),
    ("jnt-pbgd", {}, 5 + 3 + 2),  # g_y; f_x and g_x at two points; f_y, g_y
    ("v-pbgd", {}, 5 + 3 + 2),
    ("pbgd", {"order": "jacobi"}, 5 + 3 + 2),
    ("pbgd", {"order": "gauss-seidel"}, 5 + 5 * 2 + 3),
    ("pbgd-free", {}, 5 * 2 + 1),  # f_y, g_y; f_x
]


@pytest.mark.parametrize(("name", "settings", "per_iteration"), GRADIENTS)
@pytest.mark.filterwarnings("ignore:pbgd-free")  # f is not flat here
def test_every_gradient_of_the_papers_formulas_is_counted(name, settings, per_iteration):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 2) ** 2)
    problem = bm.BilevelProblem(upper, [-3 <= x, x <= 4], lower)
    problem.solve(method=name, gamma=10.0, inner_steps=5, max_steps=7, **settings)
    solution = problem.solution
    assert 0 < solution.iterations <= 7
    assert solution.evaluations == solution.iterations * per_iteration
