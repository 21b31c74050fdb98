"""When work must end: a value that is passed along, and that nobody keeps."""

from __future__ import annotations

import time
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
