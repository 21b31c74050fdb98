"""What the upper level gets when the lower level does not choose in its favour.

The solve takes, among several lower minimisers, the one that suits the upper level. Here the worst
one is looked for: the largest f (smallest, when the upper level maximises) over all lower minimisers
at the same x, by a convex program where it is one and by branch and bound elsewhere. The follower does
not care about upper constraints either, so those that some minimiser would violate are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from blomodel.compiler.passes.polynomial import polynomial
from blomodel.declare.point import read_level
from blomodel.errors import LowerLevelError, ModelError, NonconvexLowerError
from blomodel.methods.run.starts import spread
from blomodel.model.global_lower import GlobalLower
from blomodel.model.minimisers import ChoiceAmongMinimisers
from blomodel.model.multistart import CORNERS
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.branching.scip import is_installed
from blomodel.status import Status
from blomodel.studies.worst_minimiser import (
    FEW_NODES,
    MOST_NODES,
    Minimisers,
    Worst,
    judged,
    search_nonconvex,
    settled_from,
)
from blomodel.text.layout import array, counted, number

if TYPE_CHECKING:
    from blomodel.model.model import Model
    from blomodel.model.rows import Rows
    from blomodel.problem import BilevelProblem

SLACK = 1e-9  # relative gap within which a point counts as a minimiser where they form no face
WIDTH = 1e-6  # minimisers that differ by less, relative to their size, count as one


@dataclass(frozen=True)
class Pessimistic:
    """The upper objective under the best and the worst choice among the lower minimisers at x.

    Attributes
    ----------
    x : dict
        From upper variable to its value.
    optimistic, pessimistic : float
        In the user's sense. ``pessimistic`` is infinite when a minimiser makes f as bad as it likes.
    is_proven : bool
        Whether no lower minimiser is worse than ``y_worst`` by more than a relative gap of 1e-4;
        otherwise ``pessimistic`` is the worst that was found.
    bound : float or None
        No lower minimiser at x gives a worse value than this; None: not known.
    best_bound : float or None
        No x at all has a better pessimistic value: the bound of the optimistic problem, where a solve
        has found one.
    lower_is_unique : bool or None
        Whether there is only one minimiser; None: not known.
    y_worst : dict
        From lower variable to its value under the worst choice; empty when there is none.
    violated : dict
        From upper constraint to the largest violation that a lower minimiser may cause.
    reason : str
        How the worst choice was found.
    """

    x: dict[cp.Variable, np.ndarray] = field(repr=False)
    optimistic: float
    pessimistic: float
    is_proven: bool
    bound: float | None
    lower_is_unique: bool | None
    y_worst: dict[cp.Variable, np.ndarray] = field(repr=False)
    violated: dict[str, float]
    reason: str
    best_bound: float | None = None

    @property
    def gap(self) -> float | None:
        """Relative difference of ``pessimistic`` and ``bound``; None: no bound is known."""
        if self.bound is None:
            return None
        if not np.isfinite(self.pessimistic):
            return 0.0
        return abs(self.bound - self.pessimistic) / (1 + abs(self.pessimistic))

    @property
    def status(self) -> Status:
        """What is claimed of ``pessimistic`` at x.

        ``optimal``: it is the worst choice, proven by ``bound``. ``feasible``: some minimiser leads to
        it, others may be worse. ``unbounded``: it can be as bad as one likes.
        """
        if not np.isfinite(self.pessimistic):
            return Status.UNBOUNDED
        return Status.OPTIMAL if self.is_proven else Status.FEASIBLE

    @property
    def bracket(self) -> tuple[float, float]:
        """(optimistic, pessimistic): what the upper level gets lies between these."""
        return self.optimistic, self.pessimistic

    def __str__(self) -> str:
        unique = {True: "yes", False: "no", None: "not known"}[self.lower_is_unique]
        lines = [
            f"optimistic            {number(self.optimistic, 10, zero=1e-9)}",
            f"pessimistic           {self.pessimistic:.10g}   ({self.reason})",
            f"lower answer unique   {unique}",
        ]
        if self.bound is not None and not self.is_proven:
            lines.append(f"never worse than      {self.bound:.10g}   (gap {self.gap:.1e})")
        if self.best_bound is not None:
            lines.append(f"no x is better than   {self.best_bound:.10g}")
        for constraint, amount in self.violated.items():
            lines.append(f"may be violated       {constraint} by {amount:.3g}")
        return "\n".join(lines)


class _Choices:
    """What can be looked for among the lower minimisers; compiled once for any number of x."""

    along: ChoiceAmongMinimisers
    worst: ChoiceAmongMinimisers
    nearest: ChoiceAmongMinimisers

    def __init__(self, model: Model) -> None:
        direction = cp.Parameter(model.y.size, name="direction")
        flat = cp.hstack([cp.vec(leaf, order="F") for leaf in model.y.leaves])
        self.along = ChoiceAmongMinimisers(model, direction @ flat, parameters=[direction])
        self.worst = ChoiceAmongMinimisers(model, -model.f_expression)
        target = cp.Parameter(model.y.size, name="target")
        self.nearest = ChoiceAmongMinimisers(model, cp.sum_squares(flat - target), parameters=[target])


def evaluate_pessimistically(
    problem: BilevelProblem,
    x: np.ndarray,
    known_value: float = np.inf,
    choices: _Choices | None = None,
    nodes: int = MOST_NODES,
) -> Pessimistic:
    """Best and worst choice among the lower minimisers at x.

    ``known_value`` is an upper objective, to be minimised, that some minimiser is known to reach.
    ``nodes`` is the effort of branch and bound.
    """
    model, p = problem.plain_model, problem.parameter_values()
    answer, is_sure = model.solve_lower(x, p, np.zeros(model.y.size), accuracy=1e-9)
    if not answer.status.has_point:
        raise LowerLevelError(
            f"The lower level has no answer at x = {array(x)} "
            f"({answer.status.message.rstrip('.').lower()}), so there is none to be pessimistic about.",
            x,
        )
    if not is_sure or model.integer_y.any() or answer.solver == CORNERS:
        best, worst, unique = search_nonconvex(model, x, p, answer, is_sure, nodes)
        points = _worst_of_rows(model, x, p, answer, curved_only=False)
        violated = _violations_at(problem, x, p, [answer.y, worst.y, *points])
    else:
        answers = _Answers(model, x, p, answer, choices or _Choices(model), nodes)
        best, worst = answers.best(), answers.worst
        unique = answers.is_unique
        violated = _violated_constraints(problem, answers)
    return Pessimistic(
        x=problem.levels.x.unpack(x.copy()),
        optimistic=problem.sign * min(best, known_value),
        pessimistic=problem.sign * worst.value,
        is_proven=worst.is_proven,
        bound=None if worst.bound is None else problem.sign * worst.bound,
        lower_is_unique=unique,
        y_worst={} if worst.y is None else problem.levels.y.unpack(worst.y.copy()),
        violated=violated,
        reason=worst.reason,
    )


def look_pessimistically(problem: BilevelProblem, x: object, search: int) -> Pessimistic:
    """See BilevelProblem.pessimistic."""
    known_value = np.inf
    if x is None:
        if problem.solution is None:
            problem.solve()
        if problem.certificate is None or not problem.certificate.accepted:
            raise ModelError(
                f"The problem has no answer to look at (status {problem.status}); pass x=... to look "
                "at a decision of your own."
            )
        known_value = problem.sign * problem.certificate.objective
        x = {leaf: leaf.value for leaf in problem.levels.upper}
    problem.check_data()
    point = read_level(problem.levels, "upper", x, "pessimistic")
    if search > 0:
        return search_pessimistically(problem, point, search)
    return evaluate_pessimistically(problem, point, known_value)


def search_pessimistically(problem: BilevelProblem, first: np.ndarray, count: int) -> Pessimistic:
    """The best pessimistic value among many x: spread over the bounds, then closer and closer.

    An x counts only when every lower minimiser found there keeps the upper constraints. A best x need
    not exist, since the worst choice may jump; a bound of the optimistic problem bounds this one too.
    """
    model, choices = problem.plain_model, _Choices(problem.plain_model)
    low, high = model.bounds(problem.parameter_values())
    best: Pessimistic | None = None
    center, tried = first, 0
    seen: set[bytes] = set()
    reach = np.where(np.isfinite(high - low), (high - low) / 2, 1 + np.abs(first))
    for shrink in (1.0, 0.1, 0.01, 0.001):
        # A good x often lies right beside the optimistic answer, at which the follower is about to
        # turn, so that place is looked at too when the best x so far lies elsewhere.
        middles = [center] if center is first else [first, center]
        points = [center]
        for middle in middles:
            span = reach * shrink if shrink < 1 else np.full(len(reach), np.inf)
            around = np.maximum(low, middle - span), np.minimum(high, middle + span)
            points += _points(around, middle, count // (4 * len(middles)))
        for x in points:
            x = np.where(model.integer_x, np.round(x), x)
            if x.tobytes() in seen:
                continue
            seen.add(x.tobytes())
            tried += 1
            try:
                value = evaluate_pessimistically(problem, x, choices=choices, nodes=FEW_NODES)
            except LowerLevelError:
                continue
            if not value.violated and (
                best is None or problem.sign * (value.pessimistic - best.pessimistic) < 0
            ):
                best, center = value, x
    if best is None:
        raise ModelError(
            f"At each of {tried} x that were tried some lower minimiser violates an upper constraint, "
            "or there is none; problem.pessimistic() without search= names the constraints."
        )
    certificate = problem.certificate
    least = None if certificate is None or certificate.bound is None else float(certificate.bound)
    reason = f"{best.reason}; x is the best of {tried} that were tried"
    if least is not None:
        gap = abs(best.pessimistic - least) / (1 + abs(best.pessimistic))
        reason += f", and no x is better by more than {gap:.1e} (relative)"
    return replace(best, reason=reason, best_bound=least)


def _points(bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray, count: int) -> list[np.ndarray]:
    """Equally spaced points for one x within bounds, else spread out."""
    low, high = bounds
    if center.size == 1 and np.all(np.isfinite(high - low)):
        return [np.array([value]) for value in np.linspace(low[0], high[0], max(count, 2))]
    return spread(bounds, center, count, seed=0)


class _Answers:
    """The lower minimisers of a convex lower level at one x."""

    def __init__(
        self,
        model: Model,
        x: np.ndarray,
        p: np.ndarray,
        answer: Answer,
        choices: _Choices,
        nodes: int = MOST_NODES,
    ) -> None:
        self.model, self.x, self.p, self.answer = model, x, p, answer
        self.choices, self.nodes = choices, nodes

    def f(self, y: np.ndarray) -> float:
        """The upper objective, as something to minimise."""
        return float(self.model.f(self.x, y, self.p)[0])

    def farthest(self, direction: np.ndarray) -> np.ndarray | None:
        """The minimiser that lies farthest in a direction; None when there is no end."""
        found = self.choices.along.solve(self.x, self.p, self.answer, slack=SLACK, values=-direction)
        return found.y if found.status.has_point else None

    @cached_property
    def ends(self) -> list[np.ndarray | None]:
        """For each entry of y in turn: minimisers at which it is smallest, and largest."""
        if self.model.is_strictly_convex_below():
            return [self.answer.y] * (2 * self.answer.y.size)
        units = np.eye(self.answer.y.size)
        return [self.farthest(sign * unit) for unit in units for sign in (-1.0, 1.0)]

    @cached_property
    def ranges(self) -> np.ndarray:
        """Smallest and largest value of each entry of y, one row each."""
        values = np.empty((self.answer.y.size, 2))
        for k, end in enumerate(self.ends):
            entry, side = divmod(k, 2)
            values[entry, side] = (-np.inf, np.inf)[side] if end is None else end[entry]
        return values

    @property
    def free(self) -> np.ndarray:
        """The entries of y that differ from one minimiser to another."""
        width = self.ranges[:, 1] - self.ranges[:, 0]
        return np.flatnonzero(width > WIDTH * (1 + np.abs(self.answer.y).max(initial=0)))

    @property
    def is_unique(self) -> bool | None:
        """Whether there is one minimiser; not known where a level set stands for the minimisers."""
        if self.choices.along.is_face:
            return len(self.free) == 0
        # A level set is a little wider than the minimisers, by the root of its slack.
        width = self.ranges[:, 1] - self.ranges[:, 0]
        scale = 1 + np.abs(self.answer.y).max(initial=0)
        return False if np.any(width > 100 * np.sqrt(SLACK) * scale) else None

    def best(self) -> float:
        """Smallest f over the minimisers that keep the upper constraints, as far as it is found."""
        try:
            found = self.model.optimistic_choice.solve(self.x, self.p, self.answer, slack=SLACK)
            return self.f(found.y) if found.status.has_point else self.f(self.answer.y)
        except NonconvexLowerError:
            pass
        if is_installed():
            chosen = GlobalLower(self.model).choose(self.x, self.p, self.answer.value)
            if chosen is not None:
                near = self._nearest(chosen)
                return self.f(chosen if near is None else near)
        return min(self.f(end) for end in (*self.ends, self.answer.y) if end is not None)

    def _nearest(self, y: np.ndarray) -> np.ndarray | None:
        """The minimiser nearest to a point that is one but for a solver's tolerance."""
        found = self.choices.nearest.solve(self.x, self.p, self.answer, slack=SLACK, values=y)
        return found.y if found.status.has_point else None

    @cached_property
    def worst(self) -> Worst:
        """Largest f over the minimisers."""
        if self.is_unique:
            value = self.f(self.answer.y)
            return Worst(value, self.answer.y, value, "the lower answer is unique")
        try:
            found = self.choices.worst.solve(self.x, self.p, self.answer, slack=SLACK)
        except NonconvexLowerError:
            return self._climb()
        if found.status is InnerStatus.UNBOUNDED:
            return Worst(np.inf, None, np.inf, "f grows without limit over the lower minimisers")
        if not found.status.has_point:
            return self._climb()
        value = self.f(found.y)
        reason = "proven: f is concave in y, so this is a convex problem"
        return Worst(value, found.y, value, reason)

    def _climb(self) -> Worst:
        """Largest f found by going to the end of the set along the slope, from many starts."""
        starts = [end for end in (*self.ends, self.answer.y) if end is not None]
        rng = np.random.default_rng(0)
        for _ in range(10):
            end = self.farthest(rng.standard_normal(self.answer.y.size))
            starts += [] if end is None else [end]
        top = max((self._ascend(start) for start in starts), key=self.f)
        minimisers = Minimisers(self.model, self.x, self.p, self.answer.value, self.nodes)
        bound, worse = minimisers.largest(self.model.f, known=self.f(top))
        if worse is not None:
            near = self._nearest(worse)
            top = max(top, top if near is None else self._ascend(near), key=self.f)
        return judged(self.f(top), top, bound, f"the worst of {counted(len(starts), 'ascent')}")

    def _ascend(self, y: np.ndarray, max_steps: int = 50) -> np.ndarray:
        fractions = np.linspace(0.05, 1.0, 20)
        for _ in range(max_steps):
            end = self.farthest(self.model.f_grad(self.x, y, self.p)[self.model.x.size :])
            if end is None:
                return y
            trial = max((y + t * (end - y) for t in fractions), key=self.f)
            if not self.f(trial) > self.f(y) + 1e-12 * (1 + abs(self.f(y))):
                return y
            y = trial
        return y


