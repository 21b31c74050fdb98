"""What an inner solver is asked: the classes of problems, and the numbers that state one of each."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from blomodel.basics.deadline import NEVER, Deadline

if TYPE_CHECKING:
    import cvxpy as cp

    from blomodel.solvers.answer import Answer


class ProblemClass(enum.Enum):
    """Classes of inner problems; the value tells which question states one."""

    LP = "linear program"  # QuadraticQuestion without P
    QP = "convex quadratic program"  # QuadraticQuestion
    CONIC = "cone program"  # ConicQuestion
    SMOOTH = "smooth functions, searched locally"  # SmoothQuestion
    NLP = "nonlinear program stated in cvxpy, searched locally"  # NonlinearQuestion


@dataclass(slots=True)
class QuadraticQuestion:
    """min .5 y'Py + q'y s.t. Ay <= b, with = on the rows marked in ``equality``.

    P is whole and symmetric, not a triangle. A row whose b is infinite does not constrain.
    """

    P: sp.csc_array
    q: np.ndarray
    A: sp.csc_array
    b: np.ndarray
    equality: np.ndarray
    accuracy: float = 1e-9  # relative
    start: np.ndarray | None = None  # a point that may be near the minimiser
    active: np.ndarray | None = None  # rows that may be active there
    is_lasting: bool = False  # whether many questions with this P and A are to come
    deadline: Deadline = NEVER

    def residual(self, y: np.ndarray, multipliers: np.ndarray) -> float:
        """Largest violation of the optimality conditions, each relative to the size of its terms.

        Stationarity ``Py + q + A'multipliers = 0``, feasibility, the signs of the multipliers, and
        ``multipliers' (b - Ay) = 0``. Zero for a minimiser, since the program is convex.
        """
        bounded = np.isfinite(self.b)
        pull, curve = self.A.T @ multipliers, self.P @ y
        slack = np.where(bounded, self.b - self.A @ y, np.inf)
        over = np.where(self.equality, np.abs(slack), -slack)[bounded]
        wrong = np.where(self.equality, 0.0, -multipliers)
        product = float((multipliers * np.where(bounded, slack, 1.0)).sum())
        value = abs(float(self.q @ y)) + abs(float(y @ curve))
        parts = (
            (np.abs(curve + self.q + pull).max(initial=0.0), _size(curve, self.q, pull)),
            (over.max(initial=0.0), _size(self.b[bounded], y)),
            (wrong.max(initial=0.0), _size(multipliers)),
            (abs(product), 1.0 + value),
        )
        return float(np.max([error / scale for error, scale in parts]))

    @property
    def n_unknowns(self) -> int:
        """How many numbers the answer holds."""
        return len(self.q)


class ConeKind(enum.Enum):
    """The cones that rows ``b - Ay`` may have to lie in."""

    ZERO = "zero"
    NONNEGATIVE = "nonnegative"
    SECOND_ORDER = "second-order"
    SEMIDEFINITE = "positive semidefinite, upper triangle column by column, off-diagonals times sqrt 2"
    EXPONENTIAL = "exponential"
    POWER = "power: |z| <= x^a y^(1 - a)"
    GENERAL_POWER = "power: |z| <= the product of x_i^a_i"


class Cone(NamedTuple):
    """One cone, in the order of the rows; ``size`` is the order of a semidefinite matrix."""

    kind: ConeKind
    size: int
    exponents: tuple[float, ...] = ()  # of a power cone


@dataclass(slots=True)
class ConicQuestion:
    """min .5 y'Py + q'y s.t. Ay + s = b with s in a product of cones; P is its upper triangle."""

    P: sp.csc_array
    q: np.ndarray
    A: sp.csc_array
    b: np.ndarray
    cones: Sequence[Cone]
    accuracy: float = 1e-9
    keeps_sparsity: bool = False  # whether this solver was asked with the same pattern before
    deadline: Deadline = NEVER

    def residual(self, y: np.ndarray, multipliers: np.ndarray, slack: np.ndarray) -> float:
        """Largest violation of stationarity and of the rows, measured against the data.

        Interior point methods measure against the size of y, too: where y runs off to infinity along
        a direction in which the objective falls, every residual looks small.
        """
        P, A, b = self.P, self.A, self.b
        pull = A.T @ multipliers
        slope = P @ y + P.T @ y - P.diagonal() * y + self.q + pull
        bounded = np.isfinite(b)
        rows = (A @ y + slack - b)[bounded]
        dual = np.abs(slope).max(initial=0.0) / max(
            1.0, np.abs(self.q).max(initial=0.0), np.abs(pull).max(initial=0.0)
        )
        scale = max(1.0, np.abs(b[bounded]).max(initial=0.0), np.abs(slack[bounded]).max(initial=0.0))
        return float(np.maximum(dual, np.abs(rows).max(initial=0.0) / scale))

    @property
    def n_unknowns(self) -> int:
        """How many numbers the answer holds."""
        return len(self.q)


Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SmoothProgram:
    """Minimise ``value`` over ``inequalities <= 0``, ``equalities == 0`` and bounds."""

    value: Callable[[np.ndarray], float]
    gradient: Function
    inequalities: Function
    inequalities_jacobian: Function
    equalities: Function
    equalities_jacobian: Function
    bounds: tuple[np.ndarray, np.ndarray]

    def violation(self, z: np.ndarray) -> float:
        """Largest violation of a row."""
        over = self.inequalities(z).max(initial=0)
        return float(max(over, np.abs(self.equalities(z)).max(initial=0)))


@dataclass(slots=True)
class SmoothQuestion:
    """A local search over a smooth program from a start."""

    program: SmoothProgram
    start: np.ndarray
    max_iterations: int = 60
    check: Callable[[], object] = lambda: None  # called at evaluations; ends the search by an exception

    @property
    def n_unknowns(self) -> int:
        """How many numbers the answer holds."""
        return self.start.size


@dataclass(slots=True)
class NonlinearQuestion:
    """A local search over a cvxpy problem from its variables' present values, which it replaces."""

    problem: cp.Problem
    deadline: Deadline = NEVER

    @property
    def n_unknowns(self) -> int:
        """How many numbers the answer holds."""
        return sum(leaf.size for leaf in self.problem.variables())


def is_convincing(question: QuadraticQuestion, answer: Answer, accuracy: float = 0.0) -> bool:
    """Whether an answer satisfies the optimality conditions to the accuracy asked for, or to this."""
    if not answer.has_point or answer.multipliers is None:
        return False
    if not (np.isfinite(answer.y).all() and np.isfinite(answer.multipliers).all()):
        return False
    return question.residual(answer.y, answer.multipliers) <= max(question.accuracy, accuracy)


def _size(*vectors: np.ndarray) -> Any:
    return max(1.0, *(np.abs(vector).max(initial=0.0) for vector in vectors))
