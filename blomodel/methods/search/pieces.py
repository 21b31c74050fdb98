"""Improve a point on the pieces of the lower level's KKT conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.errors import NonconvexLowerError
from blomodel.methods.run.run import Candidate, Run
from blomodel.model.kkt_hessian import KktWeights
from blomodel.model.model import Model
from blomodel.programs.quadratic import is_positive_semidefinite
from blomodel.reformulations.forms.pieces import (
    PieceModel,
    convex_objective,
    model_pieces,
    positive_part,
)
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.complementarity import (
    ComplementarityResult,
    affordable_nodes,
    piece_multipliers,
    solve_globally,
    solve_locally,
)

if TYPE_CHECKING:
    from blomodel.solvers.complementarity_pieces import ComplementarityQP


PRESSING = 1e-5  # relative: multipliers above it belong to rows that hold at every minimiser
HELD = 1e-6  # relative: least curvature or pressure in a direction that leaves no choice
TINY = 1e-300
ROUNDING = 1e-15  # relative to the largest unknown
NODES_OF_A_STEP = 300  # of the tree over the pieces around a point
VERY_SMALL_GAP = 1e-10  # relative; a larger gap can buy a visible decrease of f


class ExactPieces:
    """The pieces of a problem whose KKT conditions are linear and whose f is convex on them.

    Each piece is then a convex quadratic program, the lower level's multipliers always exist, and
    one complementarity QP stands for the whole problem, not only for a neighbourhood.
    """

    qp: ComplementarityQP
    constant: float

    def __init__(self, run: Run) -> None:
        model, p = run.model, run.p
        objective = convex_objective(model, p)
        assert objective is not None
        zeros = np.zeros(model.x.size), np.zeros(model.y.size)
        multipliers = np.zeros(model.n_lower_rows)
        pieces = model_pieces(model, *zeros, p, multipliers, curvature=None)
        self.qp = dataclasses.replace(pieces.qp, P=sp.csc_array(objective.P), q=objective.q)
        self._split: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]] = pieces.split
        self.join: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] = pieces.join
        self.constant = objective.constant
        self.best: np.ndarray | None = None  # of the points that the walks found
        self._reached: dict[bytes, float] = {}  # by first piece: the value where its walk ended

    def split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and multipliers, without what rounding has left of zeros.

        At an x of -1e-19 in place of 0 the lower level may have no answer at all.
        """
        tiny = ROUNDING * (1 + np.abs(z).max(initial=0.0))
        return self._split(np.where(np.abs(z) <= tiny, 0.0, z))

    def improve(
        self,
        run: Run,
        x: np.ndarray,
        y: np.ndarray,
        multipliers: np.ndarray,
        looks_further: bool = True,
    ) -> float:
        """Walk from piece to piece, starting where the point lies; the upper objective reached.

        ``looks_further``: whether to search for a piece where the point lies in none.
        """
        start = self.join(x, y, multipliers)
        pieces = self.qp.pieces
        first = pieces.round(start, pieces.free_sides).tobytes()
        if first in self._reached:
            return self._reached[first]
        result = solve_locally(self.qp, start, deadline=run.deadline, looks_further=looks_further)
        run.evaluations += result.nodes
        self._reached[first] = np.inf
        if result.z is None:
            return np.inf
        x, y, _ = self.split(result.z)
        candidate = run.propose(x, y, "pieces")
        if run.is_acceptable(candidate):
            self._reached[first] = candidate.value
            if self.best is None or result.value < self.qp.objective(self.best):
                self.best = result.z
        run.step(x=candidate.x, value=candidate.value, gap=candidate.gap)
        return self._reached[first]


def exact_pieces(run: Run) -> ExactPieces:
    """The pieces of a run's problem; the parts of a method share them, and where walks have ended."""
    return run.once(ExactPieces, lambda: ExactPieces(run))


def improve_by_pieces(run: Run, x: np.ndarray, y: np.ndarray, *, max_rounds: int = 40) -> Candidate:
    """Trust-region descent: model the KKT conditions around a point, solve, answer below, repeat.

    Every accepted point carries an exact answer of the lower level, so the walk stays on
    bilevel feasible points as soon as the upper constraints hold.
    """
    model = run.model
    current = answer_below(run, x, y)
    if not model.has_smooth_kkt or is_large(model):
        return current
    weight = 10.0 * (1 + np.abs(model.f_grad(current.x, current.y, run.p)).max(initial=0))
    radius = 1.0 + np.abs(current.x).max(initial=0)
    curvature = None
    rejected = np.inf  # the smallest radius whose step did not pay, from the current point
    for _ in range(max_rounds):
        run.check_limits()
        step = _solve_model(run, current, radius, curvature)
        if step is None:
            if radius > 1e6 or 10.0 * radius >= rejected:
                break
            radius *= 10.0
            continue
        trial = answer_below(run, current.x + step.dx, current.y + step.dy, is_chosen_by_upper=True)
        decrease = _merit(run, current, weight) - _merit(run, trial, weight)
        predicted = step.decrease + weight * _upper_violation(run, current.x, current.y)
        run.step(x=trial.x, value=trial.value, gap=trial.gap)
        size = max(np.abs(step.dx).max(initial=0), np.abs(step.dy).max(initial=0))
        small = 1e-9 * (1 + np.abs(current.x).max(initial=0))
        if decrease >= 0.1 * predicted and decrease > 0:
            current, rejected = trial, np.inf
            if decrease > 0.7 * predicted:
                radius = max(radius, 3 * size)
            curvature = _curvature(run, current, step)
        else:
            rejected, radius = radius, min(radius, size) * 0.25
        if predicted <= 1e-12 * (1 + abs(current.value)) or min(radius, size) < small:
            break
    return current


