"""The automatic method: no step size, penalty weight or iteration count from the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.model import Model
from blomodel.inner.multistart import MultistartLower
from blomodel.methods.pieces import (
    MAX_GLOBAL_PAIRS,
    MAX_LOCAL_SIZE,
    ExactPieces,
    answer_below,
    choose_optimistically,
    improve_by_pieces,
)
from blomodel.methods.reduced_penalty import ReducedPenaltyMethod
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run
from blomodel.methods.starts import Point, find_starts
from blomodel.methods.value_cuts import ValueCuts
from blomodel.reformulations.kkt import convex_objective
from blomodel.reformulations.value_function import PenaltyEvaluation

MAX_CUT_SIZE = 60  # variables and rows up to which value-cuts is tried as a last resort
ENOUGH_AGREEMENT = 6  # starts that end at the best value found


@method
@dataclass(frozen=True, kw_only=True)
class Auto:
    """Choose by structure, search from several starts, polish, keep the best point.

    Small problems whose KKT conditions are linear are solved by branch and bound over the pieces,
    which proves optimality. All others follow the reduced penalty from several starts, and each end
    is improved on the pieces of the KKT conditions.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "reduced penalty from several starts, polished on the KKT pieces"
    assumes: ClassVar[str] = "nothing; lower levels that are not convex go to value-cuts"
    allows_nonconvex_lower: ClassVar[bool] = True
    claims: ClassVar[str] = "what the certificate proves, up to global optimality"
    reference: ClassVar[str] = (
        "reduced penalty as in reduced-penalty; pieces: Bard and Moore (1990)"
    )

    n_starts: int | None = setting(None, "number of start points; None: by dimension", minimum=1)

    def run(self, run: Run) -> None:
        """Run the portfolio."""
        if isinstance(run.model.lower_solver, MultistartLower):
            run.note("the lower level is not convex, so value-cuts took over")
            ValueCuts().run(run)
            return
        exact = ExactPieces(run) if convex_objective(run.model, run.p) is not None else None
        if exact is not None and len(run.model.lower_in) <= MAX_GLOBAL_PAIRS:
            if exact.solve_globally(run):
                return
        if run.model.x.size == 0:
            answer_below(run, np.empty(0), np.zeros(run.model.y.size))
            return
        agreement = 0
        for start in find_starts(run, self.n_starts or default_number_of_starts(run.model.x.size)):
            before = run.best()
            reached = search_from(run, start, exact)
            best = run.best()
            if best is None:
                continue
            small = run.tolerance * (1 + abs(best.value))
            if best.value <= run.bound + small:
                break
            has_improved = before is None or best.value < before.value - small
            agreement = 1 if has_improved else agreement + (abs(reached - best.value) <= small)
            if agreement >= ENOUGH_AGREEMENT:
                run.note(f"{agreement} starts ended at the best value, so the others were left out")
                break
        # Where f + gamma g is not convex in y there was no path to follow, only single starts.
        has_path = "gamma" in run.history
        model = run.model
        size = model.x.size + model.y.size + len(model.lower_in) + len(model.lower_eq)
        if (run.best() is None or not has_path) and not run.is_infeasible and size <= MAX_CUT_SIZE:
            ValueCuts().run(run)
        best = run.best()
        if best is not None:
            choose_optimistically(run, best.x)


def search_from(run: Run, start: Point, exact: ExactPieces | None) -> float:
    """Follow the reduced penalty from one start and polish; the upper objective reached."""
    model = run.model
    answer_below(run, *start)
    if exact is None:
        path = ReducedPenaltyMethod(gamma_last=1e6)
        if model.has_smooth_kkt:  # the pieces make the end of the path exact
            path = ReducedPenaltyMethod(gamma_last=1e4, path_tolerance=1e-5)
        end = path.follow(run, start)
        return improve_by_pieces(run, *(start if end is None else (end.x, end.y))).value
    if model.x.size + model.y.size + len(model.lower_in) + len(model.lower_eq) > MAX_LOCAL_SIZE:
        end = ReducedPenaltyMethod().follow(run, start)
        return np.inf if end is None else end.value
    reached = [np.inf]

    def improve(stage: PenaltyEvaluation) -> None:
        # A point of the path lies near several pieces; its two answers often lead to different ones.
        for y, multipliers in (
            (stage.lower_y, stage.lower_multipliers),
            (stage.y, stage.multipliers),
        ):
            candidate = exact.improve(run, stage.x, y, multipliers)
            reached.append(np.inf if candidate is None else candidate.value)

    # The pieces are exact, so a large penalty weight would add nothing.
    path = ReducedPenaltyMethod(gamma_first=0.3, gamma_last=30.0, path_tolerance=1e-4)
    if path.follow(run, start, improve) is None:
        answer = model.lower_program.solve(start[0], run.p)
        if answer.status.has_point:
            exact.improve(run, start[0], answer.y, model.split_duals(answer.duals))
    return min(reached)


def default_number_of_starts(n_x: int) -> int:
    """Many starts in few dimensions, one where a start is expensive."""
    return int(np.select([n_x <= 2, n_x <= 10, n_x <= 30], [10, 6, 3], default=1))


def describe_choice(model: Model, p: np.ndarray) -> str:
    """The way that ``Auto`` takes for a problem, in a sentence."""
    if isinstance(model.lower_solver, MultistartLower):
        return "value-cuts: KKT conditions and value-function cuts, since the lower level is not convex"
    n_pairs = len(model.lower_in)
    objective = convex_objective(model, p)
    if objective is not None and n_pairs <= MAX_GLOBAL_PAIRS:
        return (
            f"branch and bound over the pieces of the linear KKT conditions ({n_pairs} pairs), on which "
            f"the upper objective is a convex quadratic ({objective.source}); the reduced penalty only "
            "if that does not finish"
        )
    starts = default_number_of_starts(model.x.size)
    if objective is not None:
        polish = "each stage improved on the pieces of the linear KKT conditions"
    else:
        polish = "each end improved on the KKT pieces" if model.has_smooth_kkt else "no polish"
    return f"reduced penalty F_gamma from {starts} start(s), gamma growing; {polish}"
