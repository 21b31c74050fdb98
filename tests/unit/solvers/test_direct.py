"""Programs given as tapes, by IPOPT, against problems with known solutions."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from blomodel.basics.deadline import Deadline
from blomodel.compiler.builder import TapeBuilder
from blomodel.solvers.direct import TapeProgram, is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="IPOPT is not installed")


def rosenbrock(n: int = 2) -> TapeProgram:
    """Sum of 100 (b - a^2)^2 + (1 - a)^2 over neighbours, and the row z_0 + z_1 <= limit."""
    b = TapeBuilder(("z", "limit"), (n, 1))
    z = b.input("z")
    first, second = b.gather(z, np.arange(n - 1)), b.gather(z, np.arange(1, n))
    bend = b.sub(second, b.mul(first, first))
    lag = b.sub(b.constant(1.0), first, n - 1)
    value = b.add(b.scale(100.0, b.sum(b.mul(bend, bend))), b.sum(b.mul(lag, lag)))
    row = b.sub(b.add(b.gather(z, np.array([0])), b.gather(z, np.array([1]))), b.input("limit"))
    tape = b.finish(b.concatenate([value, row]))
    return TapeProgram(tape, (np.full(n, -5.0), np.full(n, 5.0)), np.array([-np.inf]), np.zeros(1))


def test_a_known_minimum_is_found_and_a_row_is_kept():
    program = rosenbrock()
    free = program.search(np.array([-1.2, 1.0]), (np.array([10.0]),))
    assert free.is_converged
    assert free.z == pytest.approx([1.0, 1.0], abs=1e-6)
    bound = program.search(np.array([-1.2, 1.0]), (np.array([1.0]),))
    # On a + b = 1 the minimum is at the root of the cubic that its derivative gives.
    roots = np.roots([400.0, 600.0, -198.0, -202.0])
    a = min(roots.real, key=lambda r: 100 * (1 - r - r * r) ** 2 + (1 - r) ** 2)
    assert bound.z == pytest.approx([a, 1 - a], abs=1e-6)


def test_a_deadline_and_an_interrupt_end_a_search():
    program = rosenbrock(2000)
    start = np.random.default_rng(0).uniform(-2, 2, 2000)
    began = time.perf_counter()
    end = program.search(start, (np.array([10.0]),), deadline=Deadline.after(0.05))
    assert not end.is_converged
    assert time.perf_counter() - began < 1.0

    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(200):
            program.search(start, (np.array([10.0]),), options={"max_iter": 30})


def test_an_exception_within_a_callback_is_raised_at_the_end():
    program = rosenbrock()
    calls = []

    def fail_later(*point):
        calls.append(point)
        if len(calls) == 5:
            raise ZeroDivisionError("an alarm")
        return tape(*point)

    tape = program.functions
    program.functions = fail_later
    with pytest.raises(ZeroDivisionError, match="an alarm"):
        program.search(np.array([-1.2, 1.0]), (np.array([10.0]),))
