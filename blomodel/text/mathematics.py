"""cvxpy expressions as text: LaTeX for notebooks and papers, and for terminals the notation one types.

One walk over an expression serves both; a ``Notation`` says how a power, a transpose or an array looks.
LaTeX has forms of its own for norms, quotients and the like (``formulas.py``); typed text is code, where
these are the functions that one calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.broadcast_to import broadcast_to
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.conj import conj
from cvxpy.atoms.affine.diag import diag_mat, diag_vec
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.real import real
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.vstack import Vstack
from cvxpy.atoms.affine.wraps import Wrap
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.geo_mean import GeoMean, GeoMeanApprox
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.atoms.quad_over_lin import quad_over_lin
from cvxpy.constraints import PSD, Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint
from cvxpy.utilities.canonical import Canonical

from blomodel.text import formulas
from blomodel.text.layout import array as array_text
from blomodel.text.notation import ATOM, LATEX, POWER, PRODUCT, SUM, TEXT, Notation, Written

MAX_ENTRIES = 6  # of an array that is written out in a formula
MAX_ROWS = 3
INLINE_ENTRIES = 4  # of a vector that is written out in typed text; larger data is told by its shape
SHOWN_ARGUMENTS = 6  # of a long sum or a long list of arguments, where a text is to be short

_UNSEEN = (Promote, broadcast_to, conj, real, Wrap)  # put in between by cvxpy, without a change of value
_TAKES_LIST = (Hstack, Vstack, Concatenate)
_TYPED_NAMES = {
    QuadForm: "quad_form",
    GeoMean: "geo_mean",
    GeoMeanApprox: "geo_mean",
    diag_vec: "diag",
    diag_mat: "diag",
}


def latex(part: Canonical) -> str:
    r"""The LaTeX of an expression or constraint, without dollar signs.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> latex((y - 2 * x) ** 2 <= cp.exp(x))
    '\\left(y - 2 x\\right)^{2} \\le e^{x}'
    """
    return Writer(LATEX).write(part)


def plain(part: Canonical) -> str:
    """An expression or constraint in the notation one would type it in.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> plain((y - 2 * x) ** 2 / (2 + cp.exp(-x)) <= 3)
    '(y - 2 * x)**2 / (2 + exp(-x)) <= 3'
    """
    return Writer(TEXT, names_data=False).write(part)


class Writer:
    """Writes expressions in one notation.

    Parameters
    ----------
    notation : Notation
        ``LATEX`` or ``TEXT``.
    names_data : bool
        Whether large arrays get names, the same in all that is written, which ``legend`` explains, and
        constant parts are written by their values. Otherwise arrays are told by their shapes.
    budget : int, optional
        How many parts are looked at before the rest is left out, for texts that must be cheap.

    Attributes
    ----------
    legend : list of str
        What the names of large arrays stand for.
    """

    notation: Notation
    names_data: bool

    def __init__(self, notation: Notation, names_data: bool = True, budget: int | None = None) -> None:
        self.notation, self.names_data, self.budget = notation, names_data, budget
        self.legend: list[str] = []
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # so that ids in _names stay unique

    def write(self, part: Canonical) -> str:
        """The text of an expression or constraint."""
        if isinstance(part, Constraint):
            return self._constraint(part)
        return self.walk(part)[0]

    def inside(self, expression: Any, level: int, is_matrix: bool = False) -> str:
        """The text, in brackets where its outermost operation binds less tightly than ``level``."""
        text, own = self.walk(expression, is_matrix)
        return text if own >= level else self.notation.brackets(text)

    def walk(self, expression: Any, is_matrix: bool = False) -> Written:
        """The text of an expression and how tightly its outermost operation binds.

        A factor of a matrix product (``is_matrix``) must show its shape: ones are not 1 there.
        """
        if self.budget is not None:
            self.budget -= 1
            if self.budget < 0:
                return self.notation.dots, ATOM
        label = getattr(expression, "label", None)
        if label and self.notation is TEXT:
            return str(label), ATOM
        if isinstance(expression, cp.Constant) or self._is_folded(expression):
            return self._constant(expression, is_matrix)
        if not expression.args:
            return self.notation.name(expression.name()), ATOM
        if isinstance(expression, _UNSEEN):
            return self.walk(expression.args[0])
        special = formulas.FORMULAS if self.notation is LATEX else _TYPED
        rule = special.get(type(expression)) or _OPERATORS.get(type(expression))
        if rule is not None:
            return rule(self, expression)
        return formulas.call(self, expression) if self.notation is LATEX else self._call(expression)

    def _constraint(self, constraint: Any) -> str:
        n = self.notation
        if isinstance(constraint, Inequality | Equality):
            sign = n.at_most if isinstance(constraint, Inequality) else n.equals
            left, right = map(self.write, constraint.args)
            return f"{left} {sign} {right}"
        signs = ((NonPos, n.at_most), (NonNeg, n.at_least), (Zero, n.equals), (PSD, n.semidefinite))
        for kind, sign in signs:
            if isinstance(constraint, kind):
                return f"{self.write(constraint.args[0])} {sign} 0"
        arguments, name = ", ".join(map(self.write, constraint.args)), type(constraint).__name__
        if n is LATEX:
            return f"({arguments}) {LATEX.element} {LATEX.word(name)}"
        return f"{name}({arguments})"

    def _call(self, atom: Any) -> Written:
        """Any other atom: its name, its arguments, and the settings it was built with."""
        name = _TYPED_NAMES.get(type(atom)) or type(atom).__name__
        settings = [item for item in atom.get_data() or () if item is not None and item is not False]
        arguments = self._arguments(atom)
        arguments = f"[{arguments}]" if isinstance(atom, _TAKES_LIST) else arguments
        written = [self.write(s) if isinstance(s, cp.Expression) else repr(s) for s in settings]
        return f"{name[0].lower()}{name[1:]}({', '.join([arguments, *written])})", ATOM

    def _arguments(self, atom: Any) -> str:
        shown = self._shown(atom.args)
        return ", ".join(part if isinstance(part, str) else self.write(part) for part in shown)

    def _shown(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments, with dots in the place of many of them where the text is to be short."""
        if self.budget is None or len(arguments) <= SHOWN_ARGUMENTS:
            return list(arguments)
        return [*arguments[: SHOWN_ARGUMENTS - 2], self.notation.dots, *arguments[-2:]]

    # -- constants ---------------------------------------------------------------------------

    def _is_folded(self, expression: Any) -> bool:
        """Whether a part is written by its value: a constant in which the user named nothing."""
        if not self.names_data or not expression.args or not expression.is_constant():
            return False
        return not expression.parameters() and not any(map(_has_name, expression.constants()))

    def _constant(self, expression: Any, is_matrix: bool) -> Written:
        if isinstance(expression, cp.Constant) and _has_name(expression):
            return self.notation.name(expression.name()), ATOM
        if expression.size == 1:
            value = expression.value
            dense = value.toarray() if hasattr(value, "toarray") else value
            return self._number(float(np.asarray(dense).item()))
        if not self.names_data:
            return self._short_array(expression), ATOM
        value = expression.value
        if hasattr(value, "toarray"):
            if value.size > MAX_ENTRIES**2 * MAX_ROWS:
                return self._named(expression), ATOM
            value = value.toarray()
        array = np.asarray(value, dtype=float)
        if array.size and np.all(array == array.flat[0]) and not is_matrix:
            return self._number(float(array.flat[0]))
        if array.size > MAX_ENTRIES and max(np.atleast_2d(array).shape) > MAX_ROWS or array.ndim > 2:
            return self._named(expression), ATOM
        return self.notation.array(array), ATOM

    def _number(self, value: float) -> Written:
        text = self.notation.number(value)
        return text, self.notation.negation if text.startswith("-") else ATOM

    def _short_array(self, expression: Any) -> str:
        if expression.ndim == 1 and expression.size <= INLINE_ENTRIES:
            return array_text(expression.value)
        shape = "x".join(map(str, expression.shape))
        return f"[{shape} {'vector' if expression.ndim == 1 else 'array'}]"

    def _named(self, expression: Any) -> str:
        key = id(expression)
        if key not in self._names:
            letter = "A" if expression.ndim > 1 else "a"
            self._names[key] = self.notation.name(f"{letter}_{len(self._names) + 1}")
            self._kept.append(expression)
            self.legend.append(self.notation.shape(self._names[key], expression.shape))
        return self._names[key]

    # -- operators; each gives the text and how tightly it binds --------------------------------

    def _sum(self, atom: Any) -> Written:
        text = ""
        # cvxpy writes A >> 0 as A + (-0) >> 0; nobody wants to read the zero.
        terms = [term for term in self._shown(atom.args) if isinstance(term, str) or not _is_zero(term)]
        for term in terms:
            if isinstance(term, NegExpression) and not getattr(term, "label", None):
                text += (" - " if text else "-") + self.inside(term.args[0], PRODUCT)
                continue
            written = term if isinstance(term, str) else self.walk(term)[0]
            if text and written.startswith("-"):
                text += " - " + written[1:]
            else:
                text += f" + {written}" if text else written
        return text or "0", SUM

    def _negation(self, atom: Any) -> Written:
        return "-" + self.inside(atom.args[0], PRODUCT), self.notation.negation

    def _index(self, atom: Any) -> Written:
        base = self.inside(atom.args[0], ATOM)
        return self.notation.subscript(base, ", ".join(_positions(atom))), ATOM

    def _transposed(self, atom: Any) -> Written:
        binding = ATOM if self.notation is TEXT else POWER
        return self.notation.transposed(self.inside(atom.args[0], ATOM)), binding

    # -- what typed text writes otherwise than as a call of the atom's name ----------------------

    def _infix(self, atom: Any) -> Written:
        sign = {MulExpression: "@", multiply: "*", DivExpression: "/"}[type(atom)]
        if sign == "*" and not any(formulas.is_repeated_scalar(part) for part in atom.args):
            return f"multiply({self._arguments(atom)})", ATOM  # where * would be a matrix product
        is_matrix = sign == "@"
        left = self.inside(atom.args[0], PRODUCT, is_matrix)
        # a / (b * c) and a * (b / c) need their brackets, so the right side must bind more tightly
        return f"{left} {sign} {self.inside(atom.args[1], POWER, is_matrix)}", PRODUCT

    def _power(self, atom: Any) -> Written:
        base, exponent = self.inside(atom.args[0], ATOM), self.inside(atom.p, POWER)
        return self.notation.power(base, exponent), POWER

    def _picked(self, atom: Any) -> Written:
        keys = map(_short_key, _places(atom.key))
        return self.notation.subscript(self.inside(atom.args[0], ATOM), ", ".join(keys)), ATOM

    def _reshaped(self, atom: Any) -> Written:
        return self.walk(atom.args[0]) if atom.size == 1 else self._call(atom)

    def _squares(self, atom: Any) -> Written:
        bottom = atom.args[1]
        if isinstance(bottom, cp.Constant) and bottom.value == 1.0:
            return f"sum_squares({self.write(atom.args[0])})", ATOM
        return self._call(atom)

    def _norm(self, atom: Any) -> Written:
        axis = "" if atom.axis is None else f", {atom.axis}"
        return f"norm({self.write(atom.args[0])}, {self.notation.number(float(atom.p))}{axis})", ATOM