@dataclasses.dataclass(frozen=True)
class _Step:
    dx: np.ndarray
    dy: np.ndarray
    multipliers: np.ndarray
    decrease: float  # promised by the model
    dual_eq: np.ndarray | None
    dual_in: np.ndarray | None


def _curvature(run: Run, current: Candidate, step: _Step) -> np.ndarray | None:
    """Hessian of the KKT reformulation's Lagrangian, with the multipliers of the last model."""
    model = run.model
    if step.dual_eq is None or step.dual_in is None:
        return None
    n_y, n_in, n_eq = model.y.size, len(model.lower_in), len(model.lower_eq)
    n_upper, n_upper_eq = len(model.upper_in), len(model.upper_eq)
    weights = KktWeights(
        own=step.multipliers,
        upper=(step.dual_in[n_in : n_in + n_upper], step.dual_eq[n_y + n_eq :][:n_upper_eq]),
        lower=(step.dual_in[:n_in], step.dual_eq[n_y : n_y + n_eq]),
        stationarity=step.dual_eq[:n_y],
    )
    return np.asarray(model.kkt_hessian.matrix(current.x, current.y, run.p, weights).toarray())


def answer_below(
    run: Run, x: np.ndarray, y: np.ndarray, *, is_chosen_by_upper: bool = False
) -> Candidate:
    """The best answer at x for the upper level: among the lower minimisers, the one it likes best.

    A y that the upper level has chosen already is kept if it is a lower minimiser.
    """
    proposed = run.measure(x, y, "pieces")
    is_minimiser = run.is_acceptable(proposed) and proposed.gap <= VERY_SMALL_GAP
    if is_minimiser:
        run.keep(proposed)
        if is_chosen_by_upper:
            return proposed
    answer = run.model.lower_program.solve(proposed.x, run.p)
    if not is_minimiser and not has_one_minimiser(run, proposed.x, answer):
        run.keep(proposed)  # else y only uses up what the tolerance leaves it
    if not answer.status.has_point:
        return proposed
    best = run.propose(x, answer.y, "lower minimiser")
    chosen = choose_optimistically(run, proposed.x)
    if chosen is not None and _is_better(run, chosen, best):
        best = chosen
    return proposed if proposed in run.candidates and _is_better(run, proposed, best) else best


def _is_better(run: Run, one: Candidate, other: Candidate) -> bool:
    if run.is_acceptable(one) and run.is_acceptable(other):
        return one.cautious_value < other.cautious_value
    return one.error < other.error


def choose_optimistically(run: Run, x: np.ndarray) -> Candidate | None:
    """Minimise the upper objective among the lower minimisers at x; None when there is one only."""
    chosen = optimistic_candidate(run, x)
    if chosen is not None:
        run.keep(chosen)
    return chosen


def optimistic_candidate(run: Run, x: np.ndarray) -> Candidate | None:
    """The same, measured but not kept."""
    model = run.model
    answer = model.lower_program.solve(x, run.p)
    if not answer.status.has_point or model.is_strictly_convex_below():
        return None
    if is_only_minimiser(model, x, run.p, answer):
        return None
    try:
        chosen = model.optimistic_choice.solve(x, run.p, answer, slack=1e-3 * run.tolerance)
    except NonconvexLowerError:
        return None
    if not chosen.status.has_point:
        return None
    return run.measure(x, chosen.y, "optimistic choice")


def has_one_minimiser(run: Run, x: np.ndarray, answer: Answer | None = None) -> bool:
    """Whether the lower level leaves no choice at x, and no row above asks for another y nearby."""
    model = run.model
    if model.is_strictly_convex_below():
        return True
    if model.coupling_constraints:
        return False
    answer = model.lower_program.solve(x, run.p) if answer is None else answer
    return answer.status.has_point and is_only_minimiser(model, x, run.p, answer)


