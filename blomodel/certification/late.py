"""Parts of the certificate that the limit may leave out: what it says without them is less, and true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from blomodel.basics.alarm import Disturbance, alarm
from blomodel.basics.deadline import Deadline, end_of_work, ending

T = TypeVar("T")
Instead = TypeVar("Instead")
GRACE = 0.1  # seconds after a limit in which a part may end by itself


class _TooLate(Disturbance, Exception):
    """Raised in a part that goes on beyond the limit."""


def unless_late(
    work: Callable[[], T], instead: Instead, deadline: Deadline, grace: float = GRACE
) -> T | Instead:
    """What a part of the certificate finds; ``instead`` where it does not end by the deadline.

    Solvers inside are told to end then, and what does not look at the clock is stopped.

    Examples
    --------
    >>> unless_late(lambda: 1, 2, Deadline.after(60))
    1
    >>> unless_late(lambda: sum(range(10**9)), 2, Deadline.after(-1)) == 2  # it is not begun
    True
    """
    # Parts within parts do not add their grace: the end of the whole counts for all of them.
    latest = min(Deadline(deadline.at + grace), end_of_work())
    if latest.is_over:
        return instead
    try:
        with ending(latest), alarm(latest, _TooLate):
            return work()
    except _TooLate:
        return instead
