"""One line for a long expression, as messages name it."""

from __future__ import annotations

from collections.abc import Iterable

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.text.mathematics import Writer
from blomodel.text.notation import TEXT

BUDGET = 80  # parts of an expression looked at: more would not fit on the line


def shorten(part: object, width: int = 90) -> str:
    """An expression, a constraint or an objective as typed, cut in the middle when long.

    The cost does not grow with the expression: most of a long sum and of a large array is not looked at.
    """
    full = _written(part)
    if len(full) <= width:
        return full
    half = (width - 5) // 2
    return f"{full[:half]} ... {full[-half:]}"


def some_of(items: Iterable[str], most: int = 6, separator: str = ", ") -> str:
    """A list of names in a sentence; of a long one the first few, and how many more there are."""
    names = list(items)
    if len(names) <= most + 1:
        return separator.join(names)
    return f"{separator.join(names[:most])} and {len(names) - most} more"


def counted(number: int, unit: str) -> str:
    """A number and its unit: "1 node", "2,000 nodes"."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def _written(part: object) -> str:
    if isinstance(part, cp.Minimize | cp.Maximize):
        sense = "minimise" if isinstance(part, cp.Minimize) else "maximise"
        return f"{sense} {_written(part.args[0])}"
    if isinstance(part, cp.Expression | Constraint):
        return Writer(TEXT, names_data=False, budget=BUDGET).write(part)
    return str(part)
