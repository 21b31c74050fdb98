"""What a user of cvxpy types: leaves as calls, models printed, questions with a yes or a no."""

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.structure.finding import Finding


@pytest.fixture
def problem():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y", nonneg=True)
    target = cp.Parameter(name="target", value=2.0)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y <= target], variables=[y], name="firm")
    return bm.BilevelProblem(cp.Minimize((x - 3) ** 2 + cp.sum(y)), [x >= 0], lower)


def test_leaves_are_called_as_in_cvxpy(problem):
    assert [v.name() for v in problem.variables()] == ["x", "y"]
    assert [p.name() for p in problem.parameters()] == ["target"]
    assert isinstance(problem.variables(), list)
    assert problem.variables()[0] is problem.variables[0]
    assert [v.name() for v in problem.followers[0].variables()] == ["y"]
    single = cp.Problem(problem.objective, problem.constraints)
    ours = sorted(float(c.value) for c in problem.constants())
    assert set(ours) >= {float(c.value) for c in single.constants()}


def test_printing_a_problem_prints_the_model(problem):
    text = str(problem)
    assert text.splitlines() == [
        "minimise    (x - 3)**2 + sum(y)",
        "over        x",
        "subject to  0 <= x",
        "where y solves the lower level (firm):",
        "    minimise    sum_squares(y - x)",
        "    over        y (2, nonneg)",
        "    subject to  y <= target",
    ]
    assert str(problem.followers[0]).splitlines()[0] == "firm"
    assert "0x" not in repr(problem.followers[0]) and "decides: y" in repr(problem.followers[0])


def test_printing_what_was_found(problem):
    problem.solve()
    text = str(problem.solution)
    assert "optimal" in text and "\n" in text
    assert [line.split()[0] for line in text.splitlines()[:5]] == ["status", "value", "bound", "x", "y"]
    assert repr(problem.sensitivity()).startswith("d value / d target")
    explained = problem.explain()
    assert isinstance(explained, str) and repr(explained) == str(explained)
    assert explained._repr_html_().startswith("<pre") and "&lt;" in explained._repr_html_()


def test_yes_and_no_with_a_reason(problem):
    assert problem.is_convex_below() and "QP" in problem.is_convex_below().reason
    assert problem.is_strongly_convex_below() and problem.is_smooth_below()
    assert not problem.is_linear_below() and not problem.is_coupled_below()
    assert not problem.is_coupled_above() and not problem.is_mixed_integer()


def test_no_where_it_is_no():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.cos(y) + cp.abs(y)), [y <= x, y >= -5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x + y >= 0, x <= 5], lower)
    assert problem.is_convex_below() == False  # noqa: E712
    assert "cos" in problem.is_convex_below().reason
    assert not problem.is_smooth_below()
    assert problem.is_coupled_below() and problem.is_coupled_above()


def test_a_finding_counts_as_a_truth_value():
    assert Finding(True, "so") == Finding(True, "otherwise") == True  # noqa: E712
    assert {Finding(True, "so"): 1}[True] == 1
    assert (Finding(False, "so") == "False") is False


def test_only_public_names_are_listed():
    shown = {name for name in dir(bm) if not name.startswith("__")}
    assert set(bm.__all__) <= shown
    for name in shown - set(bm.__all__):  # modules of the library, nothing that it imports
        assert getattr(bm, name).__name__.startswith("blomodel.")


def test_one_method_is_described_by_its_name():
    assert bm.methods("BLOCC").name == "blocc"
    assert "blocc" in [info.name for info in bm.methods()]
    with pytest.raises(bm.errors.UnknownMethodError, match="did you mean 'blocc'"):
        bm.methods("blok")
