"""Whether a bilevel feasible point is stationary, and whether it is a local optimum.

Both questions are asked of the KKT pieces that meet at the point. With unique multipliers the
directions that stay feasible form a union of polyhedral cones,

    H d + J' dlambda = 0,   c_i' d = 0 (strongly active),
    c_i' d = 0 <= dlambda_i   or   c_i' d <= 0 = dlambda_i (weakly active),

and the point is stationary when none of them holds a direction along which f falls. It is a local
optimum when f is convex on each piece, or curves upwards along the directions in which it is level.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.certification.certificate_text import STATIONARY
from blomodel.certification.curvature import Growth, growth
from blomodel.certification.directions import Directions, Level, find_directions
from blomodel.certification.flat_lines import is_level_along
from blomodel.certification.kinks_here import is_at_a_kink
from blomodel.certification.several_multipliers import smallest_slope_of_all
from blomodel.certification.surroundings import Place, Surroundings, look_around
from blomodel.model.model import Model
from blomodel.solvers.complementarity import (
    ComplementarityQP,
    ComplementarityStatus,
    affordable_nodes,
    solve_globally,
)

NEARLY = 1e-2  # relative slope below which a Newton step may show that nothing can be gained
GAIN = 1e-6  # relative; what a Newton step may gain at a local optimum
SOLVED = 1e-5  # residual of the optimality conditions, relative to their terms
NODES = 500  # of the tree over the weak pairs


@dataclass(frozen=True)
class LocalFacts:
    """What is known about the neighbourhood of a point.

    Attributes
    ----------
    stationarity : float or None
        Largest first-order decrease of f in the unit box, relative to the slope of f; None: unknown.
    is_local_optimum : bool
    reason : str
    direction : array or None
        A move of x along which f seems to fall.
    y : array or None
        The exact lower answer, where it is settled by the equations of the pieces.
    spread : tuple of float or None
        How f moves with y when the lower level may lose a little: f changes by at most about
        sqrt(2 loss spread[0]) + loss spread[1]. None where y is not settled.
    multipliers : array or None
        Those of the lower level at the exact answer.
    """

    stationarity: float | None
    is_local_optimum: bool
    reason: str
    direction: np.ndarray | None = None
    y: np.ndarray | None = None
    spread: tuple[float, float] | None = None
    multipliers: np.ndarray | None = None

    @property
    def is_level(self) -> bool:
        """Whether f does not fall to first order."""
        return self.is_local_optimum or (
            self.stationarity is not None and self.stationarity <= STATIONARY
        )


def study_neighbourhood(
    model: Model,
    p: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    multipliers: np.ndarray,
    *,
    has_convex_pieces: Callable[[], bool],
    deadline: Deadline = NEVER,
) -> LocalFacts:
    """First-order test on all pieces that meet at the point, then second-order where it applies."""
    if not model.has_smooth_kkt or model.upper_in.spectral:
        return LocalFacts(None, False, "the lower level's KKT conditions cannot be written by rows")
    own = multipliers if model.conditions.multipliers_are_unknowns else np.empty(0)
    return _Study(look_around(Place(model, p, x, y, own)), has_convex_pieces, deadline).facts()


class _Study:
    """The tests at one place, in the order of what they cost."""

    def __init__(
        self, here: Surroundings, has_convex_pieces: Callable[[], bool], deadline: Deadline
    ) -> None:
        self.here = here
        self.has_convex_pieces = has_convex_pieces
        self.deadline = deadline
        slope = here.slope[np.isfinite(here.slope)]
        self.steepness = 1 + np.abs(slope).max(initial=0)
        place = here.place
        self.value = float(place.model.f(place.x, place.y, place.p)[0])
        self.y = place.y if here.is_settled else None
        self.spread = here.spread if here.is_finite else None

    def _facts(
        self, decrease: float | None, is_optimum: bool, reason: str, move: np.ndarray | None = None
    ) -> LocalFacts:
        stationarity = None if decrease is None else decrease / self.steepness
        dx = None if move is None else move[: self.here.place.x.size]
        own = self.here.place.multipliers
        return LocalFacts(stationarity, is_optimum, reason, dx, self.y, self.spread, own)

    def facts(self) -> LocalFacts:
        """What the tests show."""
        here = self.here
        place = here.place
        if not here.is_finite or is_at_a_kink(place.model, place.x, place.y, place.p):
            return self._facts(None, False, "a function of the model is not differentiable here")
        if self.deadline.is_over:
            return self._facts(None, False, "the time limit left no time for the test on pieces")
        if here.misfit > SOLVED:
            reason = "the lower level's optimality conditions by rows are not solved accurately here"
            return self._facts(None, False, reason)
        if not here.has_unique_multipliers:
            # One of them does not tell for how long a norm stays zero.
            return replace(self._with_several_multipliers(), multipliers=None)
        directions = find_directions(here)
        level = directions.relaxed()
        if level is None:
            return self._facts(None, False, "the test on pieces did not finish")
        if level.decrease <= STATIONARY * self.steepness:
            return self._level(directions, level)
        if directions.n_weak:
            return self._on_pieces(directions)
        return self._falling(directions, level)

    def _level(self, directions: Directions, level: Level) -> LocalFacts:
        """Level even where the weak pairs may leave both their sides."""
        grown = growth(directions, level, self.deadline)
        if self._is_shown(grown):
            return self._facts(level.decrease, True, _why(grown))
        if self.has_convex_pieces():
            return self._facts(level.decrease, True, "stationary, and f is convex on each piece")
        if directions.n_weak and self._is_shown_on_each_piece(directions):
            return self._facts(level.decrease, True, "a strict local optimum on each piece")
        if self._is_constant_along(grown):
            reason = "stationary, with positive curvature but along a line on which f does not change"
            return self._facts(level.decrease, True, reason)
        return self._only_level(level.decrease, grown)

    def _is_constant_along(self, grown: Growth) -> bool:
        """Whether the one direction without curvature is a line on which f stays as it is."""
        if grown.flat is None or grown.gain > self._small or len(self.here.weak):
            return False
        move = grown.flat[: self.here.place.x.size]
        if not np.abs(move).max() > 0:
            return False
        return is_level_along(self.here, move, grown.gain, self.deadline)

    def _only_level(self, decrease: float, grown: Growth) -> LocalFacts:
        reason = "stationary to first order"
        if grown.step is not None and not grown.is_positive:
            reason = "stationary to first order, but f curves downwards along a feasible direction"
        elif grown.is_positive and grown.gain > self._small:
            reason = f"stationary to first order, but a Newton step would gain {grown.gain:.2g}"
        return self._facts(decrease, False, reason, grown.step)

    def _falling(self, directions: Directions, level: Level) -> LocalFacts:
        """On one smooth piece with a slope, which a Newton step may show to be nothing."""
        size = np.abs(self.here.place.x).max(initial=1.0)
        if level.decrease <= NEARLY * self.steepness * size:
            grown = growth(directions, level, self.deadline)
            if grown.is_positive and grown.gain <= 0.1 * self._small:
                return self._facts(level.decrease, True, "a Newton step gains nothing visible")
            if grown.is_positive and grown.step is not None:
                return self._facts(
                    level.decrease, False, "f falls along a feasible direction", grown.step
                )
        return self._facts(level.decrease, False, "f falls along a feasible direction", level.direction)

    @property
    def _small(self) -> float:
        return GAIN * (1 + abs(self.value))

    def _is_shown(self, grown: Growth) -> bool:
        return grown.is_positive and grown.gain <= self._small

    def _on_pieces(self, directions: Directions) -> LocalFacts:
        """The test with the weak pairs as they are: a tree over the pieces."""
        found = _smallest_on_pieces(directions, self.deadline)
        if found is None:
            return self._facts(None, False, "the test on pieces did not finish")
        decrease, move = found
        if decrease > STATIONARY * self.steepness:
            return self._facts(decrease, False, "f falls along a feasible direction", move)
        if self.has_convex_pieces():
            return self._facts(decrease, True, "stationary, and f is convex on each piece")
        if self._is_shown_on_each_piece(directions):
            return self._facts(decrease, True, "a strict local optimum on each piece")
        return self._facts(decrease, False, "stationary to first order")

    def _is_shown_on_each_piece(self, directions: Directions) -> bool:
        if not limits.PIECES_ONE_BY_ONE.allows(2.0 ** min(directions.n_weak, 60)):
            return False
        for sides in itertools.product((True, False), repeat=directions.n_weak):
            if self.deadline.is_over:
                return False
            piece = directions.on_piece(np.array(sides, dtype=bool))
            level = piece.relaxed()
            if level is None or level.decrease > STATIONARY * self.steepness:
                return False
            if not self._is_shown(growth(piece, level, self.deadline)):
                return False
        return True

    def _with_several_multipliers(self) -> LocalFacts:
        """Each of the lower multipliers belongs to pieces that meet here."""
        decrease = None
        model = self.here.place.model
        if model.lower_in.is_affine and model.lower_eq.is_affine:
            decrease = smallest_slope_of_all(self.here, self.deadline)
        if decrease is None:
            reason = "the lower multipliers are not unique, so the pieces here are not known"
            return self._facts(None, False, reason)
        if decrease > STATIONARY * self.steepness:
            return self._facts(None, False, "f may fall on a piece of one of several lower multipliers")
        if self.has_convex_pieces():
            reason = "stationary with each of the lower multipliers, and f is convex on each piece"
            return self._facts(decrease, True, reason)
        return self._facts(decrease, False, "stationary to first order")


def _downhill(directions: Directions, level: Level) -> np.ndarray:
    """The steepest direction where it is feasible; else that of the linear program, a corner."""
    steepest = -level.rest / max(float(np.abs(level.rest).max(initial=0.0)), 1e-300)
    is_feasible = (directions.rows @ steepest).max(initial=0.0) <= 1e-9
    is_feasible &= np.abs(directions.equal @ steepest).max(initial=0.0) <= 1e-9
    return steepest if is_feasible and directions.is_reduced else level.direction


def _why(grown: Growth) -> str:
    if grown.n_left == 0:
        return "f rises to first order in every direction"
    if grown.is_flat:
        return "stationary, and f is quadratic here without negative curvature"
    return "stationary, with positive curvature"


def _smallest_on_pieces(directions: Directions, deadline: Deadline) -> tuple[float, np.ndarray] | None:
    """The largest decrease over all pieces, and its direction; None where the tree did not end."""
    n, n_weak = len(directions.slope), directions.n_weak
    boxed = np.flatnonzero(np.isfinite(directions.reach))
    unit = sp.eye_array(n, format="csr")[boxed]
    reach = directions.reach[boxed]
    rows = sp.csr_array(directions.rows)
    kept = sp.vstack([rows[:n_weak], rows[2 * n_weak :]])
    problem = ComplementarityQP(
        P=sp.csc_array((n, n), dtype=float),
        q=directions.slope,
        A_eq=sp.csc_array(directions.equal),
        b_eq=np.zeros(directions.equal.shape[0]),
        A_in=sp.csc_array(sp.vstack([kept, unit, -unit])),
        b_in=np.concatenate([np.zeros(kept.shape[0]), reach, reach]),
        rows=np.arange(n_weak),
        columns=directions.columns,
    )
    result = solve_globally(problem, node_limit=affordable_nodes(problem, NODES), deadline=deadline)
    if result.status is not ComplementarityStatus.OPTIMAL or result.z is None:
        return None
    return max(0.0, -float(result.value)), result.z
