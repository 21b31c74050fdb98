"""The lower level as functions of x: its answer y*(x), its value v(x), and phi(x) = f(x, y*(x)).

Among several lower answers the one that the upper level likes best is taken, as everywhere. Derivatives
are given where they are known to exist: that of phi by the implicit function theorem, that of v by the
envelope theorem; elsewhere they are NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from blomodel.certification.certificate import Certificate
from blomodel.certification.certifying import certify_point
from blomodel.declare.levels import Levels
from blomodel.declare.point import Point, read_level
from blomodel.errors import DataError
from blomodel.methods.search.pieces import is_only_minimiser
from blomodel.model.model import Model
from blomodel.reformulations.forms.answer_value import AnswerValue
from blomodel.report.landscape import UpperView
from blomodel.text.layout import array, columns, number

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

TOLERANCE = 1e-6  # of the certificate of an answer
ACTIVE = 1e-7  # relative slack at which a lower row counts as active
WIDTH = 100  # characters of a line


@dataclass(frozen=True, eq=False)
class LowerAnswer:
    """What the lower level answers at one x; values are in the user's sense.

    Attributes
    ----------
    x, y : arrays
        The decision and the answer, each level flattened column by column; y is NaN without an answer.
    value : float
        phi(x), the upper objective there; NaN without an answer.
    lower_value : float
        v(x), the lower objective there; NaN without an answer.
    is_allowed : bool
        Whether the upper constraints hold at x and y.
    """

    x: np.ndarray
    y: np.ndarray
    value: float
    lower_value: float
    is_allowed: bool
    _problem: BilevelProblem = field(repr=False)
    _parameters: np.ndarray = field(repr=False)

    @property
    def exists(self) -> bool:
        """Whether the lower level has an answer here."""
        return bool(np.isfinite(self.lower_value))

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Every variable of both levels by name."""
        return Point(self._problem.levels, self.x, self.y).by_name

    @cached_property
    def certificate(self) -> Certificate | None:
        """An independent check of the answer, made when asked for; None without an answer."""
        if not self.exists:
            return None
        if not np.array_equal(self._parameters, self._problem.parameter_values()):
            raise DataError("The parameters have changed since the answer was found; ask for it again.")
        return certify_point(
            self._problem, Point(self._problem.levels, self.x, self.y), tolerance=TOLERANCE
        )

    def __str__(self) -> str:
        if not self.exists:
            return f"no lower answer at x = {array(self.x)}"
        rows = [(name, array(value, digits=6)) for name, value in self.values.items()]
        figures = (("value", self.value), ("lower value", self.lower_value))
        rows += [(name, number(round(figure, 12), 10)) for name, figure in figures]
        rows.append(("upper constraints", "hold" if self.is_allowed else "do not hold"))
        return columns(rows, WIDTH)


@dataclass(frozen=True, eq=False)
class LowerAnswers(Sequence[LowerAnswer]):
    """The lower answers at many x: a sequence, and arrays with a row for each x."""

    answers: tuple[LowerAnswer, ...]

    @overload
    def __getitem__(self, position: int) -> LowerAnswer: ...

    @overload
    def __getitem__(self, position: slice) -> LowerAnswers: ...

    def __getitem__(self, position: int | slice) -> LowerAnswer | LowerAnswers:
        if isinstance(position, slice):
            return LowerAnswers(self.answers[position])
        return self.answers[position]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[LowerAnswer]:
        return iter(self.answers)

    @property
    def x(self) -> np.ndarray:
        """The decisions, one in a row."""
        return np.array([answer.x for answer in self.answers])

    @property
    def y(self) -> np.ndarray:
        """The answers, one in a row."""
        return np.array([answer.y for answer in self.answers])

    @property
    def value(self) -> np.ndarray:
        """phi at each x."""
        return np.array([answer.value for answer in self.answers])

    @property
    def lower_value(self) -> np.ndarray:
        """v at each x."""
        return np.array([answer.lower_value for answer in self.answers])

    @property
    def is_allowed(self) -> np.ndarray:
        """Whether the upper constraints hold, at each x."""
        return np.array([answer.is_allowed for answer in self.answers])


