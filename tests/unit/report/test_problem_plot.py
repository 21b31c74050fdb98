"""Curves and maps are right, kinks are found where they are, and pictures leave pyplot alone."""

from __future__ import annotations

import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from matplotlib.figure import Figure

import blomodel as bm
from blomodel.report.curve_kinks import find_kinks
from blomodel.report.landscape import sample


def toll_problem(low: float | None = 0.0, high: float | None = 10.0) -> bm.BilevelProblem:
    """Revenue t (10 - t) of a toll t, drivers answer y = 10 - t."""
    t, y = cp.Variable(name="t"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - (10 - t)) ** 2), [0 <= y], variables=[y])
    bounds = [t >= low] if low is not None else []
    bounds += [t <= high] if high is not None else []
    return bm.BilevelProblem(cp.Maximize(t * y), bounds, lower)


def clipped_problem() -> bm.BilevelProblem:
    """The lower answer follows 2x from 0 to 1: kinks at x = 0 and x = 1/2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [0 <= y, y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [-1 <= x, x <= 2], lower)


def map_problem() -> bm.BilevelProblem:
    """Two scalar upper variables, of which a + b <= 1 allows half of the square."""
    a, b, y = cp.Variable(name="a"), cp.Variable(name="b"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - a - b) ** 2), variables=[y])
    square = [0 <= a, a <= 1, 0 <= b, b <= 1, a + b <= 1]
    return bm.BilevelProblem(cp.Maximize(a + 2 * y), square, lower)


def curve(problem: bm.BilevelProblem, x: np.ndarray, gammas: tuple[float, ...] = ()):
    return sample(problem.model, problem.parameter_values(), x[:, None], gammas)


def test_sampled_curves_match_the_formulas() -> None:
    # f = -t y is minimised; with z = y - (10 - t), f + gamma z^2 is least at z = t / (2 gamma)
    t = np.linspace(0, 8, 9)
    seen = curve(toll_problem(), t, gammas=(2.0,))
    np.testing.assert_allclose(seen.value, -t * (10 - t), atol=1e-6)
    np.testing.assert_allclose(seen.y[:, 0], 10 - t, atol=1e-7)
    np.testing.assert_allclose(seen.penalised[2.0], -t * (10 - t) - t**2 / 8, atol=1e-5)


def test_the_answer_is_chosen_for_the_upper_level() -> None:
    # every y in [0, 1] minimises 0 * y; the upper level likes y = 1 best
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(0 * y), [0 <= y, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x - y), [0 <= x, x <= 1], lower)
    seen = curve(problem, np.array([0.25, 0.75]))
    np.testing.assert_allclose(seen.value, [-0.75, -0.25], atol=1e-6)


def test_curve_has_gaps_where_the_lower_level_has_no_answer() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= x, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [0 <= x, x <= 2], lower)
    seen = curve(problem, np.array([0.5, 1.5]), gammas=(1.0,))
    assert np.isfinite(seen.value).tolist() == [True, False]
    assert np.isfinite(seen.penalised[1.0]).tolist() == [True, False]


def test_points_that_break_an_upper_constraint_are_told_apart() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [-1 <= x, x <= 1, y >= 0.5], lower)
    assert curve(problem, np.array([0.25, 0.75])).is_allowed.tolist() == [False, True]
    labels = [line.get_label() for line in problem.plot(points=21).axes[0].lines]
    assert any("constraint fails" in label for label in labels)


@pytest.mark.parametrize(
    ("function", "places", "is_jump"),
    [
        (lambda t: abs(t - 0.2), [0.2], False),
        (lambda t: float(t > 0.3) + t, [0.3], True),
        (lambda t: max(-t, 0.0) + max(t - 0.5, 0.0), [0.0, 0.5], False),
        (lambda t: np.sin(9 * t), [], False),
        (lambda t: np.tanh(12 * t), [], False),
        (lambda t: 3.0, [], False),
    ],
)
def test_kinks_and_jumps_are_told_from_smooth_bends(function, places, is_jump) -> None:
    grid = np.linspace(-1, 1, 201)
    samples = np.array([[function(t)] for t in grid])
    found = find_kinks(lambda t: np.array([function(t)]), grid, samples)
    assert [kink.place for kink in found] == pytest.approx(places, abs=1e-3)
    assert all(kink.is_jump is is_jump for kink in found)


def test_noise_is_no_kink() -> None:
    rng = np.random.default_rng(0)
    grid = np.linspace(-1, 1, 201)

    def noisy(t: float) -> np.ndarray:
        return np.array([t**2 + 1e-7 * rng.standard_normal()])

    assert find_kinks(noisy, grid, np.array([noisy(t) for t in grid])) == []


def test_kinks_of_the_lower_answer_are_drawn() -> None:
    upper, lower = clipped_problem().plot(points=121).axes
    places = [line.get_xdata()[0] for line in lower.lines if "kink" in str(line.get_label())]
    assert places and places[0] == pytest.approx(0.0, abs=1e-2)
    dotted = [line for line in upper.lines if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in dotted] == pytest.approx([0.0, 0.5], abs=1e-2)


def test_plot_shows_the_answer_in_the_users_sense() -> None:
    problem = toll_problem()
    problem.solve()
    upper, lower = problem.plot(points=21).axes
    assert upper.lines[-1].get_label() == "answer: 5, value 25"
    assert np.nanmax(upper.lines[0].get_ydata()) == pytest.approx(25, abs=1e-5)
    assert upper.get_title(loc="left") == "What the upper level maximises"
    np.testing.assert_allclose(lower.lines[0].get_ydata(), 10 - lower.lines[0].get_xdata(), atol=1e-6)


def test_steps_of_the_last_solve_lie_on_the_curve() -> None:
    problem = toll_problem()
    problem.variables[0].value = 1.0
    problem.solve(method="blocc", gamma=100.0, step_size=0.1, max_steps=5)
    steps = problem.solution.history["x"][:, 0]
    [drawn] = [
        line for line in problem.plot(points=101).axes[0].lines if "steps of" in str(line.get_label())
    ]
    np.testing.assert_allclose(drawn.get_xdata(), steps)
    np.testing.assert_allclose(drawn.get_ydata(), steps * (10 - steps), atol=0.01)


def test_pictures_are_saved_and_leave_answer_and_pyplot_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)  # another test may have it
    problem = toll_problem()
    problem.solve()
    before = [float(variable.value) for variable in problem.variables]
    figure = problem.plot(points=11, path=tmp_path / "curve.png")
    problem.solution.plot(path=tmp_path / "progress.svg")
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows
    assert [float(variable.value) for variable in problem.variables] == before
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "progress.svg").read_text(encoding="utf-8")
    assert "matplotlib.pyplot" not in sys.modules


def test_curves_go_to_given_axes() -> None:
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert clipped_problem().plot(points=11, ax=axes[1]) is figure
    assert not axes[0].lines and axes[1].lines


def test_map_of_two_variables() -> None:
    problem = map_problem()
    problem.solve()
    figure = problem.plot(points=13, gammas=[1.0, 10.0])
    phi, *penalised, _ = figure.axes  # the last one is the colour bar
    assert len(penalised) == 2
    assert phi.get_xlabel() == "upper variable a" and phi.get_ylabel() == "upper variable b"
    key = [entry.get_text() for entry in figure.legends[0].get_texts()]
    assert any(text.startswith("answer (1, 0), value 3") for text in key)
    assert "not allowed" in key


def test_open_range_is_drawn_around_the_answer_or_asks_for_a_span() -> None:
    problem = toll_problem(high=None)
    with pytest.raises(bm.BlomodelError, match="pass span="):
        problem.plot()
    problem.solve()
    low, high = problem.plot(points=11).axes[0].lines[0].get_xdata()[[0, -1]]
    assert low <= 5 <= high
    with pytest.raises(bm.BlomodelError, match="not of the form"):
        problem.plot(span=(3, 1))


def test_large_problems_have_no_picture_over_x() -> None:
    x, y = cp.Variable(3, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - cp.sum(x)) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [0 <= x, x <= 1], lower)
    with pytest.raises(bm.BlomodelError, match=r"x of size 3.*solution\.plot"):
        problem.plot()
