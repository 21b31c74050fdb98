"""Methods on many problems: order, judgement, profiles by hand, frames, other processes."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import DataError
from blomodel.experiments.benchmark import Benchmark, BenchmarkRow

PROBLEMS = ["liu_hart_1994", "bard_1988_1"]


def own_problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Maximize(-((y - x) ** 2)), [y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Maximize(4 - (x - 2) ** 2 - (y - 2) ** 2), [0 <= x, x <= 3], lower)


def row(problem, method, seconds, is_solved=True):
    return BenchmarkRow(problem, method, is_solved, 1.0, 1.0, seconds, "optimal", 1)


@pytest.fixture(scope="module")
def result():
    return bm.benchmark(["auto", "blocc"], PROBLEMS, time_limit=5)


def test_rows_are_in_the_order_given(result):
    assert [(r.problem, r.method) for r in result.rows] == [
        ("liu_hart_1994", "auto"),
        ("liu_hart_1994", "blocc"),
        ("bard_1988_1", "auto"),
        ("bard_1988_1", "blocc"),
    ]
    assert result.methods == ["auto", "blocc"] and result.problems == PROBLEMS


def test_an_answer_counts_only_if_it_is_as_good_as_the_best_known(result):
    assert result.solved("auto") == 2
    for r in result.rows:
        good = r.value <= r.best + 1e-3 * (1 + abs(r.best))
        assert r.is_solved <= good
    assert result.rows[0].best == -16.0
    strict = bm.benchmark("auto", ["liu_hart_1994"], accuracy=-1.0)  # better than the best: impossible
    assert strict.solved("auto") == 0


def test_it_prints_runs_and_methods(result):
    lines = str(result).splitlines()
    assert lines[0].split() == ["problem", "method", "solved", "value", "best", "time", "status"]
    assert lines[2].split()[:4] == ["liu_hart_1994", "auto", "yes", "-16"]
    assert any(line.startswith("auto") and "2 of 2" in line for line in lines[7:])
    assert "<td" in result._repr_html_()


def test_profiles_by_hand():
    result = Benchmark(
        (
            row("p", "a", 1.0), row("p", "b", 2.0),
            row("q", "a", 9.0), row("q", "b", 3.0),
            row("r", "a", 1.0, is_solved=False), row("r", "b", 5.0),
            row("s", "a", 1.0, is_solved=False), row("s", "b", 1.0, is_solved=False),
        )
    )  # fmt: skip
    np.testing.assert_allclose(result.profile("a"), [[1, 3], [0.25, 0.5]])
    np.testing.assert_allclose(result.profile("b"), [[1, 1, 2], [0.25, 0.5, 0.75]])
    panel = result.plot().axes[0]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["a (2 of 4)", "b (3 of 4)"]
    assert panel.lines[0].get_ydata()[-1] == 0.5 and panel.lines[1].get_ydata()[-1] == 0.75
    seconds = result.plot(against="time").axes[0]
    assert list(seconds.lines[1].get_xdata()[1:4]) == [2.0, 3.0, 5.0]
    with pytest.raises(DataError, match="'ratio' or 'time'"):
        result.plot(against="space")


def test_problems_of_ones_own_are_judged_by_the_best_answer():
    result = bm.benchmark(["auto", "gam"], {"mine": own_problem, "same": own_problem()}, time_limit=5)
    assert result.problems == ["mine", "same"]
    assert result.rows[0].best == pytest.approx(3.0, abs=1e-5)  # a maximum: the sign is kept
    assert result.solved("auto") == 2
    assert bm.benchmark("auto", [own_problem]).problems == ["own_problem"]


def test_an_error_is_a_row():
    result = bm.benchmark(["auto", "meha"], ["bard_1988_1"], time_limit=5)
    assert result.rows[1].status == "error" and "meha" not in result.rows[1].cells()[2]
    assert "ModelError" in result.rows[1].error and not result.rows[1].is_solved


def test_one_method_with_two_settings_has_two_names():
    result = bm.benchmark(
        [("blocc", {"gamma": 5.0}), ("blocc", {"gamma": 50.0})],
        ["bard_1988_1"],
        time_limit=2,
        max_steps=50,
    )
    assert result.methods == ["blocc(gamma=5.0)", "blocc(gamma=50.0)"]


def test_what_cannot_be_run_is_said():
    with pytest.raises(DataError, match="given twice"):
        bm.benchmark("auto", ["bard_1988_1", "Bard1988Ex1"])
    with pytest.raises(DataError, match="given twice"):
        bm.benchmark(["auto", "auto"], ["bard_1988_1"])
    with pytest.raises(DataError, match="nothing to run"):
        bm.benchmark("auto", [])
    with pytest.raises(DataError, match="int is no problem"):
        bm.benchmark("auto", [3])


def test_the_runs_as_a_frame(result):
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert list(frame["problem"]) == [r.problem for r in result.rows]
    assert frame["is_solved"].sum() == sum(r.is_solved for r in result.rows)


@pytest.mark.slow
def test_other_processes_give_the_same_rows(result):
    pytest.importorskip("joblib")
    other = bm.benchmark(["auto", "blocc"], PROBLEMS, time_limit=5, n_jobs=2)
    for ours, theirs in zip(result.rows, other.rows, strict=True):
        assert (ours.problem, ours.method, ours.status) == (theirs.problem, theirs.method, theirs.status)
        assert ours.value == pytest.approx(theirs.value, rel=1e-6, nan_ok=True)
