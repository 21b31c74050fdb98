"""The automatic method: no step size, penalty weight or iteration count from the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.portfolio import proximal as proximal_search
from blomodel.methods.portfolio.equivalent import exact_without_kinks, search_without_kinks
from blomodel.methods.portfolio.smoothing import SmoothedSearch
from blomodel.methods.reduced_penalty import ReducedPenaltyMethod
from blomodel.methods.run.parallel import Task, search_each
from blomodel.methods.run.registry import method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Point, find_starts, nearest_allowed
from blomodel.methods.search.pieces import (
    MAX_GLOBAL_PAIRS,
    ExactPieces,
    answer_below,
    choose_optimistically,
    improve_by_pieces,
    is_large,
    size_of,
)
from blomodel.methods.value_cuts import ValueCuts
from blomodel.model.model import Model
from blomodel.model.multistart import MultistartLower
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.reformulations.forms.reduced_penalty import PenaltyEvaluation

MAX_CUT_SIZE = 60  # variables and rows up to which value-cuts is tried as a last resort
ENOUGH_AGREEMENT = 6  # starts that end at the best value found
MAX_BOTH_PATHS = 30  # upper variables up to which every start follows both kinds of path
MAX_ROUNDS_AROUND = 5  # of searches near the best point
KICKS = 4  # searches in each round
KICK = 0.3  # distance of their starts, relative to the spread of x


@method
@dataclass(frozen=True, kw_only=True)
class Auto:
    """Choose by structure, search from several starts, polish, keep the best point.

    Lower levels that are not convex go to value-cuts. Small problems whose KKT conditions are linear
    are solved by branch and bound over the pieces, which proves optimality. Larger ones of this kind
    descend on the smoothed lower level; cone programs that are smooth but for norms take the single
    loop of meha, all others follow the reduced penalty, from several starts; each end is improved on
    the KKT pieces. Where that finds nothing, value-cuts is tried. Absolute values, maxima and the like
    get variables of their own where that makes f quadratic and the KKT conditions linear.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = (
        "smoothed lower level or reduced penalty from several starts, polished on the KKT pieces"
    )
    assumes: ClassVar[str] = "nothing; lower levels that are not convex go to value-cuts"
    allows_nonconvex_lower: ClassVar[bool] = True
    claims: ClassVar[str] = "what the certificate proves, up to global optimality"
    reference: ClassVar[str] = "reduced penalty as in reduced-penalty; pieces: Bard and Moore (1990)"

    n_starts: int | None = setting(None, "number of start points; None: by dimension", minimum=1)

    def run(self, run: Run) -> None:
        """Run the portfolio."""
        if isinstance(run.model.lower_solver, MultistartLower):
            run.note("the lower level is not convex, so value-cuts took over")
            ValueCuts().run(run)
            return
        search_without_kinks(run, self._search)

    def _search(self, run: Run) -> None:
        model = run.model
        search = StartSearch(run)
        exact = search.exact
        if exact is not None and model.n_pairs <= MAX_GLOBAL_PAIRS:
            if exact.solve_globally(run):
                return
        if model.x.size == 0:
            answer_below(run, np.empty(0), np.zeros(model.y.size))
            return
        n_starts = self.n_starts or default_number_of_starts(model.x.size)
        starts = find_starts(run, n_starts)
        if search.is_proximal and starts:
            wanted = self.n_starts or proximal_search.number_of_starts(model, n_starts)
            search_until_agreement(search, proximal_search.proximal_starts(run, wanted))
            if not is_proven_best(run):
                proximal_search.finish(run, starts[0])
        else:
            search_until_agreement(search, starts)
        if search.smoothed is not None and n_starts < ENOUGH_AGREEMENT:
            search_around_the_best(search)
        # Where f + gamma g is not convex in y there was no path to follow, only single starts.
        has_path = search.is_proximal or "gamma" in run.history or "mu" in run.history
        is_lost = run.best() is None or not has_path
        if is_lost and not run.is_infeasible and size_of(model) <= MAX_CUT_SIZE:
            ValueCuts().run(run)
        best = run.best()
        if best is not None:
            choose_optimistically(run, best.x)


