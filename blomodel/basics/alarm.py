"""An end to work that does not look at the clock by itself."""

from __future__ import annotations

import _thread
import ctypes
import signal as signals
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

from blomodel.basics.deadline import Deadline, end_of_work

Result = TypeVar("Result")

BETWEEN_RINGS = 1.0  # seconds, until an alarm that was lost is raised again
LONGEST_START = 1.0  # seconds that an exception waits for threads that are being started
BETWEEN_LOOKS = 0.01  # seconds, at a thread that must not be disturbed at the moment

_COMPILERS = ("numba.", "llvmlite.", "blomodel.kernels.")  # modules of whoever compiles
_keepers: list[Callable[[], None]] = []  # each has what came in a bad moment raised by now
_sheltered: Counter[int] = Counter()  # by thread, how many shelters it is in
_compiling: dict[int, list[float]] = {}  # by thread, when the compilations at work have begun
_compiled: defaultdict[int, float] = defaultdict(float)  # by thread, seconds that they took
_starting = threading.RLock()  # held while a thread of ours starts another, or is sent an exception
_awaited: Counter[int] = Counter()  # by thread, how many alarms wait until it has left them


class Disturbance:
    """Marks exceptions that come from outside in the middle of some work, which did nothing wrong."""


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
        while not is_in_time:
            raise_outside(worker, signal, is_done)
            # Where it comes up in a destructor Python prints it, and the work goes on.
            is_in_time = is_done.wait(BETWEEN_RINGS)

    watcher = threading.Thread(target=wait, daemon=True)
    start_thread(watcher)
    try:
        is_at_work.set()
        yield
    finally:
        is_done.set()
        is_at_work.set()  # another alarm may have come up before that was said
        watcher.join()
        for raise_kept in _keepers:
            raise_kept()
        for _ in range(2):  # one that was sent at the last moment is raised here and not later
            pass


class OutOfTime(Disturbance, BaseException):
    """Raised in work that has used up its time; only who gave it that time catches it."""


def in_time(work: Callable[[], Result], deadline: Deadline, grace: float = 0.0) -> Result | None:
    """What the work brings; None where it does not end in time, and is left in the middle.

    The end of the work that it is a part of counts too, without grace, so that parts do not add theirs.
    """
    latest = min(Deadline(deadline.at + grace), end_of_work())
    if latest.is_over:
        return None
    try:
        with alarm(latest, OutOfTime):
            return work()
    except OutOfTime:
        return None


def enter_shelter() -> None:
    """Let no alarm ring in this thread until it leaves: for work that must not stop half-way.

    Ctrl-C waits too. Where compiled code has called back for the work, it would be lost, and a
    compiler that is stopped half-way leaves code behind on which a later call crashes.
    """
    worker = threading.get_ident()
    if not _sheltered[worker] and threading.current_thread() is threading.main_thread():
        _ctrl_c.hold()
    _sheltered[worker] += 1


def ask_before_leaving(raise_kept: Callable[[], None]) -> None:
    """Tell of someone who keeps exceptions that come in a bad moment, to be raised before work ends."""
    _keepers.append(raise_kept)


def is_sheltered(thread: int) -> bool:
    """Whether a thread must not be disturbed at the moment."""
    return bool(_sheltered[thread])


def leave_shelter() -> None:
    """The other end of ``enter_shelter``."""
    worker = threading.get_ident()
    _sheltered[worker] -= 1
    if not _sheltered[worker] and threading.current_thread() is threading.main_thread():
        _ctrl_c.release()
    if _awaited[worker] and not _sheltered[worker]:
        time.sleep(2 * BETWEEN_LOOKS)  # it may enter the next one at once: the alarm rings here


def is_awaited() -> bool:
    """Whether an alarm or Ctrl-C waits until this thread leaves its shelter: time to come to an end."""
    is_main = threading.current_thread() is threading.main_thread()
    return bool(_awaited[threading.get_ident()]) or (is_main and _ctrl_c.has_come)


