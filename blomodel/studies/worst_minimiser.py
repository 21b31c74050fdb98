"""The worst of all lower minimisers at one x, with a bound, by branch and bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from blomodel.compiler.lowering import lower
from blomodel.compiler.tape import Tape
from blomodel.methods.run.run import OPTIMALITY_GAP
from blomodel.model.global_lower import GlobalLower
from blomodel.model.multistart import MultistartLower
from blomodel.reformulations.forms.bounding import BoundingProblem
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.branching.scip import is_installed
from blomodel.solvers.branching.scip_expressions import UntranslatableError, is_number

if TYPE_CHECKING:
    from blomodel.model.model import Model

Array = np.ndarray

SAME = 1e-6  # relative: what g may be above its least value where the level is not convex
LEVEL = 1e-8  # relative: what a solver's lower value may be below the true one
GAP = 1e-6  # relative, to which branch and bound goes
MOST_NODES = 20_000  # for one x that a person asks about; linear programs are as many
FEW_NODES = 200  # for one of many x


@dataclass(frozen=True)
class Worst:
    """The largest f over the lower minimisers at an x.

    Attributes
    ----------
    value : float
        Of f, as something to minimise, at ``y``.
    y : array or None
        A lower minimiser.
    bound : float or None
        No minimiser has a larger f; None: not known.
    reason : str
        How it was found.
    is_proven : bool
        Whether ``y`` is a minimiser for sure and meets the bound.
    """

    value: float
    y: Array | None
    bound: float | None
    reason: str
    is_proven: bool = True


class Minimisers:
    """Lower minimisers at x as SCIP sees them: optimality conditions, and g at most its least value.

    Every minimiser satisfies them, and so the largest value of a function over all points that do is a
    bound. Where first-order conditions are among them, tolerances blur the set little.

    Parameters
    ----------
    value : float
        g at some lower point: v(x), or what is known of it.
    """

    model: Model
    x: Array
    p: Array
    nodes: int
    level: float

    def __init__(self, model: Model, x: Array, p: Array, value: float, nodes: int = MOST_NODES) -> None:
        self.model, self.x, self.p, self.nodes = model, x, p, nodes
        self.level = value + LEVEL * (1 + abs(value))

    def largest(
        self, tape: Tape, row: int = 0, sign: float = 1.0, known: float = -np.inf
    ) -> tuple[float, Array | None]:
        """A bound of ``sign`` times an output of a tape from above, and a point that is about the worst.

        Points that are not above ``known`` are of no interest. The bound is infinite where nothing is
        known, or where there is none.
        """
        if not is_installed() or self.model.lower_in.spectral:
            return np.inf, None
        try:
            program, inputs = BoundingProblem(self.model, self.p).at(self.x, self.level)
            formula = program.formulas(tape, inputs)[row]
        except UntranslatableError:
            return np.inf, None
        if not GlobalLower(self.model).stays_in_range(self.x, self.p, self.level, tape):
            return np.inf, None
        if is_number(formula):
            return sign * float(formula), None
        program.minimise(-sign * formula)
        room = GAP * (1 + abs(known)) if np.isfinite(known) else 0.0
        found = program.solve(
            self.model.y.size,
            max_nodes=self.nodes,
            max_programs=self.nodes,
            gap=GAP,
            enough=-known - room if np.isfinite(known) else np.inf,
            cutoff=-known - room / 2 if np.isfinite(known) else np.inf,
        )
        if found.status is InnerStatus.UNBOUNDED:
            return np.inf, None
        if found.bound == np.inf:  # no point at all: tolerances have emptied the set
            return np.inf, None
        if found.point is None:
            return -found.bound, None
        y = np.where(self.model.integer_y, np.round(found.point), found.point)
        return -found.bound, np.clip(y, *self.model.y_bounds)


def judged(value: float, y: Array, bound: float, found: str, is_sure: bool = True) -> Worst:
    """A worst choice with its bound, and in words whether they meet.

    Where the lower value is not sure, the bound holds all the same, but y may be no minimiser.
    """
    if not np.isfinite(bound):
        return Worst(value, y, None, f"{found}, not proven", False)
    bound = max(bound, value)
    worst = Worst(value, y, bound, "proven by branch and bound over the lower minimisers")
    if not is_sure or bound > value + OPTIMALITY_GAP * (1 + abs(value)):
        return replace(worst, reason=f"{found}, not proven", is_proven=False)
    return worst


def search_nonconvex(
    model: Model, x: Array, p: Array, answer: Answer, is_sure: bool, nodes: int
) -> tuple[float, Worst, bool | None]:
    """Best and worst f among the minimisers of a lower level that is not convex.

    Local searches, tilted towards f and away from it, find some; branch and bound finds the others, or
    that there are none. The third result is False when the minimisers found differ.
    """

    def f(y: Array) -> float:
        return float(model.f(x, y, p)[0])

    if not is_sure and is_installed():
        answer, is_sure = GlobalLower(model).confirm(x, p, answer)
    if model.integer_y.any():
        chosen = model.integer_lower.choose(x, p, answer.value)
        worst = model.integer_lower.choose_worst(x, p, answer.value)
        minimisers = [answer.y]
        minimisers += [found.point for found in (chosen, worst) if found and found.point is not None]
        if worst is not None and worst.status is InnerStatus.UNBOUNDED:
            no_limit = "f grows without limit over the lower minimisers"
            return min(map(f, minimisers)), Worst(np.inf, None, np.inf, no_limit), False
        bound = -worst.bound if worst is not None and is_sure else np.inf
    else:
        minimisers = _local_minimisers(model, x, p, answer)
        bound, worse = Minimisers(model, x, p, answer.value, nodes).largest(
            model.f, known=max(map(f, minimisers))
        )
        better = GlobalLower(model).choose(x, p, answer.value) if is_installed() else None
        for y in (worse, better):
            minimisers += [] if y is None else settled_from(model, x, p, y, answer.value)
    top = max(minimisers, key=f)
    found = "the worst minimiser that searches found"
    if not is_sure:
        found += "; the lower value itself is not proven"
    worst_found = judged(f(top), top, bound, found, is_sure)
    width = np.ptp(minimisers, axis=0).max(initial=0)
    is_several = width > 1e-3 * (1 + np.abs(answer.y).max(initial=0))
    return min(map(f, minimisers)), worst_found, False if is_several else None


def _local_minimisers(model: Model, x: Array, p: Array, answer: Answer) -> list[Array]:
    """Minimisers that local searches find, tilted towards f and away from it."""
    minimisers = [answer.y]
    for tilt in (1e-3, -1e-3, 1e-6, -1e-6):
        tape = lower([model.g_expression + tilt * model.f_expression], model.blocks)
        found = MultistartLower(model, objective=tape).solve(x, p, near=[answer.y])
        if found.status.has_point:
            minimisers += settled_from(model, x, p, found.y, answer.value)
    return minimisers


def settled_from(model: Model, x: Array, p: Array, y: Array, value: float) -> list[Array]:
    """The minimiser into which a point near it falls; none where the point is near no minimiser."""
    settled = model.multistart.descend_from(x, p, y)
    return [settled] if float(model.g(x, settled, p)[0]) <= value + SAME * (1 + abs(value)) else []
