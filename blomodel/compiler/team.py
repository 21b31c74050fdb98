"""Threads that share long instructions of tapes, for as long as a method works.

The thread that runs a loop comes to an instruction worth dividing (``work.py``), gives all parts but
the first to its helpers, does the first itself, and goes on when all are done. They run without Python's
lock. No helper belongs to two loops, and none outlives the work that it was started for, so that little
is left behind in a process that forks, where helpers are started anew.
"""

from __future__ import annotations

import ctypes
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from blomodel.basics import limits
from blomodel.basics.alarm import enter_shelter, leave_shelter, start_thread
from blomodel.compiler.dividing import Division, divide, row_starts
from blomodel.compiler.work import estimated_work
from blomodel.kernels import division
from blomodel.kernels.machine import DIVISIBLE, SPARSE, WIDTH, run_part

_ROW = 8 * WIDTH  # bytes
_own = threading.local()


class Team:
    """A number of threads, the one that made it included."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._known: dict[tuple[bytes, int, int], Division | None] = {}
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._process = -1  # whose helpers are at work

    def do(self, code_at: int, integers_at: int, w_at: int, position: int) -> bool:
        """Do an instruction in parts; False where it is to be done as it is."""
        raw = ctypes.string_at(code_at + _ROW * position, _ROW)
        key = (raw, integers_at, w_at)
        if key not in self._known:
            self._known[key] = self._divided(raw, integers_at, w_at)
        found = self._known[key]
        if found is None:
            return False
        if found.kept is not None and not _has_changed(w_at, *found.kept):
            return True
        self._run(found, integers_at, w_at)
        return True

    def _divided(self, raw: bytes, integers_at: int, w_at: int) -> Division | None:
        row = np.frombuffer(raw, dtype=np.uint64).copy()
        row[0] -= np.uint64(DIVISIBLE)
        n_nonzeros = int(row_starts(row, integers_at)[-1]) if row[0] == SPARSE else 0
        work = estimated_work(row, n_nonzeros)
        most = min(self.count, int(work // limits.UNDIVIDED_WORK.value))
        return divide(row, integers_at, w_at, most) if most > 1 else None

    def _run(self, found: Division, integers_at: int, w_at: int) -> None:
        self._start()
        first, *others = found.parts
        finished: list[int] = []
        is_finished: queue.SimpleQueue[None] = queue.SimpleQueue()
        for part in others:
            self._tasks.put((_address(part), integers_at, w_at, len(part), finished, is_finished))
        run_part(_address(first), integers_at, w_at, len(first))
        while len(finished) < len(others):
            is_finished.get()
        if len(found.last):
            run_part(_address(found.last), integers_at, w_at, len(found.last))

    def _start(self) -> None:
        if self._process == os.getpid():
            return
        self._process = os.getpid()  # after a fork the helpers are gone, and so is their queue
        self._tasks = queue.SimpleQueue()
        run_part(0, 0, 0, 0)  # compiled, or loaded, by one thread
        for _ in range(self.count - 1):
            start_thread(threading.Thread(target=_help, args=(self._tasks,), daemon=True))

    def end(self) -> None:
        """Send the helpers home."""
        if self._process == os.getpid():
            for _ in range(self.count - 1):
                self._tasks.put(None)
        self._known.clear()


def _help(tasks: queue.SimpleQueue[Any]) -> None:
    while True:
        task = tasks.get()
        if task is None:
            return
        at, integers_at, w_at, count, finished, is_finished = task
        run_part(at, integers_at, w_at, count)
        finished.append(at)
        is_finished.put(None)


def _address(table: np.ndarray) -> int:
    at: int = table.__array_interface__["data"][0]
    return at


def _has_changed(w_at: int, new: int, old: int, size: int) -> bool:
    """Whether the second factor of a kept product is another one; it then takes the old one's place."""
    kind = ctypes.c_double * size
    places = ((w_at + 8 * at) & (1 << 64) - 1 for at in (new, old))
    now, before = (np.ctypeslib.as_array(kind.from_address(at)) for at in places)
    if np.array_equal(now, before):
        return False
    before[:] = now
    return True


def _answer(code_at: int, integers_at: int, w_at: int, position: int) -> bool:
    team: Team | None = getattr(_own, "team", None)
    try:
        return team is not None and team.do(code_at, integers_at, w_at, position)
    except BaseException as error:  # what has called cannot raise it
        _own.lost = error
        return False


division.answer_with(_answer)


@contextmanager
def team_of(count: int | None) -> Iterator[None]:
    """Have loops and tapes that are run inside, in this thread, share their long instructions.

    None is one thread: helpers pay where cores are free, which only the user knows.
    """
    number, before = count or 1, getattr(_own, "team", None)
    if number == 1 and before is None:
        yield
        return
    _own.team = team = Team(number) if number > 1 else None
    try:
        yield
    finally:
        _own.team = before
        if team is not None:
            team.end()


def shared(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call compiled code whose long instructions this thread's team may share.

    An alarm or Ctrl-C would be lost in what compiled code calls, so both wait for its end.
    """
    if getattr(_own, "team", None) is None:
        return work(*arguments)
    _own.lost = None
    enter_shelter()
    division.switch(1)
    try:
        result = work(*arguments)
    finally:
        division.switch(-1)
        leave_shelter()
    if _own.lost is not None:
        raise _own.lost
    return result
