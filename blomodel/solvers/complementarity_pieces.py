"""The convex pieces of a quadratic program with complementarity constraints.

Choosing for every pair which of its two sides holds gives a *piece*: a convex QP. The pieces'
union is the feasible set, so global search branches on the sides and local search walks over them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.complementarity_refine import compact_matrix
from blomodel.solvers.convex_qp import ConvexProgram, Indices, Vector

Sides = NDArray[np.int8]
FREE, TIGHT, ZERO = 0, 1, 2  # neither side chosen; the row is tight; the variable is zero

BIACTIVE = 1e-7  # relative: both sides of a pair hold at once
WRONG_SIGN = 1e-8  # relative: a multiplier below minus this asks for the other side
DECREASE = 1e-10  # relative: smaller changes of the objective are rounding


class ComplementarityStatus(enum.Enum):
    """How a search over the pieces ended."""

    OPTIMAL = "the bound proves that no better point exists"
    LOCAL = "no adjacent piece contains a better point"
    LIMIT = "a limit was reached; the best point found and a bound are returned"
    INFEASIBLE = "no piece has a feasible point"
    UNBOUNDED = "the objective falls without end in one piece"
    FAILED = "the convex solver failed before any point was found"


@dataclass
class ComplementarityQP:
    """Minimise 1/2 z'Pz + q'z over A_eq z = b_eq, A_in z <= b_in with complementarity pairs.

    Pair k demands ``z[columns[k]] >= 0``, and either row ``rows[k]`` of ``A_in`` tight or
    ``z[columns[k]] = 0``. ``P`` is positive semidefinite. Matrices may be sparse, dense or None.
    """

    P: Any
    q: Any
    A_eq: Any
    b_eq: Any
    A_in: Any
    b_in: Any
    rows: Any
    columns: Any
    _pieces: Pieces | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def pieces(self) -> Pieces:
        """The compiled form, built once: change no data afterwards."""
        if self._pieces is None:
            self._pieces = Pieces(self)
        return self._pieces

    def objective(self, z: Any) -> float:
        """Value of the objective at ``z``."""
        return self.pieces.program.objective(np.asarray(z, dtype=float))

    def violation(self, z: Any) -> float:
        """Largest violation of a constraint, sign or pair (the smaller of slack and variable)."""
        z = np.asarray(z, dtype=float)
        slack, variable = self.pieces.gaps(z)
        pairs = float(np.minimum(slack, variable).max(initial=0.0))
        return max(self.pieces.program.violation(z), pairs)


@dataclass
class ComplementarityResult:
    """The best point found, a lower bound on all values (``-inf`` if none is known), and why."""

    z: Vector | None
    value: float
    bound: float
    status: ComplementarityStatus
    nodes: int = 0  # convex programs solved


class Pieces:
    """Solves pieces, counts them, and reads off which pairs hold at a point."""

    rows: np.ndarray
    columns: np.ndarray
    program: ConvexProgram
    n_pairs: int
    place: np.ndarray
    paired: Any
    right: np.ndarray
    row_length: np.ndarray
    solved: int

    def __init__(self, problem: ComplementarityQP) -> None:
        self.rows = np.asarray(problem.rows, dtype=np.intp).ravel()
        self.columns = np.asarray(problem.columns, dtype=np.intp).ravel()
        if self.rows.size != self.columns.size:
            raise ValueError(
                f"every pair needs a row and a variable, but there are {self.rows.size} rows "
                f"and {self.columns.size} variables"
            )
        self.program = ConvexProgram(
            problem.P,
            problem.q,
            problem.A_eq,
            problem.b_eq,
            problem.A_in,
            problem.b_in,
            np.unique(self.columns),
        )
        program = self.program
        self.n_pairs = self.rows.size
        self.place = np.searchsorted(program.nonnegative, self.columns)  # in the reduced costs
        right = program.b_in[self.rows]
        has_bound = np.isfinite(right)
        self.free_sides: Sides = np.where(has_bound, FREE, ZERO).astype(np.int8)
        paired = program.A_in.tocsr()[self.rows]
        lengths = np.sqrt(np.asarray(paired.multiply(paired).sum(axis=1)).ravel())
        self.paired, self.right = compact_matrix(paired), right
        self.row_length = np.where(lengths > 0.0, lengths, 1.0)
        self.solved = 0

    def gaps(self, z: Vector) -> tuple[Vector, Vector]:
        """Slack of each pair's row and value of its variable, both clipped at zero."""
        slack = np.maximum(self.right - self.paired @ z, 0.0)
        return slack, np.maximum(z[self.columns], 0.0)

    def solve(
        self,
        sides: Sides,
        refine: bool = False,
        deadline: Deadline = NEVER,
        cutoff: float = np.inf,
    ) -> Answer:
        """Solve the convex program with the chosen sides; free pairs lose their complementarity.

        A program without a value below ``cutoff`` may count as infeasible.
        """
        self.solved += 1
        tight: Indices = self.rows[sides == TIGHT]
        zero: Indices = self.columns[sides == ZERO]
        return self.program.solve(tight, zero, refine=refine, deadline=deadline, cutoff=cutoff)

    def round(self, z: Vector, sides: Sides) -> Sides:
        """Choose for every free pair the side that is nearer to holding at ``z``."""
        slack, variable = self.gaps(z)
        nearer = np.where(slack / self.row_length <= variable, TIGHT, ZERO)
        return np.where(sides == FREE, nearer, sides).astype(np.int8)

    def biactive(self, z: Vector, tolerance: float = BIACTIVE) -> NDArray[np.bool_]:
        """Pairs both sides of which hold at ``z``."""
        slack, variable = self.gaps(z)
        scale = 1.0 + np.abs(z).max(initial=0.0)
        both = np.maximum(slack / self.row_length, variable) <= tolerance * scale
        return both & (self.free_sides == FREE)

    def wrong_pairs(self, sides: Sides, answer: Answer) -> NDArray[np.bool_]:
        """Biactive pairs whose multiplier says that the other side holds better points."""
        assert answer.multipliers is not None
        _, of_rows, of_signs = self.program.split(answer.multipliers)
        row_multiplier, reduced = of_rows[self.rows], of_signs[self.place]
        multiplier = np.where(sides == TIGHT, row_multiplier, reduced)
        scale = 1.0 + np.abs(self.program.q).max(initial=0.0)
        return self.biactive(answer.y) & (multiplier < -WRONG_SIGN * scale)

    def descend(
        self, sides: Sides, answer: Answer, max_moves: int, deadline: Deadline
    ) -> tuple[Sides, Answer]:
        """Walk to adjacent pieces as long as the multipliers ask for it and the value falls.

        Flipping any set of biactive pairs keeps the present point feasible, so the next piece is
        never worse; all wrong pairs are flipped at once.
        """
        for _ in range(max_moves):
            wrong = self.wrong_pairs(sides, answer)
            if not wrong.any() or deadline.is_over:
                break
            other = np.where(sides == TIGHT, ZERO, TIGHT)
            flipped = np.where(wrong, other, sides).astype(np.int8)
            candidate = self.solve(flipped, refine=True, deadline=deadline)
            if candidate.status is InnerStatus.UNBOUNDED:
                return flipped, candidate
            if candidate.status is not InnerStatus.OPTIMAL:
                break
            if candidate.value >= answer.value - DECREASE * max(1.0, abs(answer.value)):
                break
            sides, answer = flipped, candidate
        return sides, answer