def is_only_minimiser(model: Model, x: np.ndarray, p: np.ndarray, answer: Answer) -> bool:
    """Whether curvature and pressing rows of a smooth lower level hold y in every direction at x.

    The Lagrangian of a convex program is constant from one minimiser to another, and so is each row
    with a multiplier, so that there H d = 0 and a'd = 0. Where only d = 0 is left, there is no choice.
    False: there may be one, or the test would cost too much.
    """
    y, program = answer.y, model.lower_program
    is_exact = program.is_smooth and answer.status is InnerStatus.OPTIMAL
    if program.kind not in ("LP", "QP") and not is_exact:
        return False
    if not model.has_smooth_kkt:
        return False
    multipliers = model.split_duals(answer.duals)
    n_in = len(model.lower_in)
    pressing = multipliers[:n_in] > PRESSING * (1 + np.abs(multipliers).max(initial=0))
    inside, on = (rows.linearise(x, y, p).in_y for rows in (model.lower_in, model.lower_eq))
    curved = model.lower_hessian(x, y, p, multipliers)[1]
    if not limits.UNIQUENESS_TEST.allows(y.size):
        return _holds_all(sp.csr_array(sp.vstack([sp.csr_array(inside)[pressing], on])), curved)
    fixed = np.vstack([inside.toarray()[pressing], on.toarray()])
    lengths = np.linalg.norm(fixed, axis=1)
    fixed = fixed[lengths > 0] / lengths[lengths > 0, None]
    curved = curved.toarray()
    if len(fixed) + np.count_nonzero(curved.any(axis=1)) < y.size:  # too few to hold all directions
        return False
    held = curved / max(np.abs(curved).max(initial=0), TINY) + fixed.T @ fixed
    if not np.all(np.isfinite(held)):
        return False
    return bool(np.linalg.eigvalsh((held + held.T) / 2).min(initial=np.inf) > HELD)


def _holds_all(fixed: sp.csr_array, curved: sp.csr_array) -> bool:
    """The same of a large lower level: whether a sparse factor shows no direction that is not held."""
    lengths = np.sqrt(np.asarray(fixed.multiply(fixed).sum(axis=1)).ravel())
    fixed = sp.diags_array(1 / lengths[lengths > 0]) @ fixed[lengths > 0]
    curved = sp.csr_array(curved)
    if fixed.shape[0] + np.count_nonzero(np.diff(curved.indptr)) < curved.shape[0]:
        return False
    held = curved / max(np.abs(curved.data).max(initial=0), TINY) + fixed.T @ fixed
    if not np.all(np.isfinite(held.data)):
        return False
    return is_positive_semidefinite(sp.csc_array(held - HELD * sp.eye_array(held.shape[0])))


def size_of(model: Model) -> int:
    """Unknowns of the KKT conditions."""
    return model.x.size + model.lower_size


def _solve_model(
    run: Run, current: Candidate, radius: float, curvature: np.ndarray | None
) -> _Step | None:
    """Step in x and y, and the decrease that the model promises."""
    model, p = run.model, run.p
    answer = model.lower_program.solve(current.x, p)
    if not answer.status.has_point:
        return None
    multipliers = model.split_duals(answer.duals)
    if curvature is None:
        curvature = model.f_hessian(current.x, current.y, p)
    if not np.all(np.isfinite(curvature)):
        return None
    pieces = model_pieces(
        model,
        current.x,
        current.y,
        p,
        multipliers,
        curvature=positive_part(curvature),
        radius=radius,
    )
    if not pieces.is_finite:  # a kink, such as the apex of a norm written as a root
        return None
    result = _solve_pieces(run, pieces, multipliers)
    run.evaluations += result.nodes
    if result.z is None:
        return None
    dx, dy, following = pieces.split(result.z)
    dual_eq = dual_in = None
    if not model.is_linear_quadratic and model.conditions.multipliers_are_unknowns:
        dual_eq, dual_in = piece_multipliers(pieces.qp, result.z)
    return _Step(dx, dy, following, -(result.value + pieces.constant), dual_eq, dual_in)


def _solve_pieces(run: Run, pieces: PieceModel, multipliers: np.ndarray) -> ComplementarityResult:
    n_pairs = len(pieces.qp.rows)
    here = pieces.join(np.zeros(pieces.n_x), np.zeros(pieces.n_y), multipliers)
    if limits.TREE_PAIRS_OF_A_STEP.allows(n_pairs):
        return solve_globally(
            pieces.qp,
            incumbent=here,
            node_limit=affordable_nodes(pieces.qp, NODES_OF_A_STEP),
            deadline=run.deadline,
        )
    return solve_locally(pieces.qp, here, deadline=run.deadline)


def _upper_violation(run: Run, x: np.ndarray, y: np.ndarray) -> float:
    model, p = run.model, run.p
    return float(
        model.upper_in.values(x, y, p).max(initial=0)
        + np.abs(model.upper_eq.values(x, y, p)).max(initial=0)
    )


def _merit(run: Run, candidate: Candidate, weight: float) -> float:
    if candidate.gap > run.tolerance:
        return np.inf
    return candidate.value + weight * _upper_violation(run, candidate.x, candidate.y)


def is_large(model: Model) -> bool:
    """Whether one convex program over the KKT pieces would cost seconds."""
    return not limits.PIECE_UNKNOWNS.allows(size_of(model))
