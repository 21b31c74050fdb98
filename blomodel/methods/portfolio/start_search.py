"""Searches from one start, each a path that sees past local minima, and how many starts are followed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from blomodel.methods.portfolio.smoothing import SmoothedSearch
from blomodel.methods.reduced_penalty import ReducedPenaltyMethod
from blomodel.methods.run.parallel import Search, Task, search_each
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start, nearest_allowed
from blomodel.methods.search.pieces import ExactPieces, answer_below, exact_pieces, improve_by_pieces
from blomodel.reformulations.forms.reduced_penalty import PenaltyEvaluation

ENOUGH_AGREEMENT = 6  # starts that end at the best value found
CONFIRMED_STARTS = 2  # at least, where another kind of search has reached that value too
ROUNDS_AROUND = 5  # of searches near the best point, at most
KICKS = 4  # searches in each round
KICK = 0.3  # distance of their starts, relative to the spread of x


def is_proven_best(run: Run) -> bool:
    """Whether the best point reaches the bound."""
    return run.is_proven


def search_until_agreement(
    search: Search, starts: list[Start], is_confirmed: Callable[[Run], bool] = lambda run: False
) -> None:
    """Search from each start until a bound or agreement makes further ones pointless.

    Parameters
    ----------
    is_confirmed : callable
        Whether two kinds of search have reached the best value of a run.
    """
    run = search.run
    tasks = [Task(*start, is_first=k == 0) for k, start in enumerate(starts)]
    agreement, before = 0, None
    for number, reached in enumerate(search_each(search, tasks), start=1):
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
        if number >= CONFIRMED_STARTS and not has_improved and is_confirmed(run):
            run.note("two kinds of search came to the best value, so further starts were left out")
            break


def search_around_the_best(search: Search) -> None:
    """Short searches from points near the best one, again as long as one of them improves it."""
    run = search.run
    draw = np.random.default_rng(run.seed)
    for _ in range(ROUNDS_AROUND):
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


class StartSearch(ABC):
    """The lower answer at the start, and where no bound is reached yet, a path from there.

    Parameters
    ----------
    run : Run
    make : callable
        Makes the same search of another run.
    """

    run: Run
    make: Callable[[Run], Search]

    def __init__(self, run: Run, make: Callable[[Run], Search]) -> None:
        self.run, self.make = run, make

    def __call__(self, task: Task) -> float:
        """Search from the task's point; the upper objective reached."""
        run = self.run
        answer = answer_below(run, task.x, task.y)
        if is_proven_best(run):
            run.step(x=answer.x, value=answer.value, gap=answer.gap)
            return answer.value
        return self.follow(task)

    @abstractmethod
    def follow(self, task: Task) -> float:
        """The path from the task's point; the upper objective reached."""


class PenaltyOnPieces(StartSearch):
    """The reduced penalty on a problem with exact pieces, every stage improved on them."""

    def follow(self, task: Task) -> float:
        """The path from the task's point."""
        return _penalty_on_pieces(self.run, (task.x, task.y), exact_pieces(self.run))


class SmoothedPath(StartSearch):
    """The smoothed lower level, every stage improved on the exact pieces; then the reduced penalty.

    Parameters
    ----------
    has_both_paths : bool
        Whether the reduced penalty follows too, from the same start: it often ends elsewhere, at times
        better.
    """

    has_both_paths: bool
    exact: ExactPieces
    smoothed: SmoothedSearch

    def __init__(self, run: Run, make: Callable[[Run], Search], *, has_both_paths: bool) -> None:
        super().__init__(run, make)
        self.has_both_paths, self.exact = has_both_paths, exact_pieces(run)
        self.smoothed = SmoothedSearch(run, self.exact)

    def follow(self, task: Task) -> float:
        """The path from the task's point, or both kinds of path."""
        reached = self.smoothed.search(task.x, is_first=task.is_first)
        is_brief = task.is_near_best or not self.has_both_paths
        if np.isfinite(reached) and is_brief:
            return reached
        return min(reached, _penalty_on_pieces(self.run, (task.x, task.y), self.exact))


class PenaltyAlone(StartSearch):
    """The reduced penalty, whose end stays as it is."""

    def follow(self, task: Task) -> float:
        """The path from the task's point."""
        end = ReducedPenaltyMethod().follow(self.run, (task.x, task.y))
        return np.inf if end is None else end.value


class PenaltyThenPieces(StartSearch):
    """The reduced penalty, whose end is improved on the pieces around it where there are any."""

    def follow(self, task: Task) -> float:
        """The path from the task's point."""
        run, start = self.run, (task.x, task.y)
        path = ReducedPenaltyMethod(penalty_last=1e6)
        if run.model.has_smooth_kkt:  # the pieces make the end of the path exact
            path = ReducedPenaltyMethod(penalty_last=1e4, path_tolerance=1e-5)
        end = path.follow(run, start)
        return improve_by_pieces(run, *(start if end is None else (end.x, end.y))).value


def _penalty_on_pieces(run: Run, start: Start, exact: ExactPieces) -> float:
    """The reduced penalty, every stage of it improved on the pieces."""
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
        answer = run.model.lower_program.solve(start[0], run.p)
        if answer.status.has_point:
            multipliers = run.model.split_duals(answer.duals)
            reached.append(exact.improve(run, start[0], answer.y, multipliers))
    return min(reached)