def _violated_constraints(problem: BilevelProblem, answers: _Answers) -> dict[str, float]:
    """Upper constraints that some lower minimiser breaks, with the largest violation found."""
    model, x, p = problem.plain_model, answers.x, answers.p
    points = [*answers.ends, answers.worst.y, answers.answer.y]
    for rows in (model.upper_in, model.upper_eq):
        for slope in _slopes_of_affine_rows(rows, answers):
            for direction in (slope, -slope) if rows is model.upper_eq else (slope,):
                points.append(answers.farthest(direction))
    if not answers.is_unique:
        points += _worst_of_rows(model, x, p, answers.answer, curved_only=True)
    return _violations_at(problem, x, p, points)


def _worst_of_rows(
    model: Model, x: np.ndarray, p: np.ndarray, answer: Answer, *, curved_only: bool
) -> list[np.ndarray]:
    """Minimisers at which the upper rows that hold y are largest, by branch and bound."""
    minimisers = Minimisers(model, x, p, answer.value, FEW_NODES)
    points = []
    for rows, signs in ((model.upper_in, (1.0,)), (model.upper_eq, (1.0, -1.0))):
        if rows.tape is None or rows.spectral:
            continue
        degree = polynomial(rows.tape, variable="y", coefficient="x").degree
        for row in np.flatnonzero(degree > (1 if curved_only else 0)):
            for sign in signs:
                _, y = minimisers.largest(rows.tape, int(row), sign)
                if y is not None and not model.integer_y.any() and not model.is_convex_below:
                    points += settled_from(model, x, p, y, answer.value)
                elif y is not None:
                    points.append(y)
    return points


def _slopes_of_affine_rows(rows: Rows, answers: _Answers) -> list[np.ndarray]:
    """Slopes in y of the rows that hold y; an affine row is worst at the end along its slope."""
    if rows.tape is None or len(answers.free) == 0:
        return []
    degree = polynomial(rows.tape, variable="y", coefficient="x").degree
    matrix = rows.linearise(answers.x, answers.answer.y, answers.p).in_y.toarray()
    return [matrix[k] for k in range(len(degree)) if degree[k] >= 1 and np.any(matrix[k] != 0)]


def _violations_at(
    problem: BilevelProblem, x: np.ndarray, p: np.ndarray, points: Sequence[np.ndarray | None]
) -> dict[str, float]:
    """The largest violation of each upper constraint over several y."""
    model = problem.plain_model
    violated: dict[str, float] = {}
    for y in points:
        if y is None:
            continue
        scale = 1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
        for rows, values in (
            (model.upper_in, model.upper_in.values(x, y, p)),
            (model.upper_eq, np.abs(model.upper_eq.values(x, y, p))),
        ):
            for label, value in zip(rows.labels, values, strict=True):
                if value > 1e-6 * scale:
                    violated[label] = max(violated.get(label, 0.0), float(value))
    return violated
