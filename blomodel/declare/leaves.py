"""A problem's variables or parameters: a tuple that can also be called, as cvxpy's problems are."""

from __future__ import annotations

from typing import TypeVar

Leaf = TypeVar("Leaf")


class Leaves(tuple[Leaf, ...]):
    """Variables or parameters; ``problem.variables`` and cvxpy's ``problem.variables()`` are the same.

    Examples
    --------
    >>> leaves = Leaves(["x", "y"])
    >>> leaves[0], leaves()
    ('x', ['x', 'y'])
    """

    __slots__ = ()

    def __call__(self) -> list[Leaf]:
        """A list, as cvxpy gives it."""
        return list(self)
