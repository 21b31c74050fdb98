"""SCIP as an engine: values, bounds, portions, disjunctions, limits and Ctrl-C."""

import math
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from blomodel.basics.deadline import Deadline
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.branching import scip
from blomodel.solvers.branching.scip import ScipProgram, safe_bound

pytest.importorskip("pyscipopt")


def box(low, high, n=1, is_integer=None):
    program = ScipProgram()
    return program, program.variables(np.full(n, low), np.full(n, high), is_integer)


def hard_program(n=14):
    """Many local minima, no quick end."""
    from pyscipopt import cos, sin

    program, z = box(-10.0, 10.0, n)
    total = sum(sin(3 * z[k] * z[(k + 1) % n]) + cos(z[k] + z[(k + 5) % n]) for k in range(n))
    program.minimise(total)
    return program


def test_the_minimum_of_a_cubic_and_its_bound():
    program, (z,) = box(-1.0, 2.0)
    program.minimise(z**3 - 2 * z)
    answer = program.solve(1)
    assert answer.status is InnerStatus.OPTIMAL
    least = -2 * math.sqrt(2 / 3) * 2 / 3
    assert answer.value == pytest.approx(least, abs=1e-5)
    assert answer.point[0] == pytest.approx(math.sqrt(2 / 3), abs=1e-2)
    assert least - 1e-4 < answer.bound <= least


def test_whole_numbers():
    program, (a, b) = box(-5.5, 5.5, 2, np.array([True, False]))
    program.at_most_zero([2.7 - a - b, b - 0.5])
    program.minimise(a + 3 * b)
    answer = program.solve(2)
    assert answer.point == pytest.approx([5.0, -2.3], abs=1e-6)


def test_one_of_several_rows_holds():
    program, (z,) = box(-4.0, 4.0)
    program.one_holds([z + 2.0, 1.0 - z])  # z <= -2 or z >= 1
    program.minimise(z * z)
    assert program.solve(1).point == pytest.approx([1.0], abs=1e-5)


def test_of_a_pair_one_is_zero():
    program, (a, b) = box(0.0, 3.0, 2)
    program.one_is_zero(a, b)
    program.minimise(-2.0 * a - 1.9 * b)
    assert program.solve(2).point == pytest.approx([3.0, 0.0], abs=1e-6)


def test_nothing_satisfies_the_rows():
    program, (z,) = box(0.0, 1.0)
    program.at_most_zero([2.0 - z])
    program.minimise(z)
    answer = program.solve(1)
    assert answer.status is InnerStatus.INFEASIBLE
    assert answer.bound == math.inf


def test_a_row_of_numbers_may_contradict():
    program, (z,) = box(0.0, 1.0)
    program.at_most_zero([0.5])
    program.minimise(z)
    assert program.solve(1).status is InnerStatus.INFEASIBLE


def test_nothing_below_a_cutoff_is_a_bound():
    program, (z,) = box(-1.0, 1.0)
    program.minimise(z * z)
    answer = program.solve(1, cutoff=-0.5)
    assert answer.status is InnerStatus.INFEASIBLE
    assert answer.bound == pytest.approx(-0.5, abs=1e-5)
    assert answer.bound <= -0.5


def test_an_objective_without_end():
    program, (z,) = box(-np.inf, 1.0)
    program.minimise(1.0 * z)
    answer = program.solve(1)
    assert answer.bound == -math.inf


def test_portions_go_on_where_the_last_one_ended():
    program = hard_program()
    first = program.solve(2, max_nodes=20)
    second = program.solve(2, max_nodes=20)
    assert 20 <= first.nodes < second.nodes <= 45
    assert second.bound >= first.bound - 1e-9
    assert second.value <= first.value + 1e-9


def test_portions_of_linear_programs():
    program = hard_program()
    first = program.solve(2, max_programs=15)
    assert first.programs <= 20
    assert program.solve(2, max_programs=15).programs > first.programs


def test_a_start_is_used():
    program = hard_program(6)
    reference = hard_program(6).solve(6, max_nodes=100)
    program.start_from(reference.point)
    started = program.solve(6, max_nodes=1)
    assert started.value <= reference.value + 1e-5


def test_the_deadline_is_kept():
    began = time.perf_counter()
    hard_program().solve(2, deadline=Deadline.after(0.3))
    assert time.perf_counter() - began < 5.0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_ctrl_c_comes_through_and_the_next_search_works():
    threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        hard_program().solve(2, deadline=Deadline.after(30))
    program, (z,) = box(0.0, 1.0)
    program.minimise(1.0 * z)
    assert program.solve(1).value == pytest.approx(0.0, abs=1e-6)


def test_bounds_are_lowered():
    assert safe_bound(10.0) < 10.0
    assert safe_bound(-1e20) == -math.inf
    assert safe_bound(1e20) == math.inf


def test_whether_it_is_installed(monkeypatch):
    assert scip.is_installed()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not scip.is_installed()


def test_an_error_within_scip_is_a_status():
    program = ScipProgram()
    (y,) = program.variables(np.array([0.0]), np.array([1.0]))
    program.minimise(y)

    class Broken:
        def __init__(self, scip):
            self.scip = scip

        def __getattr__(self, name):
            return getattr(self.scip, name)

        def optimizeNogil(self):
            raise Exception("SCIP: error in LP solver!")

    program._scip = Broken(program._scip)
    for _ in range(2):
        answer = program.solve(1)
        assert answer.status is InnerStatus.FAILED and answer.bound == -np.inf and answer.point is None
