"""Values of cvxpy's variables that outlive a computation which needs the variables for itself."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any


class kept_values:
    """Put back the values of variables, or of constraints' dual variables, at the end of a block.

    Parameters
    ----------
    leaves : iterable of cvxpy.Variable
        Anything with ``value`` and ``save_value``.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x = cp.Variable(name="x")
    >>> x.value = 1.0
    >>> with kept_values([x]):
    ...     x.value = 5.0
    >>> float(x.value)
    1.0
    """

    def __init__(self, leaves: Iterable[Any]) -> None:
        self._leaves = list(leaves)
        self._saved: list[tuple[Any, Any]] = []

    def __enter__(self) -> kept_values:
        self._saved = [(leaf, leaf.value) for leaf in self._leaves]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for leaf, value in self._saved:
            # Rounding that breaks an attribute such as nonneg is kept as it is.
            leaf.save_value(value)

    def let_go(self) -> None:
        """Leave the variables with what the block gave them."""
        self._saved = []
