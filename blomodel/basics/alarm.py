"""An end to work that does not look at the clock by itself."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from blomodel.basics.deadline import Deadline


@contextmanager
def alarm(deadline: Deadline, signal: type[BaseException], grace: float = 0.0) -> Iterator[None]:
    """Raise ``signal`` in this thread when the work inside goes on beyond a deadline.

    Loops look at the clock themselves and end at a good place. This is for what they cannot see, such
    as a derivative with a million entries. Like Ctrl-C it comes between two steps of Python, so that
    one call of a compiled library ends first.

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
    worker, is_done = threading.get_ident(), threading.Event()

    def wait() -> None:
        if not is_done.wait(max(deadline.remaining + grace, 0.0)):
            _raise_in(worker, signal)

    watcher = threading.Thread(target=wait, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()
        for _ in range(2):  # one that was sent at the last moment is raised here and not later
            pass


def _raise_in(thread: int, signal: type[BaseException]) -> None:
    """Have an exception raised in a thread at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(signal))
