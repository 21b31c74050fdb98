"""Problems that consist of several: each is solved apart, and the answers are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.expressions.restricting import NotSeparable
from blomodel.methods.portfolio.effort import Effort, is_confirmed
from blomodel.methods.portfolio.planned import PlannedStep, PlanOf
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Outlook
from blomodel.methods.portfolio.trees import BlockEnd, Tree, constant_of, trees_apart
from blomodel.methods.run.parallel import work_each
from blomodel.methods.run.run import Findings, Run, StopRun
from blomodel.methods.search.piece_tree import SAFE, SOURCE, sum_below
from blomodel.model.model import Model
from blomodel.transformations.independent import Part, independent_parts

ENDS_OF_PARTS = "what was found of independent problems"  # key under which a run keeps that
ROUNDS = 3  # in which parts that were stopped at their share of the time are searched again


@dataclass(frozen=True)
class Apart(PlannedStep):
    """Each of several independent problems by a plan of its own.

    Attributes
    ----------
    parts : tuple of Part
    plan_of : PlanOf
        The plan for the model of a part, or for the whole where a part has no answer.
    """

    parts: tuple[Part, ...]
    first_steps: str
    is_whole_first: bool
    is_provable: bool
    effort: Effort

    name = "independent problems"
    family = "independent problems"

    @classmethod
    def made_for(cls, model: Model, p: np.ndarray, plan_of: PlanOf, effort: Effort) -> Apart | None:
        """The step for a model; None where it is one problem."""
        parts = independent_parts(model)
        if not parts:
            return None
        names = [step.name for step in plan_of(parts[0].model, p, effort=effort).steps]
        # A tree proves each part where the whole would have too many pieces; a lower level that is not
        # convex has too many local answers as a whole. Elsewhere one search for all costs less.
        is_provable = Tree.name in names or not parts[0].model.is_convex_below
        is_whole_first = not is_provable or not limits.PARTS_FIRST.allows(len(parts))
        return cls(plan_of, parts, ", ".join(names), is_whole_first, is_provable, effort)

    @property
    def text(self) -> str:
        """What it does and why."""
        sizes = sorted({(part.x.size, part.y.size) for part in self.parts})
        shown = ", ".join(f"{n_x} + {n_y}" for n_x, n_y in sizes[:3])
        shown += ", ..." if len(sizes) > 3 else ""
        order = "Those that remain are solved apart" if self._trees else "They are solved apart"
        if self.is_whole_first:
            order = "They are searched together first, and then solved apart if there is reason to"
        return (
            f"variables and rows fall into {len(self.parts)} groups that never meet (x + y: {shown}), "
            f"so each is a problem of its own; values and bounds add up. {self._trees}{order}, the "
            f"first by: {self.first_steps}"
        )

    @property
    def _trees(self) -> str:
        if Tree.name not in self.first_steps:
            return ""
        return "A tree for each, by blocks of the whole problem's matrices, comes first. "

    def is_worth_it(self, run: Run) -> bool:
        """Whether to solve the parts although all of them have been searched together."""
        if is_confirmed(run) and not self.is_provable:
            return False
        is_asked_for = self.effort is Effort.THOROUGH or not run.deadline.is_never
        return is_asked_for or limits.PARTS_FIRST.allows(len(self.parts))

    def run(self, run: Run, level: int) -> Outlook:
        """Solve the parts; where one of them stays without a point, the problem as a whole."""
        work = _FollowPlan(self.plan_of, self.effort)
        if _prove_by_trees(run, self.parts):
            return Outlook.SETTLED
        if self.is_whole_first:
            work(run)
            if run.is_infeasible or run.is_unbounded or is_proven_best(run):
                return Outlook.SETTLED
            if not self.is_worth_it(run):
                return Outlook.SETTLED
        if not solve_apart(run, self.parts, work):
            run.check_limits()
            if not self.is_whole_first:
                work(run)
        return Outlook.SETTLED


@dataclass(frozen=True)
class _FollowPlan:
    plan_of: PlanOf
    effort: Effort

    def __call__(self, run: Run) -> None:
        self.plan_of(run.model, run.p, effort=self.effort).run(run)


def _prove_by_trees(run: Run, parts: Sequence[Part]) -> bool:
    """Whether a tree for each part, by matrices alone, settles the problem; what ended is kept."""
    known: dict[int, _Result] = run.once(ENDS_OF_PARTS, dict)
    if known:  # the search goes on after a limit
        return False
    ended: dict[int, BlockEnd] = {}
    try:
        trees_apart(run, parts, ended)
    except (StopRun, KeyboardInterrupt):  # parts that have been solved are worth something
        _put_together(run, parts, {number: _Result.proven(end) for number, end in ended.items()})
        raise
    if run.is_infeasible:
        return True
    has_all = len(ended) == len(parts)
    for number, end in ended.items():
        # The constant is known of all parts together; else the part's model has to tell its own.
        constant = constant_of(run) if number == 0 else 0.0
        if not has_all:
            model = parts[number].model
            constant = float(model.f(np.zeros(model.x.size), np.zeros(model.y.size), run.p)[0])
        known[number] = _Result.proven(end, constant)
    if not has_all:
        return False
    if _put_together(run, parts, known) and is_proven_best(run):
        return True
    known.clear()  # the lower level does not agree with what the tolerances of the trees let pass
    return False


def solve_apart(run: Run, parts: Sequence[Part], work: Callable[[Run], None]) -> bool:
    """Solve each part and put the points together; whether that settles the problem.

    Parameters
    ----------
    work : callable
        Solves a part, given a run of its model.
    """
    # A search that goes on after a limit does not repeat the parts that had come to their end before it.
    known: dict[int, _Result] = run.once(ENDS_OF_PARTS, dict)
    is_settled = False
    try:
        for _ in range(ROUNDS):
            due = [number for number in range(len(parts)) if number not in known]
            # Parts that were stopped at their share of the time get what the others have left.
            due = due or [number for number, result in known.items() if not result.is_final]
            if not due:
                break
            makers = [partial(_run_of, run, parts[number]) for number in due]
            for number, findings in zip(due, work_each(makers, work, run.n_jobs), strict=True):
                result = _Result.of(run, parts[number], findings)
                known[number] = result.with_best_of(known.get(number))
                _take_over_effort(run, findings)
                run.check_limits()
    except NotSeparable:
        return False
    finally:
        # At a limit too: parts that have been solved are worth something.
        is_settled = _put_together(run, parts, known)
    return is_settled


def _take_over_effort(run: Run, findings: Findings) -> None:
    run.iterations += findings.iterations
    run.evaluations += findings.evaluations
    run.fall = run.fall or findings.fall
    for note in findings.notes:
        run.note(note)


@dataclass(frozen=True)
class _Result:
    """What is known of one part."""

    x: np.ndarray | None
    y: np.ndarray | None
    value: float
    bound: float
    source: str
    slack: float
    is_infeasible: bool
    is_unbounded: bool
    is_final: bool  # whether it has ended by itself, not at its share of the time

    @classmethod
    def of(cls, run: Run, part: Part, findings: Findings) -> _Result:
        own = run.anew(model=part.model, start=None)
        own.candidates = findings.candidates
        best = own.best()
        bound, source = findings.bound, findings.bound_source
        if own.least_value > bound:
            bound, source = own.least_value, "the formula of the upper objective"
        return cls(
            None if best is None else best.x,
            None if best is None else best.y,
            np.inf if best is None else best.cautious_value,
            bound,
            source,
            findings.bound_slack,
            findings.is_infeasible,
            findings.is_unbounded and best is not None,
            findings.stopped_by != "time limit",
        )

    @classmethod
    def proven(cls, end: BlockEnd, constant: float = 0.0) -> _Result:
        """The optimum that a tree has found."""
        value, bound = end.value + constant, sum_below(constant, end.bound)
        return cls(end.x, end.y, value, bound, SOURCE, SAFE, False, False, True)

    def with_best_of(self, earlier: _Result | None) -> _Result:
        """The same with what an earlier search of the part has found, where that was better."""
        better = self
        if earlier is not None and earlier.value < self.value:
            better = replace(better, x=earlier.x, y=earlier.y, value=earlier.value)
        if earlier is not None and earlier.bound > self.bound:
            better = replace(better, bound=earlier.bound, source=earlier.source, slack=earlier.slack)
        return better


def _run_of(run: Run, part: Part) -> Run:
    start = None
    if run.start is not None:
        x, y = run.start
        start = x[part.x], None if y is None else y[part.y]
    return run.anew(model=part.model, start=start, progress=None)


def _fill_up(run: Run, parts: Sequence[Part], found: Mapping[int, _Result], x: np.ndarray) -> None:
    """Where only some parts have an answer, the others get the lower answer at their first x."""
    if not any(result.x is not None for result in found.values()):
        return
    first = np.zeros(x.size) if run.start is None else run.start[0]
    rest = np.ones(x.size, dtype=bool)
    for number, result in found.items():
        if result.x is not None:
            rest[parts[number].x] = False
    x[rest] = np.clip(first, *run.model.bounds(run.p))[rest]
    answer, _ = run.solve_lower(x, np.zeros(run.model.y.size))
    if answer.status.has_point:
        run.propose(x, answer.y, "some of the independent problems, and a first answer of the others")


def _put_together(run: Run, parts: Sequence[Part], found: Mapping[int, _Result]) -> bool:
    """Propose the parts' points as one, with the sum of their bounds."""
    results = list(found.values())
    if any(result.is_infeasible for result in results):
        run.is_infeasible = True
        return True
    known = run.best()
    x, y = np.zeros(run.model.x.size), np.zeros(run.model.y.size)
    if known is not None:  # what has not been solved stays as it was
        x, y = known.x.copy(), known.y.copy()
    has_all = len(found) == len(parts) and all(result.x is not None for result in results)
    for number, result in found.items():
        if result.x is not None and result.y is not None:
            x[parts[number].x], y[parts[number].y] = result.x, result.y
    if not has_all and known is None:
        _fill_up(run, parts, found, x)
        return False
    if has_all and any(result.is_unbounded for result in results):
        run.is_unbounded = True
        return True
    run.propose(x, y, f"{len(parts)} independent problems")
    bound = sum(result.bound for result in results)
    if len(found) == len(parts) and bound > run.bound:
        # What comes after a comma is a figure of one part, such as its number of nodes.
        sources = sorted({result.source.split(",")[0] for result in results if result.source})
        source = f"{len(parts)} independent problems ({'; '.join(sources)})"
        run.raise_bound(bound, source, max(result.slack for result in results), is_lowered=True)
    best = run.best()
    if best is not None and has_all:
        run.step(x=best.x, value=best.value, gap=best.gap)
    return has_all and best is not None
