"""Parts of the certificate that a limit leaves out, and solver calls that end with it."""

import time

import cvxpy as cp
import numpy as np
import pytest

from blomodel.basics.deadline import NEVER, Deadline, end_of_work, ending
from blomodel.certification.late import unless_late
from blomodel.programs.by_cvxpy import solve_by_cvxpy


def test_a_part_in_time_is_used_and_one_that_is_late_is_not_begun():
    begun = []
    assert unless_late(lambda: "found", "nothing", Deadline.after(60)) == "found"
    assert unless_late(lambda: "found", "nothing", NEVER) == "found"
    assert unless_late(lambda: begun.append(1), "nothing", Deadline.after(-1)) == "nothing"
    assert not begun


def test_a_part_that_does_not_look_at_the_clock_is_stopped():
    def endless():
        while True:
            np.linalg.norm(np.ones(10))

    began = time.process_time()
    assert unless_late(endless, "nothing", Deadline.after(0.05), grace=0.05) == "nothing"
    assert time.process_time() - began < 2


def test_solvers_inside_know_the_end():
    assert unless_late(lambda: end_of_work().is_never, None, Deadline.after(60)) is False
    assert end_of_work().is_never


@pytest.mark.parametrize("solver", [cp.CLARABEL, cp.HIGHS])
def test_a_program_by_cvxpy_ends_with_the_work(solver):
    r = np.random.default_rng(0)
    y = cp.Variable(300)
    problem = cp.Problem(
        cp.Minimize(r.standard_normal(300) @ y), [r.uniform(size=(300, 300)) @ y <= 1, y >= -1, y <= 5]
    )
    with ending(Deadline.after(-1)), pytest.raises(cp.SolverError, match="no time"):
        solve_by_cvxpy(problem, solver)
    solve_by_cvxpy(problem, solver)
    assert problem.status == cp.OPTIMAL
