"""Threads that share long instructions: the same numbers, whoever else is at work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.basics.alarm import alarm
from blomodel.basics.deadline import Deadline
from blomodel.compiler import team as subject
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.tape import Tape
from blomodel.compiler.team import Team, team_of

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((60_000, 10))
S = sp.random_array((4000, 3000), density=0.05, rng=RANDOM, format="csr")
B = RANDOM.standard_normal((4000, 100))


def logistic() -> tuple[Tape, int]:
    y = cp.Variable(10)
    return gradient(lower([cp.sum(cp.logistic(A @ y))], [Block("y", (y,))]), "y"), 10


def sparse() -> tuple[Tape, int]:
    y = cp.Variable(3000)
    return gradient(lower([cp.sum_squares(S @ y - 1)], [Block("y", (y,))]), "y"), 3000


def softmax() -> tuple[Tape, int]:
    Y = cp.Variable((100, 5))
    tape = lower([cp.sum(cp.log_sum_exp(B @ Y, axis=1))], [Block("y", (Y,))])
    return gradient(tape, "y"), 500


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What was answered to the machine's questions."""
    answers: list[bool] = []
    do = Team.do

    def watched(team: Team, *arguments: int) -> bool:
        answers.append(do(team, *arguments))
        return answers[-1]

    monkeypatch.setattr(Team, "do", watched)
    return answers


@pytest.mark.parametrize("make", [logistic, sparse, softmax])
def test_one_number_of_threads_gives_one_result(make, calls) -> None:
    tape, size = make()
    at = RANDOM.standard_normal(size)
    alone = tape(at)
    assert not calls
    for count in (1, 2, 3):
        with team_of(count):
            first, second = tape(at), tape(at)
            third = tape(2 * at)
        assert np.array_equal(first, second)
        np.testing.assert_allclose(first, alone, rtol=1e-10, atol=1e-10 * np.abs(alone).max())
        assert not np.array_equal(third, second)
        if count == 1:
            assert np.array_equal(first, alone) and not calls
    assert calls and all(calls)


def test_helpers_go_home() -> None:
    tape, size = logistic()
    before = set(threading.enumerate())  # helpers of other tests may be on their way home
    with team_of(3):
        tape(np.zeros(size))
        helpers = set(threading.enumerate()) - before
        assert len(helpers) == 2
    for helper in helpers:
        helper.join(2)
        assert not helper.is_alive()


def test_several_threads_with_teams_of_their_own_and_without() -> None:
    wanted, found = {}, {}

    def work(number: int, count: int) -> None:
        tape, size = (logistic, sparse)[number % 2]()
        with team_of(count):
            found[number] = [tape(np.linspace(-1, 1, size) * k) for k in range(4)]

    for number, count in enumerate((2, 2, 3, 1, 1)):
        work(number, count)
        wanted[number] = found.pop(number)
    threads = [
        threading.Thread(target=work, args=(number, count))
        for number, count in enumerate((2, 2, 3, 1, 1))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, results in wanted.items():
        assert all(map(np.array_equal, results, found[number]))


def _child(tape: Tape, at: np.ndarray, results: multiprocessing.SimpleQueue) -> None:
    results.put(tape(at))  # in the team that was there before the fork
    with team_of(2):
        results.put(tape(at))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_is_forked_after_use() -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    tape, size = logistic()
    at = np.linspace(-1, 1, size)
    with team_of(2):
        wanted = tape(at)
        child = context.Process(target=_child, args=(tape, at, results))
        child.start()
        found = [results.get(), results.get()]
        child.join(60)
        assert child.exitcode == 0
        assert all(np.array_equal(result, wanted) for result in found)
        assert np.array_equal(tape(at), wanted)


def test_ctrl_c_comes_between_the_calls() -> None:
    tape, size = logistic()
    at = np.linspace(-1, 1, size)
    with team_of(2):
        wanted = tape(at)
        for delay in (0.0, 0.001, 0.003):
            timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                deadline = time.monotonic() + 30
                while time.monotonic() < deadline:
                    tape(at)
            timer.join()
            assert np.array_equal(tape(at), wanted)


class Late(Exception):
    """Rings."""


def test_an_alarm_rings_although_calls_are_shared() -> None:
    tape, size = logistic()
    with team_of(2), pytest.raises(Late), alarm(Deadline.after(0.05), Late):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            tape(np.zeros(size))


def test_trouble_in_the_division_is_raised_when_the_call_has_ended(monkeypatch) -> None:
    tape, size = logistic()

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(subject, "divide", fail)
    with team_of(2), pytest.raises(MemoryError):
        tape(np.zeros(size))
    assert np.isfinite(tape(np.zeros(size))).all()


def test_without_a_number_there_is_one_thread(calls) -> None:
    tape, size = logistic()
    with team_of(None):
        tape(np.zeros(size))
    assert not calls
