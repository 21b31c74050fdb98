"""Ctrl-C during a solve: the first press ends the work at a good moment, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from blomodel.basics.alarm import Disturbance, pass_ctrl_c_to, raise_outside, start_thread


class CutShort(Disturbance, BaseException):
    """Raised in what goes on for too long after Ctrl-C; no part of the work may catch it."""


class Interrupts:
    """Ctrl-C from the beginning to the end of a solve.

    Within ``open()`` the first press raises KeyboardInterrupt, as it always does in Python. Elsewhere it
    is remembered, so that nothing is left half-done, and within ``patience()`` it ends what takes too
    long. The second press raises KeyboardInterrupt anywhere: whoever presses twice does not want to
    wait. Handlers that the user has set himself are left alone, and so is Ctrl-C in other threads
    than the main one, which never see it.

    Attributes
    ----------
    has_come : bool
        Whether Ctrl-C was pressed.
    told : callable, optional
        Called at the first press.
    """

    def __init__(self) -> None:
        self.has_come = False
        self.told: Callable[[], None] | None = None
        self._is_open = self._is_installed = self._is_passed_on = False
        self._begin_to_wait: Callable[[], None] | None = None

    def __enter__(self) -> Interrupts:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            pass_ctrl_c_to(self)
            self._is_installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_installed:
            pass_ctrl_c_to(None)  # waits for one that is on its way, which comes to _note
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def take_held(self) -> None:
        """Ctrl-C has come while a shelter held it back: remember it, and expect it here soon."""
        self._remember()
        self._is_passed_on = True

    @contextmanager
    def open(self) -> Iterator[None]:
        """A part of the work that KeyboardInterrupt may leave at any point; one that waits comes now."""
        try:
            self._is_open = True
            if self.has_come:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_open = False

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """A part of the work that may take so many seconds after Ctrl-C; then CutShort is raised."""
        worker, has_ended = threading.get_ident(), threading.Event()
        waiting: list[threading.Thread] = []

        def wait() -> None:
            if not has_ended.wait(seconds):
                raise_outside(worker, CutShort, has_ended)

        def begin_to_wait() -> None:
            if not waiting:
                waiting.append(threading.Thread(target=wait, daemon=True))
                start_thread(waiting[0])

        if self.has_come:
            begin_to_wait()
        self._begin_to_wait = begin_to_wait
        try:
            yield
        finally:
            self._begin_to_wait = None
            has_ended.set()
            for thread in waiting:
                thread.join()
            for _ in range(2):  # one that was sent at the last moment is raised here and not later
                pass

    def _remember(self) -> None:
        if not self.has_come:
            self.has_come = True
            if self.told is not None:
                self.told()
            if self._begin_to_wait is not None:
                self._begin_to_wait()

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_second = self.has_come and not self._is_passed_on
        self._is_passed_on = False
        self._remember()
        if is_second or self._is_open:
            raise KeyboardInterrupt
