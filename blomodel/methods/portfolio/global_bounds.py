"""A step that closes in on the optimum from below, whatever the curvature of either level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.run import Candidate, Run
from blomodel.methods.search.bounding import Bounding
from blomodel.methods.search.pieces import answer_below, improve_by_pieces, is_large
from blomodel.methods.value_cuts import ValueCuts
from blomodel.model.model import Model
from blomodel.reformulations.forms.bounding import why_no_bounds
from blomodel.solvers.branching.scip import is_installed
from blomodel.text.layout import counted

WORK = 30_000  # linear programs of a portion, times the unknowns of each
FEWEST, FIRST, MOST = 40, 150, 1500  # linear programs of a portion
PORTIONS = 6  # of a level, as long as each closes much of the gap
CLOSED = 0.2  # share of the gap that a portion must close for another one
HOPEFUL = 0.1  # share of the gap that all portions of a level must close for a proof to be in sight
PATIENT = 2  # further levels that large formulas wait where no time limit asks for all that can be done
POLISHED = 1e-6  # relative: a gap that needs no polish
LONGEST = 4.0  # seconds of work of a first portion: most take less than one, but nodes may be endless
ROUNDS = 20  # of steps on the KKT pieces


@dataclass(frozen=True)
class GlobalBounds(Step):
    """Relaxations over optimality conditions and value cuts, solved globally."""

    size: int
    first_level: int
    has_pieces: bool  # whether the tree over KKT pieces is exact, and comes first

    name = "global bounds"
    family = "bounding"
    may_prove = True
    share: ClassVar[Share] = Share(part=0.5)
    is_early: ClassVar[bool] = True  # before the searches

    @classmethod
    def consider(cls, situation: Situation) -> GlobalBounds | Omission | None:
        """For everything that can be stated for SCIP; large problems later than small ones."""
        model = situation.model
        is_exact = model.is_convex_below and situation.objective is not None
        is_answered = model.is_convex_below and model.x.size == 0
        if is_answered or (cls is GlobalBounds and is_exact):
            return None  # nothing to search, or the tree comes first
        if not is_installed():
            return Omission(cls.name, "SCIP is not installed (pip install pyscipopt)")
        numbers = formula_size(model)
        dear = max(
            numbers / limits.FORMULAS_AT_ONCE.value, situation.size / limits.BOUNDED_AT_ONCE.value
        )
        first = math.ceil(math.log2(max(1.0, dear)))
        if first == 0:
            reason = why_no_bounds(model)
            if reason is not None:
                return Omission(cls.name, reason)
        return cls(situation.size, first, is_exact)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "branch and bound by SCIP over both levels' constraints, the lower level's optimality "
            f"conditions and cuts on its value; {counted(self.programs, 'linear program')}, "
            "more as long as they "
            "close the gap; where value and bound meet, nothing follows"
        )

    @property
    def condition(self) -> str:
        """When it is tried."""
        if self.has_pieces:
            return "from the second level on, since the tree comes first"
        if not self.first_level:
            return ""
        first = self.first_level + 1
        return f"from level {first} on under a time limit, from {first + PATIENT} on without one"

    @property
    def programs(self) -> int:
        """Linear programs of a portion: fewer where each is dear."""
        return min(MOST, max(FEWEST, WORK // max(self.size, 1)))

    def has_hope(self, run: Run) -> bool:
        """Whether the last portions have brought the bound nearer; large formulas begin without hope."""
        bounding = run.known(Bounding)
        return self.first_level == 0 if bounding is None else not bounding.is_slow

    def run(self, run: Run, level: int) -> Outlook:
        """Branch as long as portions close the gap."""
        wait = PATIENT if self.first_level and run.deadline.is_never else 0
        if level < max(self.first_level + wait, int(self.has_pieces)):
            return Outlook.MORE
        if why_no_bounds(run.model) is not None:
            return Outlook.DONE
        bounding = run.once(Bounding, lambda: Bounding(run, run.optimality_gap))
        if run.best() is None:
            _first_point(run)
        if self.is_early and run.best() is not None and not bounding.can_bound(run):
            # Numbers beyond SCIP's range are in reach of a better point; the searches may end that.
            bounding.is_slow = True
            return Outlook.MORE
        best = run.best()
        gap = first_gap = np.inf if best is None else best.value - run.bound
        is_half_proven = bounding.is_half_proven(run)
        for number, programs in enumerate(self.portions(level)):
            if number or level:
                _search_around(run, bounding)
            if bounding.go_on(run, max_programs=programs, longest=LONGEST * 2**level):
                _polish(run, bounding)
                return Outlook.SETTLED
            best, before = run.best(), gap
            gap = np.inf if best is None else best.value - run.bound
            if bounding.has_ended or run.is_infeasible:
                return Outlook.SETTLED if run.is_infeasible else Outlook.DONE
            was_half_proven, is_half_proven = is_half_proven, bounding.is_half_proven(run)
            if is_half_proven and not was_half_proven:
                continue  # the second proof begins with a gap of its own
            if not gap <= (1 - CLOSED) * before or not np.isfinite(gap):
                break
        bounding.is_slow = not gap <= (1 - HOPEFUL) * first_gap or not np.isfinite(gap)
        bounding.is_slow &= not is_half_proven
        return Outlook.MORE

    def portions(self, level: int) -> list[int]:
        """Linear programs of each portion: few at first, since a good point is still to be found."""
        most = self.programs * 2**level
        return [min(FIRST * 2**k, most) for k in range(PORTIONS)]


@dataclass(frozen=True)
class GlobalBoundsAfterSearch(GlobalBounds):
    """The same after the searches, whose best point cuts off what is worse."""

    name = "global bounds after search"
    is_early = False

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"the same search goes on; {counted(self.programs, 'linear program')}, more if "
            "they close the gap"
        )

    def portions(self, level: int) -> list[int]:
        """Linear programs of each portion."""
        return [self.programs * 2**level] * PORTIONS


def formula_size(model: Model) -> int:
    """Numbers and products in the formulas of both levels, by which their statement costs."""
    rows = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    tapes = [model.f, model.g, *(part.tape for part in rows if part.tape is not None)]
    return sum(tape.n_products + sum(node.size for node in tape.nodes) for tape in tapes)


def _first_point(run: Run) -> None:
    """The lower answer at the start, or in the middle: SCIP cuts off with its value."""
    model = run.model
    x = np.clip(np.zeros(model.x.size), *model.bounds(run.p)) if run.start is None else run.start[0]
    y = None if run.start is None else run.start[1]
    y = np.clip(np.zeros(model.y.size), *model.y_bounds) if y is None else y
    if model.is_convex_below:
        answer_below(run, x, y)
        return
    below, _ = run.solve_lower(x, y)
    if below.has_point:
        run.propose(x, below.y, "lower answer at the start")


def _search_around(run: Run, bounding: Bounding) -> None:
    """Once around each best point: a tree that goes on is cut off earlier by a better one."""
    best = run.best()
    if best is None or best is bounding.searched or run.model.is_convex_below:
        return
    _cut_around(run, bounding, best)
    bounding.searched = run.best()


def _cut_around(run: Run, bounding: Bounding, best: Candidate) -> None:
    """A local search over the cuts that the rounds have found."""
    model = run.model
    if not model.integer_y.any() and not model.integer_x.any():
        ValueCuts().refine(run, [(best.x, best.y)], [point.y for point in bounding.points])


def _polish(run: Run, bounding: Bounding) -> None:
    """Make the best point exact: it met its bound, but may lie beside the optimum."""
    best, model = run.best(), run.model
    if best is None or best.value - run.bound <= POLISHED * (1 + abs(best.value)):
        return
    if not model.is_convex_below:
        _cut_around(run, bounding, best)
    elif model.has_smooth_kkt and not is_large(model):
        improve_by_pieces(run, best.x, best.y, max_rounds=ROUNDS)
