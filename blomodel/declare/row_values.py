"""Values of objectives by cvxpy's own atoms, where data lie in a file: a few rows at a time.

cvxpy evaluates ``A @ y - b`` as a whole, for every row of a file that may be larger than the memory.
What is summed over rows is evaluated here by the same atoms, given the arguments of some rows.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.axis_atom import AxisAtom
from cvxpy.atoms.elementwise.elementwise import Elementwise
from cvxpy.atoms.quad_over_lin import quad_over_lin

from blomodel.basics.arrays import is_on_disk

AT_ONCE = 1 << 18  # numbers of a file

_BY_ENTRIES = (AddExpression, NegExpression, multiply, DivExpression, Elementwise)


class _JoinedError(Exception):
    """Rows of a file depend on one another."""


def value_of(expression: cp.Expression) -> float:
    """The value of a scalar expression at the present values of its variables."""
    return float(np.squeeze(_value(expression)))


def _value(e: Any) -> Any:
    files = _files(e)
    if not files or not e.args:
        return e.value
    if isinstance(e, Sum | quad_over_lin) and e.axis is None and e.args[0].ndim:
        n_rows = e.args[0].shape[0]
        step = max(1, AT_ONCE // sum(file.size // n_rows + 1 for file in files))
        further = [_value(argument) for argument in e.args[1:]]
        total: Any = 0.0
        try:
            for begin in range(0, n_rows, step):
                some = _of_rows(e.args[0], slice(begin, min(begin + step, n_rows)), n_rows)
                total = total + e.numeric([some, *further])
            return total
        except _JoinedError:
            return e.value
    return e.numeric([_value(argument) for argument in e.args])


def _files(e: Any) -> list[np.ndarray]:
    """The data of an expression that lie in a file; each of its parts is looked at once."""
    found, waiting, seen = [], [e], {id(e)}
    while waiting:
        part = waiting.pop()
        if not part.args and isinstance(part, cp.Constant) and is_on_disk(part.value):
            found.append(part.value)
        further = [argument for argument in part.args if id(argument) not in seen]
        seen.update(map(id, further))
        waiting += further
    return found


def _of_rows(e: Any, rows: slice, n_rows: int) -> Any:
    """Some rows of a value; one number that stands for all rows as it is."""
    if isinstance(e, Promote):
        return e.args[0].value
    if e.size == 1:
        return e.value
    if not e.ndim or e.shape[0] != n_rows:
        raise _JoinedError
    if not e.args:
        return e.value[rows]
    if isinstance(e, _BY_ENTRIES) or (isinstance(e, AxisAtom) and e.axis == 1 and e.args[0].ndim == 2):
        return e.numeric([_of_rows(argument, rows, n_rows) for argument in e.args])
    if isinstance(e, MulExpression) and e.args[0].ndim == 2:
        return _of_rows(e.args[0], rows, n_rows) @ e.args[1].value
    if _files(e):
        raise _JoinedError
    return e.value[rows]
