"""An end to work that does not look at the clock by itself."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from blomodel.basics.deadline import Deadline

BETWEEN_LOOKS = 0.01  # seconds, at a thread that must not be disturbed at the moment

_sheltered: Counter[int] = Counter()  # by thread, how many shelters it is in


@contextmanager
def alarm(deadline: Deadline, signal: type[BaseException], grace: float = 0.0) -> Iterator[None]:
    """Raise ``signal`` in this thread when the work inside goes on beyond a deadline.

    Loops look at the clock themselves and end at a good place. This is for what they cannot see, such
    as a derivative with a million entries. Like Ctrl-C it comes between two steps of Python, so that
    one call of a compiled library ends first; so does what goes on in a shelter.

    Parameters
    ----------
    deadline : Deadline
    signal : exception class
        Raised without arguments.
    grace : float
        Seconds after the deadline in which the work may end by itself.
    """
    if deadline.is_never:
        yield
        return
    worker, is_at_work, is_done = threading.get_ident(), threading.Event(), threading.Event()

    def wait() -> None:
        is_at_work.wait()  # an alarm inside of start() would leave threads in disorder
        is_in_time = is_done.wait(max(deadline.remaining + grace, 0.0))
        while not is_in_time and _sheltered[worker]:
            is_in_time = is_done.wait(BETWEEN_LOOKS)
        if not is_in_time:
            _raise_in(worker, signal)

    watcher = threading.Thread(target=wait, daemon=True)
    watcher.start()
    try:
        is_at_work.set()
        yield
    finally:
        is_done.set()
        watcher.join()
        for _ in range(2):  # one that was sent at the last moment is raised here and not later
            pass


def enter_shelter() -> None:
    """Let no alarm ring in this thread until it leaves: for work that must not stop half-way."""
    _sheltered[threading.get_ident()] += 1


def leave_shelter() -> None:
    """The other end of ``enter_shelter``."""
    _sheltered[threading.get_ident()] -= 1


def _raise_in(thread: int, signal: type[BaseException]) -> None:
    """Have an exception raised in a thread at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(signal))
