"""When work must end: a value that is passed along, and that nobody keeps.

Loops and searches are given their deadline. Calls of a solver lie so deep that not all of them are: they
also look at the end of the work that they are a part of, a value of its context.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """A moment after which no more work is begun.

    Attributes
    ----------
    at : float
        Value of ``time.perf_counter()``; infinite when there is no limit. Another process counts from
        another moment, so that what is sent there is ``remaining``.

    Examples
    --------
    >>> Deadline.after(None).remaining, Deadline.after(-1.0).is_over
    (inf, True)
    >>> 59 < Deadline.after(3600).earlier(60).remaining <= 60
    True
    """

    at: float = np.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """So many seconds from now; never for None."""
        return NEVER if seconds is None else cls(time.perf_counter() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left; negative once it is over."""
        return self.at - time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Whether the moment has passed."""
        return time.perf_counter() >= self.at

    @property
    def is_never(self) -> bool:
        """Whether there is no limit at all."""
        return self.at == np.inf

    def earlier(self, seconds: float) -> Deadline:
        """The same, but at most this many seconds from now."""
        return min(self, Deadline.after(seconds))

    def keeping(self, seconds: float) -> Deadline:
        """The same, but this many seconds before it, which are kept for what comes afterwards."""
        return Deadline(self.at - seconds)


NEVER = Deadline()

_END: ContextVar[Deadline] = ContextVar("blomodel_end_of_work", default=NEVER)


@contextmanager
def ending(deadline: Deadline) -> Iterator[None]:
    """No call of a solver inside goes on beyond a deadline, whatever it is told itself.

    Examples
    --------
    >>> with ending(Deadline.after(5)):
    ...     4 < end_of_work().remaining <= 5
    True
    >>> end_of_work().is_never
    True
    """
    token = _END.set(deadline)
    try:
        yield
    finally:
        _END.reset(token)


def end_of_work() -> Deadline:
    """When the work that is going on must end: see ``ending``."""
    return _END.get()
