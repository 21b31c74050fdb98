"""cvxpy expressions as formulas: LaTeX for notebooks and papers, plain text for terminals.

One walk over an expression serves both; a ``Notation`` says how a fraction, a power or a norm
looks. Small arrays are written out, large ones get a name, listed in ``Writer.legend``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints import PSD, Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint

from blomodel.text.notation import LATEX, TEXT, Notation

# How tightly the outermost operation of a text binds.
SUM, PRODUCT, POWER, ATOM = range(4)
Written = tuple[str, int]

MAX_ENTRIES = 6  # of an array that is written out
MAX_ROWS = 3

_UNSEEN = {
    "Promote", "broadcast_to", "conj", "real", "nonneg_wrap", "nonpos_wrap", "psd_wrap", "nsd_wrap",
    "symmetric_wrap", "hermitian_wrap", "skew_symmetric_wrap", "reshape",
}  # fmt: skip
_EXTREMES = {"maximum": "max", "minimum": "min", "max": "max", "min": "min"}


def latex(part: cp.Expression | Constraint) -> str:
    """The LaTeX of an expression or constraint, without dollar signs.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> latex((y - 2 * x) ** 2 <= cp.exp(x))
    '\\\\left(y - 2 x\\\\right)^{2} \\\\le e^{x}'
    """
    return Writer(LATEX).write(part)


def plain(part: cp.Expression | Constraint) -> str:
    """An expression or constraint in plain text.

    Examples
    --------
    >>> import cvxpy as cp
    >>> y = cp.Variable(3, name="y")
    >>> plain(cp.sum_squares(y - 1) + 2 * cp.norm1(y))
    '|y - 1|_2^2 + 2 |y|_1'
    """
    return Writer(TEXT).write(part)


class Writer:
    """Writes expressions in one notation, with one set of names for large arrays."""

    def __init__(self, notation: Notation) -> None:
        self.notation = notation
        self.legend: list[str] = []  # what the names of large arrays stand for
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # so that ids in _names stay unique

    def write(self, part: cp.Expression | Constraint) -> str:
        """The text of an expression or constraint."""
        if isinstance(part, Constraint):
            return self._constraint(part)
        return self._walk(part)[0]

    def _constraint(self, constraint: Any) -> str:
        n = self.notation
        if isinstance(constraint, Inequality | Equality):
            sign = n.at_most if isinstance(constraint, Inequality) else n.equals
            left, right = map(self.write, constraint.args)
            return f"{left} {sign} {right}"
        for kind, sign in ((NonPos, n.at_most), (NonNeg, n.at_least), (Zero, n.equals)):
            if isinstance(constraint, kind):
                return f"{self.write(constraint.args[0])} {sign} 0"
        if isinstance(constraint, PSD):
            return f"{self.write(constraint.args[0])} {n.semidefinite} 0"
        arguments = ", ".join(map(self.write, constraint.args))
        return f"({arguments}) {n.element} {n.word(type(constraint).__name__)}"

    def _walk(self, expression: Any) -> Written:
        if isinstance(expression, cp.Variable | cp.Parameter):
            return self.notation.name(expression.name()), ATOM
        if expression.is_constant() and not expression.parameters():
            return self._constant(expression)
        name = type(expression).__name__
        if name in _UNSEEN:
            return self._walk(expression.args[0])
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, expression)
        return self._call(_EXTREMES.get(name, name), expression.args), ATOM

    def _inside(self, expression: Any, level: int) -> str:
        """The text, in brackets where its outermost operation binds less than ``level``."""
        text, own = self._walk(expression)
        return text if own >= level else self.notation.brackets(text)

    def _call(self, name: str, arguments: Sequence[Any]) -> str:
        n = self.notation
        return n.function(name) + n.brackets(", ".join(map(self.write, arguments)))

    # -- constants ---------------------------------------------------------------------------

    def _constant(self, expression: Any) -> Written:
        value = expression.value
        if hasattr(value, "toarray"):
            if value.size > MAX_ENTRIES**2 * MAX_ROWS:
                return self._named(expression), ATOM
            value = value.toarray()
        array = np.asarray(value, dtype=float)
        if array.size and np.all(array == array.flat[0]):
            number = float(array.flat[0])
            return self.notation.number(number), ATOM if number >= 0 else SUM
        rows = np.atleast_2d(array)
        if array.size > MAX_ENTRIES and max(rows.shape) > MAX_ROWS or array.ndim > 2:
            return self._named(expression), ATOM
        return self.notation.array([list(map(self.notation.number, row)) for row in rows]), ATOM

    def _named(self, expression: Any) -> str:
        key = id(expression)
        if key not in self._names:
            letter = "A" if expression.ndim > 1 else "a"
            self._names[key] = self.notation.name(f"{letter}_{len(self._names) + 1}")
            self._kept.append(expression)
            self.legend.append(self.notation.shape(self._names[key], expression.shape))
        return self._names[key]

    # -- rules; each gives the text and how tightly it binds -----------------------------------

    def _sum(self, atom: Any) -> Written:
        text = ""
        for argument in atom.args:
            if _is_zero(argument):
                continue
            if type(argument).__name__ == "NegExpression":
                text += (" - " if text else "-") + self._inside(argument.args[0], PRODUCT)
                continue
            term = self._walk(argument)[0]
            if text and term.startswith("-"):
                text += " - " + term[1:]
            elif text:
                text += " + " + term
            else:
                text = term
        return text or "0", SUM

    def _negation(self, atom: Any) -> Written:
        return "-" + self._inside(atom.args[0], PRODUCT), SUM

    def _product(self, atom: Any) -> Written:
        first, second = atom.args
        left, right = self._inside(first, PRODUCT), self._inside(second, PRODUCT)
        if left == "1":
            return right, PRODUCT
        is_elementwise = type(atom).__name__ == "multiply"
        if is_elementwise and _true_size(first) > 1 and _true_size(second) > 1:
            return f"{left} {self.notation.elementwise} {right}", PRODUCT
        if not is_elementwise and first.ndim == second.ndim == 1 and not first.is_constant():
            return f"{self.notation.transposed(self._inside(first, ATOM))} {right}", PRODUCT
        if right == "1":
            return left, PRODUCT
        if right[0].isdigit() and not left[-1].isdigit():
            left, right = right, left  # numbers stand in front
        dot = f" {self.notation.dot} " if right[0].isdigit() else " "
        return left + dot + right, PRODUCT

    def _quotient(self, atom: Any) -> Written:
        top, bottom = atom.args
        if self.notation.has_fractions:
            return self.notation.fraction(self.write(top), self.write(bottom)), PRODUCT
        return f"{self._inside(top, PRODUCT)} / {self._inside(bottom, POWER)}", PRODUCT

    def _power(self, atom: Any) -> Written:
        exponent = atom.p.value
        if exponent is not None and float(exponent) == 0.5:
            return self.notation.root(self.write(atom.args[0])), ATOM
        text = self.write(atom.p) if exponent is None else self.notation.number(float(exponent))
        return self.notation.power(self._inside(atom.args[0], ATOM), text), POWER

    def _exponential(self, atom: Any) -> Written:
        return self.notation.exponential(self.write(atom.args[0])), POWER

    def _absolute(self, atom: Any) -> Written:
        return self.notation.absolute(self.write(atom.args[0])), ATOM

    def _total(self, atom: Any) -> Written:
        argument = atom.args[0]
        if argument.size == 1:
            return self._walk(argument)
        return f"{self.notation.total} {self._inside(argument, PRODUCT)}", PRODUCT

    def _norm(self, atom: Any) -> Written:
        kind = {"norm1": "1", "norm_inf": self.notation.infinity}.get(type(atom).__name__)
        kind = kind or self.notation.number(float(atom.p))
        return self.notation.norm(self.write(atom.args[0]), kind), ATOM

    def _squares(self, atom: Any) -> Written:
        top, bottom = atom.args
        text = self.notation.power(self.notation.norm(self.write(top), "2"), "2")
        if bottom.is_constant() and np.all(bottom.value == 1.0):
            return text, POWER
        if self.notation.has_fractions:
            return self.notation.fraction(text, self.write(bottom)), PRODUCT
        return f"{text} / {self._inside(bottom, POWER)}", PRODUCT

    def _form(self, atom: Any) -> Written:
        vector, matrix = self._inside(atom.args[0], ATOM), self._inside(atom.args[1], PRODUCT)
        return f"{self.notation.transposed(vector)} {matrix} {vector}", PRODUCT

    def _index(self, atom: Any) -> Written:
        base = self._inside(atom.args[0], ATOM)
        return self.notation.subscript(base, ", ".join(_positions(atom))), ATOM

    def _picked(self, atom: Any) -> Written:
        return self.notation.subscript(self._inside(atom.args[0], ATOM), self.notation.dots), ATOM

    def _transposed(self, atom: Any) -> Written:
        return self.notation.transposed(self._inside(atom.args[0], ATOM)), POWER

    def _stack(self, atom: Any) -> Written:
        return self.notation.brackets(", ".join(map(self.write, atom.args))), ATOM

    def _log1p(self, atom: Any) -> Written:
        return self.notation.function("log") + self.notation.brackets(
            f"1 + {self.write(atom.args[0])}"
        ), ATOM

    def _logistic(self, atom: Any) -> Written:
        inner = self.notation.exponential(self.write(atom.args[0]))
        return self.notation.function("log") + self.notation.brackets(f"1 + {inner}"), ATOM


_RULES: dict[str, Callable[[Writer, Any], Written]] = {
    "AddExpression": Writer._sum,
    "NegExpression": Writer._negation,
    "multiply": Writer._product,
    "MulExpression": Writer._product,
    "DivExpression": Writer._quotient,
    "Power": Writer._power,
    "PowerApprox": Writer._power,
    "exp": Writer._exponential,
    "abs": Writer._absolute,
    "Sum": Writer._total,
    "norm1": Writer._norm,
    "norm_inf": Writer._norm,
    "Pnorm": Writer._norm,
    "PnormApprox": Writer._norm,
    "quad_over_lin": Writer._squares,
    "QuadForm": Writer._form,
    "index": Writer._index,
    "special_index": Writer._picked,
    "transpose": Writer._transposed,
    "Hstack": Writer._stack,
    "Vstack": Writer._stack,
    "log1p": Writer._log1p,
    "logistic": Writer._logistic,
}


def _is_zero(expression: Any) -> bool:
    if expression.variables() or expression.parameters():
        return False
    value = expression.value
    return not np.any(value.data if hasattr(value, "tocsr") else value)


def _true_size(expression: Any) -> int:
    """The size before a scalar was repeated to fit."""
    while type(expression).__name__ in ("Promote", "broadcast_to"):
        expression = expression.args[0]
    if isinstance(expression, cp.Constant):
        values = expression.value.data if hasattr(expression.value, "tocsr") else expression.value
        return 1 if np.all(values == np.ravel(values)[:1]) else expression.size
    return int(expression.size)


def _positions(atom: Any) -> list[str]:
    """Counted from zero as in the code."""
    shown = []
    for part, length in zip(atom.key, atom.args[0].shape, strict=True):
        start, stop, step = part.start, part.stop, part.step or 1
        if len(range(start, stop if stop is not None else -1, step)) == 1:
            shown.append(str(start))
        elif step == 1:
            shown.append(":" if (start, stop) == (0, length) else f"{start}:{stop}")
        else:
            shown.append(f"{start}:{stop}:{step}")
    return shown
