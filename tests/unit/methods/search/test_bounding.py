"""The search for global bounds: which lower points it keeps, and what counts towards its end."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.run.run import Candidate, Run
from blomodel.methods.search import bounding
from blomodel.methods.search.bounding import Bounding, HalfAProof
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.branching.scip import ScipAnswer, ScipProgram

pytest.importorskip("pyscipopt")


def run_of_a_cubic() -> Run:
    """The lower level answers (-1, -1) at every x, which its row with x never excludes."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    below = [y >= -1, y <= 1, x - 0.2 <= y[1] ** 2]
    lower = bm.Lower(cp.Minimize(y[0] ** 3 + 0.1 * y[1]), below, variables=[y])
    f = cp.square(x) + cp.sum_squares(y)
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1], lower)
    return Run(problem.plain_model, np.empty(0), None, 1e-6, 0)


def test_an_answer_that_no_x_excludes_is_kept_as_it_is() -> None:
    run = run_of_a_cubic()
    search = Bounding(run, 1e-4)
    search.go_on(run, max_programs=1000)
    assert search.points
    assert all(np.allclose(point.y, -1, atol=1e-6) for point in search.points)


def test_a_second_proof_does_not_use_up_the_work_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    run, clock = run_of_a_cubic(), [0.0]
    search = Bounding(run, 1e-4)
    plain = ScipProgram.solve

    def slow(self: ScipProgram, *args: object, **options: object) -> object:
        clock[0] += 100.0
        return plain(self, *args, **options)

    monkeypatch.setattr(ScipProgram, "solve", slow)
    monkeypatch.setattr(bounding.time, "process_time", lambda: clock[0])
    run.propose(np.zeros(1), -np.ones(2), "test")
    search._last = 4.0
    search._is_proven_twice(run)
    assert search._last == 104.0


def test_a_second_proof_that_meets_its_limit_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is what both statements have shown until then, and nothing has ended."""
    run = run_of_a_cubic()
    search, plain, asked = Bounding(run, 1e-4), Bounding._begin_second_proof, []

    class Hesitating:
        """Meets its limit twice before it answers."""

        def __init__(self, program: ScipProgram) -> None:
            self.program = program

        def solve(self, *given: object, **options: object) -> ScipAnswer:
            asked.append(options["max_nodes"])
            if len(asked) < 3:
                shown = run.best().value - 1.0 / len(asked)
                return ScipAnswer(InnerStatus.FAILED, np.inf, shown, None, 10 * len(asked))
            return self.program.solve(*given, **options)

    def begin(self: Bounding, run: Run, best: Candidate | None) -> HalfAProof:
        half = plain(self, run, best)
        return replace(half, program=Hesitating(half.program))

    monkeypatch.setattr(Bounding, "_begin_second_proof", begin)
    monkeypatch.setattr(bounding, "_is_plain", lambda run: False)
    for portion in (1, 2):
        assert not search.go_on(run, max_programs=1000)
        best = run.best()
        assert search.is_half_proven(run)
        assert not search.has_ended
        assert run.bound == pytest.approx(best.value - 1.0 / portion)
    assert search.go_on(run, max_programs=1000)
    assert len(asked) == 3
    assert len(set(asked)) == 1  # each portion as large as the first
    assert not search.is_half_proven(run)
    assert run.best().value - 1e-3 <= run.bound <= run.best().value
    assert not search.doubts