def search_until_agreement(search: StartSearch, starts: list[Point]) -> None:
    """Search from each start until a bound or agreement makes further ones pointless."""
    run = search.run
    tasks = [Task(*start, is_first=k == 0) for k, start in enumerate(starts)]
    agreement, before = 0, None
    for reached in search_each(search, tasks):
        best = run.best()
        if best is None:
            continue
        if is_proven_best(run):
            break
        small = run.tolerance * (1 + abs(best.value))
        has_improved = before is None or best.value < before.value - small
        agreement = 1 if has_improved else agreement + (abs(reached - best.value) <= small)
        before = best
        if agreement >= ENOUGH_AGREEMENT:
            run.note(f"{agreement} starts ended at the best value, so the others were left out")
            break


def search_around_the_best(search: StartSearch) -> None:
    """Short searches from points near the best one, again as long as one of them improves it."""
    run = search.run
    draw = np.random.default_rng(run.seed)
    for _ in range(MAX_ROUNDS_AROUND):
        best = run.best()
        if best is None or is_proven_best(run):
            return
        reach = KICK * np.std(best.x) + 1e-3 * (1 + np.abs(best.x))
        wishes = best.x + reach * draw.standard_normal((KICKS, best.x.size))
        starts = [nearest_allowed(run, wish) for wish in wishes]
        tasks = [Task(*start, is_near_best=True) for start in starts if start is not None]
        for _ in search_each(search, tasks):
            run.check_limits()
        after = run.best()
        if after is None or after.value >= best.value - run.tolerance * (1 + abs(best.value)):
            return


def is_proven_best(run: Run) -> bool:
    """Whether the best point reaches the bound."""
    best, bound = run.best(), max(run.bound, run.least_value)
    return best is not None and best.value <= bound + run.tolerance * (1 + abs(best.value))


class StartSearch:
    """The search from one start: a path that sees past local minima, then the KKT pieces."""

    def __init__(self, run: Run) -> None:
        self.run, model = run, run.model
        self.exact = ExactPieces(run) if convex_objective(model, run.p) is not None else None
        self.smoothed: SmoothedSearch | None = None
        if self.exact is not None and not is_large(model) and SmoothedSearch.applies(model):
            self.smoothed = SmoothedSearch(run, self.exact)
        self.is_proximal = self.exact is None and proximal_search.applies(model, run.p)

    def __call__(self, task: Task) -> float:
        """Search from the task's point; the upper objective reached."""
        run, model, start = self.run, self.run.model, (task.x, task.y)
        if self.is_proximal:
            return proximal_search.search_by_meha(run, start)
        answer = answer_below(run, *start)
        if is_proven_best(run):
            run.step(x=answer.x, value=answer.value, gap=answer.gap)
            return answer.value
        if self.exact is None:
            path = ReducedPenaltyMethod(penalty_last=1e6)
            if model.has_smooth_kkt:  # the pieces make the end of the path exact
                path = ReducedPenaltyMethod(penalty_last=1e4, path_tolerance=1e-5)
            end = path.follow(run, start)
            return improve_by_pieces(run, *(start if end is None else (end.x, end.y))).value
        if is_large(model):
            end = ReducedPenaltyMethod().follow(run, start)
            return np.inf if end is None else end.value
        if self.smoothed is not None:
            reached = self.smoothed.search(task.x, is_first=task.is_first)
            is_brief = task.is_near_best or model.x.size > MAX_BOTH_PATHS
            if np.isfinite(reached) and is_brief:
                return reached
            # Where starts are cheap: the other kind of path often ends elsewhere, at times better.
            return min(reached, self._follow_penalty(start, self.exact))
        return self._follow_penalty(start, self.exact)

    def _follow_penalty(self, start: Point, exact: ExactPieces) -> float:
        """The reduced penalty, every stage of it improved on the pieces."""
        run, model = self.run, self.run.model
        reached = [np.inf]

        def improve(stage: PenaltyEvaluation) -> None:
            # A point of the path lies near several pieces; its two answers often lead to different ones,
            # but only the first one is sure to lie in a piece.
            reached.append(exact.improve(run, stage.x, stage.lower_y, stage.lower_multipliers))
            is_lost = not np.isfinite(reached[-1])
            reached.append(exact.improve(run, stage.x, stage.y, stage.multipliers, is_lost))

        # The pieces are exact, so a large penalty weight would add nothing.
        path = ReducedPenaltyMethod(penalty_first=0.3, penalty_last=30.0, path_tolerance=1e-4)
        if path.follow(run, start, improve) is None:
            answer = model.lower_program.solve(start[0], run.p)
            if answer.status.has_point:
                multipliers = model.split_duals(answer.duals)
                reached.append(exact.improve(run, start[0], answer.y, multipliers))
        return min(reached)