Rule = Callable[[Writer, Any], Written]
_OPERATORS: dict[type, Rule] = {
    AddExpression: Writer._sum,
    NegExpression: Writer._negation,
    index: Writer._index,
    transpose: Writer._transposed,
}
_TYPED: dict[type, Rule] = {
    MulExpression: Writer._infix,
    multiply: Writer._infix,
    DivExpression: Writer._infix,
    Power: Writer._power,
    PowerApprox: Writer._power,
    special_index: Writer._picked,
    reshape: Writer._reshaped,
    quad_over_lin: Writer._squares,
    Pnorm: Writer._norm,
    PnormApprox: Writer._norm,
}


def _has_name(constant: Any) -> bool:
    """Whether the user named a constant; ``name()`` would print the numbers of one without a name."""
    return bool(constant._name)


def _is_zero(expression: Any) -> bool:
    return bool(expression.is_constant() and not expression.parameters() and expression.is_zero())


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
            end = "" if stop is None or stop < 0 else stop  # cvxpy writes -1 for "down to the first"
            shown.append(f"{start}:{end}:{step}")
    return shown


def _places(key: Any) -> list[Any]:
    """What an index selects along each axis: a mask as the positions at which it is true."""
    found: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if np.ndim(part) and np.asarray(part).dtype == bool:
            found += np.nonzero(np.asarray(part))
        else:
            found.append(part)
    return found


def _short_key(key: Any) -> str:
    """A list of positions, or a slice, as one would type it."""
    if isinstance(key, slice):
        parts = ["" if part is None else str(part) for part in (key.start, key.stop, key.step)]
        return ":".join(parts if parts[2] else parts[:2])
    return array_text(key) if np.ndim(key) == 1 else str(key) if np.ndim(key) == 0 else "..."
