"""The frame of first-order runs: one rule for divergence, and nothing of the run is overwritten."""

import numpy as np
import pytest

from blomodel.methods import galet
from blomodel.methods.first_order.arrays import filled
from blomodel.methods.first_order.frame import first_order_run, propose_end
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import StopRun
from tests.support.coupled_problems import coupled_problem
from tests.support.smooth_problems import new_run, quadratic

FREE = ("alt-pbgd", "jnt-pbgd", "pbgd", "pbgd-free", "meha", "unrolled", "bda", "galet", "bome")
COUPLED = ("gam", "lv-hba", "bic-gaffa", "blocc")


class Steps:
    """A set-up that has taken three gradients."""

    n_evaluations = 3

    def __init__(self, run):
        self.run = run


@pytest.fixture
def run():
    return new_run(quadratic()[0])


@pytest.mark.parametrize("far", [np.nan, np.inf, -np.inf, 2e15, -2e15])
@pytest.mark.parametrize("block", ["x", "y"])
def test_a_point_far_out_has_diverged(run, far, block):
    point = {"x": np.zeros(5), "y": np.zeros(6)}
    point[block][2] = far
    propose_end(run, point["x"], point["y"], "trial")
    assert run.notes[0].startswith("trial: the iteration has diverged; take smaller steps")
    assert "no answer of the method's own" in run.notes[0]
    # An x that is all right has a lower answer in any case.
    sources = [found.source for found in run.candidates]
    assert sources == ([] if block == "x" else ["trial, lower minimiser at its x"])


def test_the_end_is_the_point_and_the_lower_answer_there(run):
    propose_end(run, np.ones(5), np.zeros(6), "trial")
    assert [found.source for found in run.candidates] == ["trial", "trial, lower minimiser at its x"]
    assert run.candidates[1].gap < 1e-9 < run.candidates[0].gap


def test_a_run_that_is_stopped_keeps_its_point_and_its_gradients(run):
    x, y = np.zeros(5), np.zeros(6)
    run.evaluations = 4
    with pytest.raises(StopRun), first_order_run(Steps(run), "trial", x, y):
        assert run.watched[0] is x
        x += 1.0
        raise StopRun("time limit")
    assert run.evaluations == 4 + 3
    assert np.array_equal(run.candidates[0].x, np.ones(5))


@pytest.mark.parametrize("name", FREE + COUPLED)
@pytest.mark.filterwarnings("ignore:pbgd-free")
def test_a_method_adds_to_what_the_run_has_counted(name, monkeypatch):
    monkeypatch.setattr(galet, "LEAST_SECONDS", np.inf)  # measures that take long are left out
    settings = {"max_steps": 100 if name == "bome" else 4} | (
        {"inner": "max-min"} if name == "blocc" else {}
    )
    counts = []
    for before in (0, 0, 1000):  # the first may load compiled code, and looks at its gap less often
        problem = coupled_problem(1) if name in COUPLED else quadratic()[0]
        fresh = new_run(problem)
        fresh.iterations = fresh.evaluations = before
        create_method(name, settings).run(fresh)
        counts.append((fresh.iterations - before, fresh.evaluations - before))
        assert fresh.history["iteration"][-1] == fresh.iterations
    assert counts[1] == counts[2]
    assert min(counts[0]) > 0


def test_every_place_needs_a_number():
    assert np.array_equal(filled(3, {1: True, 0: 2.5, 2: 3}), [2.5, 1.0, 3.0])
    for wrong in ({0: 1.0}, {0: 1.0, 1: 1.0, 3: 1.0}):
        with pytest.raises(ValueError, match=r"look at \["):
            filled(3, wrong)


def test_the_history_keeps_points_of_any_size_where_asked(monkeypatch):
    """By default x with more than a hundred entries is left out; asked for, until memory is at stake."""
    from blomodel.basics import limits
    from blomodel.problems.meha_paper import strongly_convex

    n = limits.WATCHED_POINT.value + 1
    problem = strongly_convex(n)
    problem.solve("bome", max_iterations=6)
    assert "x" not in problem.solution.history
    problem.solve("bome", max_iterations=6, history_every=1, warm_start=False)
    history = problem.solution.history
    assert history["x"].shape == history["y"].shape == (6, n)
    np.testing.assert_array_equal(history["x"][-1], problem.solution.iterate["x"])
    monkeypatch.setattr(limits, "ASKED_HISTORY", limits.Limit(3 * n, "numbers", "beyond it, none"))
    problem.solve("bome", max_iterations=6, history_every=1, warm_start=False)
    kept = ~np.isnan(problem.solution.history["y"]).any(axis=1)
    assert kept.tolist() == [True] * 3 + [False] * 3
