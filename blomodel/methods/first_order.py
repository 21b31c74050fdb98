"""What every first-order method needs before its loop: oracle, sets, a start, default steps."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.analysis.levels import shorten
from blomodel.analysis.prox_terms import SplitObjective, split_objective
from blomodel.analysis.sets import SimpleSet, simple_set
from blomodel.compiler.derivatives import gradient
from blomodel.compiler.model import Model
from blomodel.compiler.oracle import LoopTape, Oracle, loop_tape
from blomodel.compiler.tape import Tape
from blomodel.errors import ModelError
from blomodel.inner.multistart import MultistartLower
from blomodel.kernels import moves
from blomodel.kernels.projection import build_set
from blomodel.kernels.projection import project as compiled_project
from blomodel.kernels.prox import build_penalty
from blomodel.methods.constants import Constants, estimate_constants
from blomodel.methods.directions import (
    Direction,
    Term,
    direction,
    point_in,
    result_in,
    shared_directions,
    slopes_of,
)
from blomodel.methods.pieces import optimistic_candidate
from blomodel.methods.run import Run
from blomodel.methods.slices import run_in_slices

BY_SOLVER = -1  # in the place of a set's kind: projected onto by a QP solver
NEARLY = 1e-3  # share of the first distance to the least value from which it may be reached
Sums = tuple[Sequence[Sequence[Term]], Sequence[str]]
FAR = 1e6  # an iterate this much larger than the start, relative, has run away


@dataclass
class FirstOrder:
    """A problem as the compiled loops see it.

    Attributes
    ----------
    oracle : Oracle
        Derivatives of f and of the smooth part of g (of all of g where no prox is used).
    split : SplitObjective or None
        The part of g that a prox handles; None where the method takes g as it is.
    x_set, y_set : SimpleSet
    x, y : array
        The start, inside the sets.
    """

    run: Run
    oracle: Oracle
    split: SplitObjective | None
    x_set: SimpleSet
    y_set: SimpleSet
    x: np.ndarray
    y: np.ndarray
    _taken: list[tuple[Direction, int]] = field(default_factory=list, repr=False)

    @property
    def n_evaluations(self) -> int:
        """Gradients that the loops have taken along the directions made here."""
        return sum(n_gradients * slopes_of(direction) for direction, n_gradients in self._taken)

    @cached_property
    def constants(self) -> Constants:
        """Curvatures at the start and around it."""
        return estimate_constants(self.oracle, self.x, self.y, self.run.seed, place=self.place)

    def constants_at(self, x: np.ndarray, y: np.ndarray) -> Constants:
        """Curvatures seen so far and at one more point, where an iteration stands now."""
        here = estimate_constants(self.oracle, x, y, self.run.seed, n_points=1)
        self.constants = self.constants.merged(here)
        return self.constants

    @property
    def is_compiled(self) -> bool:
        """Whether both sets have projections that compiled loops can call."""
        return self.x_set.spec is not None and self.y_set.spec is not None

    def place(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest points of X and Y."""
        return self.x_set.project(x), self.y_set.project(y)

    def work(self, rows: int = 4) -> np.ndarray:
        """Scratch rows, each long enough for x and for y."""
        return np.zeros((rows, max(self.oracle.n_x, self.oracle.n_y, 1)))

    # The tapes from which directions are made

    def f_slope(self, block: str) -> Tape:
        """Gradient of f in x or y."""
        return gradient(self.run.model.f, (block,))

    def g_slope(self, block: str) -> Tape:
        """Gradient of g in x (all of g), or of its smooth part in y."""
        return gradient(self.run.model.g if block == "x" else self.oracle.g_tape, (block,))

    def direction(
        self, *parts: Sequence[Term], points: Sequence[str] = ("x", "y")
    ) -> Direction:
        """Sums of terms as one tape; every point but x has the size of y."""
        sizes = {name: self.oracle.n_x if name == "x" else self.oracle.n_y for name in points}
        made = direction(parts, sizes, self.run.p)
        self._taken.append((made, sum(term.n_gradients for terms in parts for term in terms)))
        return made

    def shared_directions(
        self,
        *wanted: tuple[Sequence[Term], Sequence[str]],
        points: dict[str, np.ndarray],
    ) -> list[Direction]:
        """One sum of terms each, with the order of its points, on one workspace that holds the points.

        The last one is that of the weights of the nonsmooth part; some other where there is none.
        """
        sums: list[Sums] = [([terms], order) for terms, order in wanted]
        if self.split is not None and self.split.n_weights:
            sums.append(([[Term(self.split.weights)]], tuple(points)))
        found = self.shared_sums(*sums, points=points, n_slopes=len(wanted))
        return found if len(found) > len(wanted) else [*found, found[-1]]

    def shared_sums(
        self, *sums: Sums, points: dict[str, np.ndarray], n_slopes: int | None = None
    ) -> list[Direction]:
        """Several sums each, one after another in the slope, with the order of the points.

        The first ``n_slopes``, all by default, count as evaluations of gradients.
        """
        sizes = {name: value.size for name, value in points.items()}
        found = shared_directions(sums, sizes, self.run.p)
        for made, (parts, _) in zip(found[:n_slopes], sums, strict=False):
            self._taken.append((made, sum(term.n_gradients for terms in parts for term in terms)))
        for position, value in enumerate(points.values(), start=1):
            point_in(found[0], position)[:] = value
        return found

    @property
    def penalty(self) -> Any:
        """The nonsmooth part of g as the prox takes it."""
        return build_penalty(()) if self.split is None else self.split.spec

    @cached_property
    def weights(self) -> LoopTape:
        """The weights of the nonsmooth part as a tape of x."""
        return self.oracle.f if self.split is None else loop_tape(self.split.weights, self.run.p)

    def amounts(self) -> np.ndarray:
        """Room for the weights; empty where there is no nonsmooth part."""
        return np.zeros(0 if self.split is None else self.split.n_weights)

    def amounts_in(self, direction: Direction) -> np.ndarray:
        """Where the direction of the weights leaves them; empty where there is no nonsmooth part."""
        if self.split is None or not self.split.n_weights:
            return np.zeros(0)
        return result_in(direction)

    def loop(self, loop: Any) -> Callable[..., float]:
        """The compiled loop; interpreted, with projections by a QP solver, where a set needs one."""
        return loop if self.is_compiled else _interpreted(loop, (self.x_set, self.y_set))

    @property
    def x_spec(self) -> Any:
        """X as its loop takes it."""
        return _stand_in(0) if self.x_set.spec is None else self.x_set.spec

    @property
    def y_spec(self) -> Any:
        """Y as its loop takes it."""
        return _stand_in(1) if self.y_set.spec is None else self.y_set.spec


