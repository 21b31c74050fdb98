"""What every first-order method needs before its loop: oracle, sets, a start, default steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.passes.directions import (
    Direction,
    Term,
    direction,
    point_in,
    result_in,
    shared_directions,
    slopes_of,
)
from blomodel.compiler.tape import Tape
from blomodel.kernels.prox import build_penalty
from blomodel.methods.first_order.constants import Constants, estimate_constants
from blomodel.methods.first_order.interpreted import interpreted, stand_in
from blomodel.methods.run.run import Run
from blomodel.model.oracle import LoopTape, Oracle, loop_tape
from blomodel.structure.prox_terms import SplitObjective, split_objective
from blomodel.structure.sets import SimpleSet

Sums = tuple[Sequence[Sequence[Term]], Sequence[str]]


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
        """Gradients that the loops have taken, by the oracle's tapes and along the directions."""
        along = sum(n_gradients * slopes_of(direction) for direction, n_gradients in self._taken)
        return self.oracle.n_evaluations + along

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

    @property
    def has_free_x(self) -> bool:
        """Whether X is the whole space."""
        return not self.run.model.upper_constraints

    @property
    def has_free_y(self) -> bool:
        """Whether Y is the whole space."""
        return not self.run.model.lower_constraints

    def work(self, rows: int) -> np.ndarray:
        """Scratch rows, each long enough for x and for y."""
        return np.zeros((rows, max(self.oracle.n_x, self.oracle.n_y, 1)))

    def arrays(self, kernel: ModuleType, width: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """State and scratch rows of a loop that measures curvature, as its file numbers them.

        The first vector of the power steps is put into its row.
        """
        work = self.work(kernel.N_ROWS) if width is None else np.zeros((kernel.N_ROWS, max(width, 1)))
        work[kernel.PROBE] = np.random.default_rng(self.run.seed).standard_normal(work.shape[1])
        return np.zeros(kernel.N_STATE), work

    # The tapes from which directions are made

    def f_slope(self, block: str) -> Tape:
        """Gradient of f in x or y."""
        return gradient(self.run.model.f, (block,))

    def g_slope(self, block: str) -> Tape:
        """Gradient of g in x (all of g), or of its smooth part in y."""
        return gradient(self.run.model.g if block == "x" else self.oracle.g_tape, (block,))

    def direction(self, *parts: Sequence[Term], points: Sequence[str] = ("x", "y")) -> Direction:
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
        return loop if self.is_compiled else interpreted(loop, (self.x_set, self.y_set))

    @property
    def sets(self) -> tuple[Any, Any]:
        """X and Y as their loop takes them."""
        return self.x_spec, self.y_spec

    @property
    def x_spec(self) -> Any:
        """X as its loop takes it."""
        return stand_in(0) if self.x_set.spec is None else self.x_set.spec

    @property
    def y_spec(self) -> Any:
        """Y as its loop takes it."""
        return stand_in(1) if self.y_set.spec is None else self.y_set.spec


def set_up(run: Run, *, prox: bool = False) -> FirstOrder:
    """Oracle, sets and start; that the problem suits the method has been checked before.

    Parameters
    ----------
    prox : bool
        Whether the method handles nonsmooth lower terms by a prox; the oracle then holds the smooth
        part of g only.
    """
    split = split_objective(run.model) if prox else None
    oracle = Oracle(run.model, run.p, None if split is None else split.smooth)
    x, y = first_point(run)
    x_set, y_set = run.x_set, run.y_set
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


def f_second(oracle: Oracle) -> tuple[LoopTape, LoopTape]:
    """Second derivatives of f in (y, y) and (x, y), each times a direction in y."""
    f = oracle.model.f
    return (
        oracle.derivative(jvp(gradient(f, ("y",)), ("y",))),
        oracle.derivative(jvp(gradient(f, ("x",)), ("y",))),
    )