class LowerFunctions:
    """Evaluates y*, phi and v of one problem with the parameters' present values."""

    p: np.ndarray

    def __init__(self, problem: BilevelProblem) -> None:
        problem.check_data()
        self.problem = problem
        self.model: Model = problem.plain_model  # whose vectors are the problem's own
        self.p = problem.parameter_values()
        self._view = UpperView(self.model, self.p)

    def answer(self, x: np.ndarray) -> LowerAnswer:
        """The answer at one x."""
        problem, chain = self.problem, self.problem.plain_chain
        value, y, lower_value, is_allowed = self._view.look(self._forward(x))
        stated = np.full(problem.levels.y.size, np.nan)
        if np.isfinite(lower_value):
            stated = chain.invert(Point(chain.end.levels, self._forward(x), y)).y
        return LowerAnswer(
            x=x,
            y=stated,
            value=problem.sign * value,
            lower_value=problem.lower.sign * lower_value,
            is_allowed=is_allowed,
            _problem=problem,
            _parameters=self.p,
        )

    def _forward(self, x: np.ndarray) -> np.ndarray:
        chain = self.problem.plain_chain
        values = chain.forward_values(self.problem.levels.x.unpack(x), self.p)
        return chain.end.levels.x.join(values)

    @cached_property
    def _phi(self) -> AnswerValue | None:
        is_known = self.model.is_convex_below and not self.model.has_integers
        if not is_known or AnswerValue.why_not(self.model) is not None:
            return None
        return AnswerValue(self.model, self.p)

    def value_gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of phi; NaN where it is not known to exist."""
        found = None if self._phi is None else self._phi(self._forward(x))
        if found is None or not found.has_gradient or not found.is_smooth:
            return np.full(x.size, np.nan)
        return self.problem.sign * found.gradient

    def lower_value_gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of v; NaN where it is not known to exist."""
        model, p, unknown = self.model, self.p, np.full(x.size, np.nan)
        if not model.is_convex_below or model.has_integers or model.lower_in.spectral:
            return unknown
        x = self._forward(x)
        answer = model.lower_program.solve(x, p)
        if not answer.has_point:
            return unknown
        is_unique = model.is_strictly_convex_below() or is_only_minimiser(model, x, p, answer)
        if not is_unique or not self._has_one_slope(x, answer.y):
            return unknown
        return self.problem.lower.sign * model.lower_program.gradient(x, p, (1.0,), answer)

    def _has_one_slope(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether all multipliers give the same slope: rows that do not move, or independent ones."""
        rows, equal = (
            rows.linearise(x, y, self.p) for rows in (self.model.lower_in, self.model.lower_eq)
        )
        largest = 1 + max(np.abs(x).max(initial=0.0), np.abs(y).max(initial=0.0))
        active = np.flatnonzero(rows.value >= -ACTIVE * largest)
        moves = abs(rows.in_x[active]).sum() + abs(equal.in_x).sum()
        if moves == 0:
            return True
        slopes = np.vstack([rows.in_y.toarray()[active], equal.in_y.toarray()])
        return not len(slopes) or np.linalg.matrix_rank(slopes, tol=1e-9) == len(slopes)


def read_points(levels: Levels, given: Any, asked_by: str) -> tuple[np.ndarray, bool]:
    """The x that a person gives, one in a row, and whether it was a single one."""
    n_x = levels.x.size
    if not isinstance(given, Mapping | str):
        table = np.asarray(given, dtype=object) if _is_ragged(given) else np.asarray(given)
        is_point = len(levels.upper) == 1 and table.shape == levels.upper[0].shape
        is_table = table.ndim == 2 and table.shape[1] == n_x
        is_row_of_numbers = table.ndim == 1 and n_x == 1 and table.size != 1
        if table.dtype != object and not is_point and (is_table or is_row_of_numbers):
            points = table.astype(float).reshape(-1, n_x)
            if not np.all(np.isfinite(points)):
                raise DataError(f"{asked_by}: the upper values contain NaN or infinite numbers.")
            return points, False
    return read_level(levels, "upper", given, asked_by)[None, :], True


def _is_ragged(given: Any) -> bool:
    if not isinstance(given, list | tuple):
        return False
    return len({np.shape(part) for part in given}) > 1
