"""The plan of ``auto``: what it tries, in which order and why, and what it leaves out.

A plan is made once from the structure of a model. ``auto`` runs this value, and ``explain()`` and
``problem.plan()`` print it, so that what is said and what is done cannot differ. A further member of
the portfolio is a class in ``steps.py`` or ``searches.py`` and its place in ``MEMBERS``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np

from blomodel.methods.portfolio.answer_descents import AnswerDescents, DescentsWithKinks, may_wait
from blomodel.methods.portfolio.answer_lines import LinesOfAnswers
from blomodel.methods.portfolio.apart import Apart
from blomodel.methods.portfolio.effort import Effort, Patience, is_confirmed
from blomodel.methods.portfolio.equivalent import exact_without_kinks, search_without_kinks
from blomodel.methods.portfolio.exchange import Exchange
from blomodel.methods.portfolio.global_bounds import GlobalBounds, GlobalBoundsAfterSearch
from blomodel.methods.portfolio.integers import IntegerBounds, steps_with_plans
from blomodel.methods.portfolio.relaxed import EarlyRelaxedComplementarity, RelaxedComplementarity
from blomodel.methods.portfolio.sampled import PatternAroundTheBest, SampleOfPhi, SampleOfWholeAnswers
from blomodel.methods.portfolio.searches import SEARCHES, SecondOpinion
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.portfolio.steps import (
    AroundTheBest,
    Choice,
    CutsAlone,
    LowerAnswer,
    PenaltyFromTheEnd,
    Rescue,
)
from blomodel.methods.portfolio.tangent_bound import BothAgree, TangentBound
from blomodel.methods.portfolio.trees import Tree, TreeAfterSearch, TreeBeforeSearch, TreesAroundTheBest
from blomodel.methods.portfolio.worst_cases import WorstCases
from blomodel.methods.portfolio.zero_sum import OneProgram
from blomodel.methods.run.run import Run
from blomodel.model.model import Model
from blomodel.text.layout import columns

ENDS_OF_STEPS = "how steps have ended"  # key under which a run keeps that, for each plan
LOOKS = 2  # at what searches agree on, after all levels; the second where the first has paid
DOUBT = 0.2  # of the time that a run has taken, for each of them
WIDTH = 98  # characters of a line; explain() indents by two

# In the order in which they are run.
MEMBERS: tuple[type[Step], ...] = (
    OneProgram,
    WorstCases,
    Exchange,
    Tree,
    TreeBeforeSearch,
    LowerAnswer,
    BothAgree,
    AnswerDescents,
    DescentsWithKinks,
    SecondOpinion,
    TangentBound,
    GlobalBounds,
    LinesOfAnswers,
    SampleOfPhi,
    EarlyRelaxedComplementarity,
    *SEARCHES,
    TreeAfterSearch,
    TreesAroundTheBest,
    RelaxedComplementarity,
    PenaltyFromTheEnd,
    AroundTheBest,
    Rescue,
    GlobalBoundsAfterSearch,
    Choice,
)

# The same for problems with integers; further steps solve other problems by plans of their own.
INTEGER_MEMBERS: tuple[type[Step], ...] = (LowerAnswer, OneProgram, IntegerBounds, SampleOfWholeAnswers)

# The same for lower levels that are not convex.
NONCONVEX_MEMBERS: tuple[type[Step], ...] = (
    WorstCases,
    GlobalBounds,
    SampleOfPhi,
    CutsAlone,
    PatternAroundTheBest,
    GlobalBoundsAfterSearch,
)


@dataclass(frozen=True)
class Plan:
    """What ``auto`` does with a problem.

    Attributes
    ----------
    steps : tuple of Step
        In the order in which they are run, again and again with growing effort: see ``Patience``. A
        step may settle the problem, so that the rest is left out, and may have a condition that what
        came before must meet.
    omitted : tuple of Omission
        What would be tried on a problem of another structure or size, and why it is not.
    n_further : int
        Variables that stand for kinks in the equivalent problem on which the steps work; 0 where they
        work on the problem itself.

    Examples
    --------
    >>> import cvxpy as cp, blomodel as bm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
    >>> [step.name for step in problem.plan().steps][:2]
    ['tree over KKT pieces', 'descent on phi']
    """

    steps: tuple[Step, ...]
    omitted: tuple[Omission, ...] = ()
    n_further: int = 0
    effort: Effort = Effort.NORMAL

    def run(self, run: Run) -> None:
        """Run the steps, on the problem without kinks where it was made for that."""
        if self.n_further:
            search_without_kinks(run, self._run_steps)
        else:
            self._run_steps(run)

    def _run_steps(self, run: Run) -> None:
        patience, is_settled = Patience(run, self.effort), False
        at_work = [step for step in self.steps if not step.is_last]
        for level in itertools.count():
            at_work, is_settled = self._run_level(run, at_work, level)
            may_prove = any(step.may_prove and step.has_hope(run) for step in at_work)
            if is_settled or not at_work or patience.is_over(level, may_prove=may_prove):
                break
        if not is_settled:
            self._look_again(run, at_work)
            for step in self.steps:
                if step.is_last:
                    self._run_step(run, step, level)
        self._ended(run).clear()
        _say_whether_families_agree(run)

    def _look_again(self, run: Run, at_work: list[Step]) -> None:
        """Use a part of a time limit to doubt what searches agree on; once more if that has paid."""
        for _ in range(LOOKS):
            before = run.best()
            if run.deadline.is_never or self.effort is Effort.QUICK or before is None or run.is_proven:
                return
            for step in at_work:
                run.family, run.activity = step.family, f"{step.name}, once more"
                with run.within(min(DOUBT * run.elapsed, run.remaining)):
                    step.look_again(run)
                run.family = run.activity = ""
            best = run.best()
            if best is None or best.value >= before.value - run.tolerance * (1 + abs(before.value)):
                return

    def _ended(self, run: Run) -> dict[tuple[int, int], Outlook]:
        """How steps have ended, by level and number.

        A search that goes on after a limit does not repeat what had come to its end before it.
        """
        plans: dict[tuple[str, ...], dict[tuple[int, int], Outlook]] = run.once(ENDS_OF_STEPS, dict)
        return plans.setdefault(tuple(step.name for step in self.steps), {})

    def _run_level(self, run: Run, steps: list[Step], level: int) -> tuple[list[Step], bool]:
        """One level of effort; the steps that would do more with more of it, and whether all is done."""
        further = []
        ended = self._ended(run)
        for step in steps:
            key = level, next(k for k, each in enumerate(self.steps) if each is step)
            if key in ended:
                further += [step] if ended[key] is Outlook.MORE else []
                continue
            is_due = step.is_wanted(run) and not (step.is_dear and may_wait(run, level))
            if level and is_confirmed(run) and not step.is_worth_going_on(run):
                is_due = False
            outlook = self._run_step(run, step, level) if is_due else Outlook.MORE
            ended[key] = outlook
            if outlook is Outlook.SETTLED or run.is_proven:
                return [], True
            if outlook is Outlook.MORE:
                further.append(step)
        return further, False

    @staticmethod
    def _run_step(run: Run, step: Step, level: int) -> Outlook:
        run.family, run.activity = step.family, step.name
        try:
            # A proof that the end of its share broke off may go on at the next level.
            outlook = Outlook.MORE if step.may_prove or step.is_resumed else Outlook.DONE
            with run.within(step.share.of(run)):
                outlook = step.run(run, level)
            return outlook
        finally:
            run.family = run.activity = ""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What the plan says: a label and a text for each line."""
        rows = []
        if self.n_further:
            count = "a further variable for a kink"
            if self.n_further > 1:
                count = f"{self.n_further} further variables for kinks"
            rows.append(("first", f"{count}; the steps work on that problem"))
        rows += [(f"{k}. {step.name}", str(step)) for k, step in enumerate(self.steps, start=1)]
        rows.append(("time", f"a step may use {Share()}, unless it says less"))
        return rows + [("left out", str(omission)) for omission in self.omitted]

    def __str__(self) -> str:
        return columns(self.rows, WIDTH)