def default_number_of_starts(n_x: int) -> int:
    """Many starts in few dimensions, one where a start is expensive."""
    return int(np.select([n_x <= 2, n_x <= 10, n_x <= 30], [10, 6, 3], default=1))


def describe_choice(model: Model, p: np.ndarray) -> str:
    """The way that ``Auto`` takes for a problem, in a sentence or two."""
    if isinstance(model.lower_solver, MultistartLower):
        return (
            "value-cuts, since the lower level is not convex: its KKT conditions and cuts on its value, "
            "then the cuts alone; the lower level is searched from many starts"
        )
    kink_free = exact_without_kinks(model, p)
    if kink_free is not None:
        n_further = kink_free.model.x.size + kink_free.model.y.size - model.x.size - model.y.size
        variables = "a further variable for a kink"
        if n_further > 1:
            variables = f"{n_further} further variables for kinks"
        return f"with {variables}: {_describe_way(kink_free.model, p)}"
    return _describe_way(model, p)


def _describe_way(model: Model, p: np.ndarray) -> str:
    objective = convex_objective(model, p)
    if objective is not None and model.n_pairs <= MAX_GLOBAL_PAIRS:
        return (
            f"branch and bound over the pieces of the linear KKT conditions ({model.n_pairs} pairs), on "
            f"which the upper objective is a convex quadratic ({objective.source}), which proves the "
            "optimum; only if that does not finish, searches from several starts"
        )
    if model.x.size == 0:
        return "the lower level's answer; of several, the one that the upper level likes best"
    if objective is None and proximal_search.applies(model, p):
        return proximal_search.describe(model, default_number_of_starts(model.x.size))
    return _describe_search(model, is_exact=objective is not None)


def _describe_search(model: Model, is_exact: bool) -> str:
    """The search from several starts; ``is_exact``: on pieces that are convex quadratic programs."""
    n_starts = default_number_of_starts(model.x.size)
    starts = f"from {n_starts} starts" if n_starts > 1 else "from one start"
    if n_starts >= ENOUGH_AGREEMENT:
        starts += f" (fewer once {ENOUGH_AGREEMENT} agree)"
    penalty = f"reduced penalty F_gamma with growing gamma {starts}"
    if is_exact and is_large(model):
        return f"{penalty}, without pieces, as one of them would cost seconds"
    if is_exact:
        polish = "each stage improved on the pieces of the linear KKT conditions"
        if not SmoothedSearch.applies(model):
            return f"{penalty}; {polish}"
        paths = f"smoothed lower level F_mu with falling mu {starts}"
        if model.x.size <= MAX_BOTH_PATHS:
            paths += ", then the reduced penalty F_gamma with growing gamma from the same"
        around = "; then restarts around the best point" if n_starts < ENOUGH_AGREEMENT else ""
        return f"{paths}; {polish}{around}"
    polish = "no polish"
    if model.has_smooth_kkt and not is_large(model):
        polish = "each end improved on the KKT pieces"
    rescue = ""
    if size_of(model) <= MAX_CUT_SIZE:
        rescue = "; value-cuts if no point is found, or no path since f + gamma g is not convex in y"
    return f"{penalty}; {polish}{rescue}"