def set_up(run: Run, name: str, *, prox: bool = False) -> FirstOrder:
    """Oracle, sets and start for the method ``name``.

    Parameters
    ----------
    prox : bool
        Whether the method handles nonsmooth lower terms by a prox; the oracle then holds the smooth
        part of g only.
    """
    model = run.model
    _refuse_coupling(run, name)
    split = split_objective(model) if prox else None
    oracle = Oracle(model, run.p, None if split is None else split.smooth)
    x_set, y_set = simple_set(model, "x", run.p), simple_set(model, "y", run.p)
    x, y = first_point(run)
    return FirstOrder(run, oracle, split, x_set, y_set, x_set.project(x), y_set.project(y))


def first_point(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The user's start; what is missing lies in the middle of its bounds, or at 0."""
    model = run.model
    x = _middle(*model.bounds(run.p)) if run.start is None else run.start[0].copy()
    if run.start is not None and run.start[1] is not None:
        return x, run.start[1].copy()
    return x, _middle(*model.y_bounds)


def _middle(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    closed = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        return np.where(closed, (low + high) / 2, np.clip(0.0, low, high))


def _refuse_coupling(run: Run, name: str) -> None:
    for level, constraint in _coupled_constraints(run.model):
        raise ModelError(
            f"{name}: the constraint {shorten(constraint)} of the {level} level holds variables "
            "of the other level, but this method needs x in a set X and y in a set Y, each on "
            "its own; try blocc or auto."
        )


def is_coupled(model: Model) -> bool:
    """Whether a constraint of one level holds variables of the other."""
    return next(_coupled_constraints(model), None) is not None


def _coupled_constraints(model: Model) -> Iterator[tuple[str, Constraint]]:
    for level, constraints, others in (
        ("lower", model.lower_constraints, model.x.leaves),
        ("upper", model.upper_constraints, model.y.leaves),
    ):
        foreign = {leaf.id for leaf in others}
        for constraint in constraints:
            if any(variable.id in foreign for variable in constraint.variables()):
                yield level, constraint


def _stand_in(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What loops carry around for a set without a formula: its number, where others have a kind."""
    return np.array([[BY_SOLVER, 0, 0, number]]), np.zeros(0), np.zeros(0)


def _interpreted(loop: Any, sets: tuple[SimpleSet, SimpleSet]) -> Callable[..., float]:
    """The same loop in plain Python: only its projections differ, and any SimpleSet will do."""

    def project(spec: Any, point: np.ndarray) -> None:
        if len(spec[0]) and spec[0][0, 0] == BY_SOLVER:
            point[:] = sets[spec[0][0, 3]].project(point)
        else:
            compiled_project(spec, point)

    own = {compiled_project: project, moves.descend: partial(_descend, project)}

    def plain(function: Any) -> Callable[..., float]:
        names = dict(function.__globals__)
        for used in function.__code__.co_names:
            kernel: Any = names.get(used)
            if not hasattr(kernel, "py_func"):
                continue
            if kernel in own:
                names[used] = own[kernel]
            elif _calls(kernel.py_func, own):
                names[used] = plain(kernel.py_func)
        copy: Callable[..., float] = types.FunctionType(function.__code__, names, function.__name__)
        return copy

    return plain(loop.py_func)


def _calls(function: Any, wanted: Collection[Any]) -> bool:
    """Whether a kernel calls one of the wanted ones, itself or through a kernel that it calls."""
    used = [function.__globals__.get(name) for name in function.__code__.co_names]
    kernels = [kernel for kernel in used if hasattr(kernel, "py_func")]
    return any(kernel in wanted or _calls(kernel.py_func, wanted) for kernel in kernels)


def _descend(
    project: Callable[[Any, np.ndarray], None],
    direction: Direction,
    step: float,
    penalty: Any,
    amounts: np.ndarray,
    point_set: Any,
    steps: int,
    tolerance: float,
    before: np.ndarray,
) -> float:
    """The descent of kernels/moves.py with any projection."""
    layout = direction[3]
    point = direction[2][layout[moves.POINT] :][: layout[moves.OUTPUT_SIZE]]
    moved = 0.0
    for _ in range(steps):
        start = point.copy()
        moves.descend(direction, step, penalty, amounts, build_set(()), 1, 0.0, before)
        project(point_set, point)
        moved = float(np.abs(point - start).max()) / step
        if tolerance > 0.0 and not moved > tolerance:
            break
    return moved


def penalty_stages(constants: Constants, first: float, last: float, factor: float = 10.0) -> list[float]:
    """Growing weights for g against f, from a small one that lets f choose the basin.

    ``first`` and ``last`` count in units of the curvature of f over that of g.
    """
    above, below = max(constants.f_yy, constants.f_xx), max(constants.g_yy, constants.g_xy)
    unit = above / below if above > 0 and below > 0 else 1.0
    unit = float(np.clip(unit, 1e-3, 1e3)) if np.isfinite(unit) else 1.0
    count = max(1, round(np.log(last / first) / np.log(factor)))
    return [unit * first * factor**k for k in range(count + 1)]


def run_stages(
    run: Run,
    loop: Callable[[int], float],
    *,
    stages: Sequence[float],
    begin: Callable[[float, bool], float],
    state: Sequence[np.ndarray],
    max_iterations: int,
    report: Callable[[], dict[str, float]],
) -> None:
    """Run a loop for one penalty weight after another, each from where the last one ended.

    It ends early at a bilevel feasible point at which f has its least value, as no weight leads on.

    Parameters
    ----------
    stages : sequence of float
        The weights.
    begin : callable
        Sets the loop to a weight, told whether it is the last; returns the residual to stop at.
    state : sequence of arrays
        What the loop moves; a stage that runs away is undone and left out.
    max_iterations : int
        Of each stage.
    """
    for number, weight in enumerate(stages):
        before = [array.copy() for array in state]
        reach = FAR * (1 + max((np.abs(array).max(initial=0) for array in before), default=0.0))
        tolerance = begin(weight, number == len(stages) - 1)

        def guarded(n: int, reach: float = reach) -> float:
            residual = loop(n)
            inside = all(np.abs(array).max(initial=0) <= reach for array in state)
            return residual if inside else float("nan")

        residual = run_in_slices(
            run, guarded, max_iterations=max_iterations, tolerance=tolerance, report=report
        )
        if not np.isfinite(residual):
            run.note(f"the iteration ran away with penalty weight {weight:g}; that weight was left out")
            for array, old in zip(state, before, strict=True):
                array[:] = old
        elif number < len(stages) - 1 and _is_settled(run):
            break


def _is_settled(run: Run) -> bool:
    """Whether f has its least value at one of the lower answers at the x that is watched.

    Where the lower level has many answers, a first-order method comes near the one that f likes best
    long before it is as accurate as the choice among the minimisers at the same x.
    """
    values = run.history.get("value")
    if run.watched is None or not values or not np.isfinite(run.least_value):
        return False
    x, y = run.watched
    value, first = float(run.model.f(x, y, run.p)[0]), values[0]
    if not value - run.least_value <= NEARLY * (first - run.least_value):
        return False
    if isinstance(run.model.lower_solver, MultistartLower):
        return False
    chosen = optimistic_candidate(run, x)
    # Near its least value f is flat: the square of the tolerance there is the tolerance in the point.
    small = run.tolerance**2 * (1 + abs(run.least_value))
    if chosen is None or not run.is_acceptable(chosen) or chosen.value > run.least_value + small:
        return False
    run.keep(chosen)
    return True


def propose_last(run: Run, x: np.ndarray, y: np.ndarray, source: str) -> None:
    """Leave the last point of a method, and its x with a lower minimiser."""
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        run.note(f"{source}: the iteration diverged; take smaller steps")
        return
    run.propose(x, y, source)
    answer, _ = run.model.solve_lower(x, run.p, y)
    if answer.status.has_point:
        run.propose(x, answer.y, f"{source}, lower minimiser at its x")
