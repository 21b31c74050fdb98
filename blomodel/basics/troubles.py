"""Who answered how often during one solve, and who was in trouble.

A value of the context in which a solve runs, so that nothing of it stays on what is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar

from blomodel.basics.alarm import Disturbance
from blomodel.errors import BlomodelError, SolverError

TROUBLE = " in trouble"  # what follows a name where failures are counted

_COUNTS: ContextVar[MutableMapping[str, int] | None] = ContextVar("blomodel_counts", default=None)


@contextmanager
def counting(counts: MutableMapping[str, int]) -> Iterator[None]:
    """Count in ``counts`` what happens inside."""
    token = _COUNTS.set(counts)
    try:
        yield
    finally:
        _COUNTS.reset(token)


def count(name: str) -> None:
    """Note that a solver has answered."""
    counts = _COUNTS.get()
    if counts is not None:
        counts[name] = counts.get(name, 0) + 1


def count_trouble(name: str) -> None:
    """Note that a solver has failed, or that its point did not hold, so that another one is asked."""
    count(name + TROUBLE)


def is_from_outside(error: BaseException) -> bool:
    """Whether an exception is no fault of the solver in which it came up."""
    if isinstance(error, SolverError):
        return False
    outside = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, Disturbance, BlomodelError)
    return isinstance(error, outside)


def answers_and_troubles(counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Both kinds of numbers, each by the solver's name."""
    good = {name: number for name, number in counts.items() if not name.endswith(TROUBLE)}
    bad = {name[: -len(TROUBLE)]: number for name, number in counts.items() if name.endswith(TROUBLE)}
    return good, bad