def make_plan(
    model: Model, p: np.ndarray, n_starts: int | None = None, effort: Effort = Effort.NORMAL
) -> Plan:
    """The plan for a model, which may consist of independent problems; see ``plan_for_one``."""
    plan_of = partial(plan_for_one, n_starts=n_starts)
    apart = Apart.made_for(model, p, plan_of, effort)
    return plan_of(model, p, effort=effort) if apart is None else Plan((apart,), effort=effort)


def plan_for_one(
    model: Model, p: np.ndarray, n_starts: int | None = None, effort: Effort = Effort.NORMAL
) -> Plan:
    """The plan for a model as one problem.

    Parameters
    ----------
    model : Model
    p : array
        Values of the parameters.
    n_starts : int, optional
        Start points of the searches; by default as many as the dimension suggests.
    effort : Effort
        When to stop without a proof.
    """
    if model.has_integers:
        return _plan_with_integers(Situation(model, p, n_starts), effort)
    if not model.is_convex_below:
        reason = "they need lower answers that are sure, which a lower level that is not convex lacks"
        steps, omitted = _choose_steps(Situation(model, p, n_starts), NONCONVEX_MEMBERS)
        return Plan(steps, (*omitted, Omission("all others", reason)), effort=effort)
    situation = Situation(model, p, n_starts)
    n_further = 0
    if not isinstance(OneProgram.consider(situation), OneProgram):
        equivalent = exact_without_kinks(model, p)
        if not equivalent.is_same:
            situation = Situation(equivalent.model, p, n_starts, stated=model)
            n_further = equivalent.n_further
    steps, omitted = _choose_steps(situation, MEMBERS)
    return Plan(steps, omitted, n_further, effort)


def _plan_with_integers(situation: Situation, effort: Effort) -> Plan:
    """The plan where variables of either level must be whole."""
    steps, omitted = _choose_steps(situation, INTEGER_MEMBERS)
    if situation.model.x.size:
        further = steps_with_plans(situation, make_plan)
        steps += tuple(step for step in further if isinstance(step, Step))
        omitted += tuple(step for step in further if isinstance(step, Omission))
    reason = "they move every variable continuously, and some must be whole here"
    return Plan(steps, (*omitted, Omission("all others", reason)), effort=effort)


def _say_whether_families_agree(run: Run) -> None:
    """A remark where only one idea has found the best point, although others looked for it."""
    values = run.best_of_families()
    if len(values) > 1 and not is_confirmed(run):
        best = min(values, key=lambda family: values[family])
        others = ", ".join(sorted(set(values) - {best}))
        run.note(f"only {best} reached the best value; {others} ended at worse ones")


def _choose_steps(
    situation: Situation, members: tuple[type[Step], ...]
) -> tuple[tuple[Step, ...], tuple[Omission, ...]]:
    steps: list[Step] = []
    omitted: list[Omission] = []
    for member in members:
        considered = member.consider(situation)
        if isinstance(considered, Step):
            steps.append(considered)
        elif considered is not None:
            omitted.append(considered)
        if isinstance(considered, LowerAnswer):
            break  # without x there is nothing to search
    return tuple(steps), tuple(omitted)
