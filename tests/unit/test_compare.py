"""Methods side by side: the same start, a table, a plot, and errors as rows."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import UnknownMethodError, UnknownSettingError


@pytest.fixture
def problem():
    """y = x below; above (x - 1)^2 + (y - 2)^2 is least at x = 3/2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 5], variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 2) ** 2)
    return bm.BilevelProblem(upper, [-3 <= x, x <= 3], lower)


def test_table_has_a_line_for_each_method(problem):
    comparison = bm.compare(problem, ["auto", "reduced-penalty"])
    lines = str(comparison).splitlines()
    for word in ("method", "status", "value", "lower gap", "stationarity", "iterations", "time"):
        assert word in lines[0]
    assert [line.split()[0] for line in lines[2:4]] == ["auto", "reduced-penalty"]
    assert comparison["auto"].value == pytest.approx(0.5, abs=1e-5)
    assert comparison.best is not None
    assert comparison.best.method == "auto"


def test_the_first_method_does_not_pay_for_compiling(problem, monkeypatch):
    seen = []
    solve = bm.BilevelProblem.solve

    def watched(self, *arguments, **settings):
        seen.append("model" in vars(self))
        return solve(self, *arguments, **settings)

    monkeypatch.setattr(bm.BilevelProblem, "solve", watched)
    bm.compare(problem, ["auto", "reduced-penalty"])
    assert seen == [True, True]


def test_variables_and_answer_of_the_problem_are_left_alone(problem):
    problem.solve()
    problem.variables[0].value = 0.25
    value, solution = problem.value, problem.solution
    bm.compare(problem, ["auto", "blocc"])
    assert problem.variables[0].value == 0.25
    assert problem.value == value
    assert problem.solution is solution


def test_every_method_starts_from_the_same_point(problem):
    problem.variables[0].value = 0.25
    comparison = bm.compare(problem, ["blocc", "blocc"], max_steps=3, step_x=1e-9)
    first, second = (row.solution.history["x"] for row in comparison.rows)
    assert first[0] == pytest.approx([0.25], abs=1e-6)  # after one short step
    assert np.array_equal(first, second)


def test_settings_go_to_the_methods_that_have_them(problem):
    comparison = bm.compare(problem, ["auto", ("blocc", {"gamma": 20.0})], max_steps=5, tolerance=1e-5)
    assert comparison["auto"].settings == {"tolerance": 1e-5}
    assert comparison["blocc"].settings == {"max_steps": 5, "tolerance": 1e-5, "gamma": 20.0}
    with pytest.raises(UnknownSettingError, match="max_steps"):
        bm.compare(problem, ["blocc"], max_stepz=5)
    with pytest.raises(UnknownMethodError, match="blocc"):
        bm.compare(problem, ["bloc"])


def test_an_error_is_a_row_with_its_reason():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.cos(y) + x * y), [y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y**2), [0 <= x, x <= 2], lower)
    comparison = bm.compare(problem, ["blocc"])
    assert comparison.rows[0].error.startswith("NonconvexLowerError")
    assert "cos" in str(comparison)
    assert comparison.best is None
    assert comparison.plot() is not None


def test_methods_that_fail_for_one_reason_share_its_line():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1 + x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y**2), [0 <= x, x <= 2], lower)
    comparison = bm.compare(problem, ["meha", "auto", "galet"])
    (line,) = (line for line in str(comparison).splitlines() if "of its own" in line)
    assert line.startswith("meha, galet: ModelError: the constraint y <= 1 + x")
    assert comparison._repr_html_().count("in a set Y of its own") == 1


def test_plot_has_values_and_gaps(problem):
    comparison = bm.compare(problem, ["auto", "blocc"], max_steps=20)
    figure = comparison.plot()
    upper, lower = figure.axes
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["auto", "blocc"]
    assert lower.get_yscale() == "log"
    assert upper.get_yscale() == "log"
    auto, blocc = upper.lines
    assert auto.get_ydata()[-1] == pytest.approx(1e-12, rel=1)  # the best answer is the reference
    assert blocc.get_ydata()[-1] == pytest.approx(comparison["blocc"].value - 0.5, abs=1e-6)
    alone = figure.add_subplot()
    comparison.plot(ax=alone)
    assert len(alone.lines) == 2 and "seconds" in alone.get_xlabel()


def test_maximisation_keeps_the_users_sense():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(3 - (x - 1) ** 2), [-3 <= x, x <= 3], lower)
    assert bm.compare(problem, ["auto"]).best.value == pytest.approx(3.0)


def test_methods_print_as_a_table():
    table = str(bm.methods())
    head = table.splitlines()[0].split()
    assert head == ["name", "takes", "assumes", "claims", "reference"]
    assert "reduced-penalty" in table
    assert isinstance(bm.methods(), list)