def begin_compiling() -> None:
    """Enter a shelter for a compilation, whose time is counted."""
    enter_shelter()
    _compiling.setdefault(threading.get_ident(), []).append(time.perf_counter())


def end_compiling() -> None:
    """The other end of ``begin_compiling``."""
    worker = threading.get_ident()
    began = _compiling[worker].pop()
    if not _compiling[worker]:  # compilations lie within each other
        _compiled[worker] += time.perf_counter() - began
    leave_shelter()


def seconds_of_compiling() -> float:
    """What this thread has spent so far on compiled code, making or loading it."""
    return _compiled[threading.get_ident()]


def ctrl_c_came() -> None:
    """Do what Ctrl-C does here, for a library that has kept one to itself; often KeyboardInterrupt."""
    handler = signals.getsignal(signals.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        raise KeyboardInterrupt
    handler(signals.SIGINT, None)


class Receiver(Protocol):
    """Whoever is told at once that a Ctrl-C was held back, before it is passed on."""

    def take_held(self) -> None:
        """A Ctrl-C has come."""


class _CtrlC:
    """Ctrl-C, held back while the main thread is in a shelter."""

    def __init__(self) -> None:
        self.handler: Callable[[int, FrameType | None], object] | None = None
        self.has_come = False
        self.receiver: Receiver | None = None
        self.passing = threading.Lock()

    def hold(self) -> None:
        handler = signals.getsignal(signals.SIGINT)
        if callable(handler):
            self.handler = handler
            signals.signal(signals.SIGINT, self._note)

    def release(self) -> None:
        if self.handler is not None:
            signals.signal(signals.SIGINT, self.handler)
            self.handler = None
        if self.has_come:
            self.has_come = False
            if self.receiver is not None:
                self.receiver.take_held()
            start_thread(threading.Thread(target=_interrupt_outside, args=(self.receiver,), daemon=True))

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_impatient, self.has_come = self.has_come, True
        if is_impatient and self.handler is not None:
            self.handler(number, frame)


_ctrl_c = _CtrlC()


def pass_ctrl_c_to(receiver: Receiver | None) -> None:
    """Tell who is to be told of a Ctrl-C that a shelter held back; nobody any more: None."""
    with _ctrl_c.passing:
        _ctrl_c.receiver = receiver


def _interrupt_outside(receiver: Receiver | None) -> None:
    """Pass Ctrl-C on to the main thread as soon as it has left the compiler and what called it."""
    main = threading.main_thread().ident or 0
    # While this thread looks, the main thread stands still: what is compiled does not let go of Python.
    while _is_in_compiler(sys._current_frames().get(main)):
        time.sleep(BETWEEN_LOOKS)
    with _ctrl_c.passing:
        if receiver is not _ctrl_c.receiver:
            return  # who has been told of it, and has ended since
        if hasattr(signals, "pthread_kill"):
            signals.pthread_kill(main, signals.SIGINT)  # ends a wait of the system too
        else:
            _thread.interrupt_main()


def _is_in_compiler(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_COMPILERS):
            return True
        frame = frame.f_back
    return False


def raise_outside(thread: int, signal: type[BaseException], is_done: threading.Event) -> None:
    """Have an exception raised in a thread as soon as it is in no shelter, unless its work is done."""
    _awaited[thread] += 1
    try:
        while _sheltered[thread]:
            if is_done.wait(BETWEEN_LOOKS):
                return
        raise_in(thread, signal)
    finally:
        _awaited[thread] -= 1


def start_thread(thread: threading.Thread) -> None:
    """Start a thread while no exception is sent to this one.

    A thread that is being started has the number of the one that starts it until it runs. It would get
    the exception, end before it has begun, and be waited for without end.
    """
    with _starting:
        thread.start()


def raise_in(thread: int, signal: type[BaseException]) -> None:
    """Have an exception raised in a thread at its next step."""
    is_alone = _starting.acquire(timeout=LONGEST_START)
    try:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(signal))
    finally:
        if is_alone:
            _starting.release()
