"""Where a solve begins: the variables' values, as they are or as the user set them.

The answer of a solve stays in the variables, so that a value may be the user's or the last answer's. A
problem remembers what its solves have left behind; what differs from that was set by someone else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import cvxpy as cp
import numpy as np

from blomodel.basics.arrays import dense

Value = np.ndarray | None


class UserStart:
    """The values that were set from outside, by variable.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x = cp.Variable(name="x")
    >>> start = UserStart()
    >>> x.value = 1.0
    >>> start.look([x])
    >>> x.save_value(5.0)          # what a solve finds
    >>> start.leave([x])
    >>> start.look([x])
    >>> float(start.values([x])[x])
    1.0
    """

    def __init__(self) -> None:
        self._set: dict[int, Value] = {}
        self._left: dict[int, Value] = {}

    def look(self, leaves: Iterable[cp.Variable]) -> None:
        """Take over the values that no solve has left behind."""
        for leaf in leaves:
            present = _value(leaf)
            if leaf.id not in self._left or not _is_same(present, self._left[leaf.id]):
                self._set[leaf.id] = present

    def leave(self, leaves: Iterable[cp.Variable]) -> None:
        """Remember what a solve has left in the variables."""
        self._left = {leaf.id: _value(leaf) for leaf in leaves}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Forget at the end of a block what was seen in it."""
        saved = dict(self._set), dict(self._left)
        try:
            yield
        finally:
            self._set, self._left = saved

    def of(self, copies: Mapping[cp.Variable, cp.Variable]) -> UserStart:
        """The same about copies of the variables."""
        made = UserStart()
        for leaf, other in copies.items():
            for own, theirs in ((self._set, made._set), (self._left, made._left)):
                if leaf.id in own:
                    theirs[other.id] = own[leaf.id]
        return made

    def values(self, leaves: Iterable[cp.Variable]) -> dict[cp.Variable, Value]:
        """What was set from outside; None where nothing was."""
        return {leaf: self._set.get(leaf.id) for leaf in leaves}

    def present(self, leaves: Iterable[cp.Variable]) -> dict[cp.Variable, Value]:
        """What the variables hold now."""
        return {leaf: _value(leaf) for leaf in leaves}


def _value(leaf: cp.Variable) -> Value:
    return None if leaf.value is None else np.array(dense(leaf.value), dtype=float)


def _is_same(one: Value, other: Value) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=True))
