"""Integers above and below: what ``auto`` does with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from blomodel.errors import ModelError
from blomodel.methods.portfolio.effort import Effort
from blomodel.methods.portfolio.planned import PlannedStep, PlanOf
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Step
from blomodel.methods.run.run import Findings, Run
from blomodel.methods.search.bounding import Bounding
from blomodel.methods.search.integer_answer import answer_at
from blomodel.model.model import Model
from blomodel.reformulations.forms.bounding import why_no_bounds
from blomodel.solvers.branching.scip import is_installed
from blomodel.text.layout import counted
from blomodel.transformations.fixed_integers import FixedIntegers, fixed_integers

# At the first level of effort; each further level has four times more.
FIRST_NODES = 400  # of branch and bound
FIRST_VALUES = 64  # combinations that are tried one by one
ROUNDINGS = 8  # of a relaxed point, at each level
NEAR = 0.02  # chance with which an entry of a relaxed point is rounded the other way, at least


def solve_the_rest(run: Run, fixed: FixedIntegers, values: np.ndarray, plan_of: PlanOf) -> float:
    """Solve for what is not whole above, with the integers given; a bound for these values.

    The best point is proposed. The bound is infinite where there is no point at all.
    """
    if not fixed.allows(run.p, values):
        return math.inf
    if fixed.model.x.size == 0:
        return answer_at(run, fixed.join(np.empty(0), values), "lower answer for given integers")
    p = fixed.parameters(run.p, values)
    part = run.anew(model=fixed.model, p=p, start=None, progress=None)
    try:
        plan_of(fixed.model, p, effort=Effort.QUICK).run(part)
    finally:
        _count(run, part)
        best = part.best()
        if best is not None:
            run.propose(fixed.join(best.x, values), best.y, "the rest for given integers")
    if part.is_infeasible:
        return math.inf
    return max(part.bound, part.least_value)


def _count(run: Run, part: Findings) -> None:
    run.iterations += part.iterations
    run.evaluations += part.evaluations
    run.inner_solvers.update(part.inner_solvers)


@dataclass(frozen=True)
class IntegerBounds(Step):
    """Branch and bound over both levels, with cuts for lower answers."""

    has_integers_below: bool
    n_integers: int
    count: float  # combinations of all integers within their bounds
    n_pairs: int

    name = "branch and bound over both levels"
    family = "branch and bound"
    may_prove = True

    @classmethod
    def consider(cls, situation: Situation) -> IntegerBounds | Omission:
        """Where SCIP is there and has words for all functions."""
        model = situation.model
        if not is_installed():
            return Omission(cls.name, "it needs SCIP (pip install pyscipopt)")
        reason = why_no_bounds(model)
        if reason is not None:
            return Omission(cls.name, reason)
        count = n_combinations(model, situation.p)
        n_pairs = 0 if model.integer_y.any() else model.n_pairs
        n_integers = int(model.integer_x.sum() + model.integer_y.sum())
        return cls(bool(model.integer_y.any()), n_integers, count, n_pairs)

    @property
    def text(self) -> str:
        """What it does and why."""
        upper = f"{self.count:.3g} combinations of integers" if math.isfinite(self.count) else "no bound"
        if self.has_integers_below:
            return (
                "SCIP minimises f over both levels' constraints; at its x the lower level is solved as "
                "a mixed-integer program, and the answer cuts off what the lower level would leave. "
                f"{counted(self.n_integers, 'integer')} in all; the rounds are at worst as "
                "many as the upper level "
                f"has decisions ({upper}), and mostly few"
            )
        return (
            "SCIP minimises f over both levels' constraints and the lower level's optimality "
            f"conditions, branching on {counted(self.n_integers, 'integer')} and "
            f"{counted(self.n_pairs, 'pair')} of row and multiplier; at worst {upper}, times "
            f"2^{self.n_pairs}"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Go on with the tree."""
        bounding = run.once(Bounding, lambda: Bounding(run, run.optimality_gap))
        if bounding.go_on(run, FIRST_NODES * 4.0**level) or run.is_infeasible:
            return Outlook.SETTLED
        return Outlook.DONE if bounding.has_ended else Outlook.MORE


@dataclass(frozen=True)
class _WhileUnproven(PlannedStep):
    """A step with plans of its own that is taken until something is proven."""

    def is_wanted(self, run: Run) -> bool:
        """Whether nothing is proven yet."""
        return not is_proven_best(run)


@dataclass(frozen=True)
class RoundedRelaxation(_WhileUnproven):
    """Relax the integers, solve, round, and solve the rest again."""

    n_integers: int

    name = "relax, round and repair"
    family = "rounding"

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "the problem without the demand that "
            f"{counted(self.n_integers, 'upper variable')} be whole, by its "
            f"own plan; its points rounded in up to {ROUNDINGS} ways, and the rest solved for each"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Relax once; round in other ways at every level."""
        model = run.model
        relaxed = run.once("relaxed", lambda: Model(replace(model.statement, integers={})))
        part: Run = run.once(
            "relaxed run", lambda: run.anew(model=relaxed, start=run.start, progress=None)
        )
        if level == 0:
            try:
                self.plan_of(relaxed, run.p, effort=Effort.QUICK).run(part)
            except ModelError:
                return Outlook.DONE
            finally:
                _count(run, part)
                self._take_bound(run, part)
        if run.is_infeasible:
            return Outlook.SETTLED
        fixed = fixed_integers(model)
        best = next(iter(part.ranking()), None)
        if best is None:
            return Outlook.DONE
        tried: set[bytes] = run.once("rounded", set)
        for values in _roundings(best.x[model.integer_x], model, run, level):
            if values.tobytes() not in tried:
                tried.add(values.tobytes())
                run.check_limits()
                solve_the_rest(run, fixed, values, self.plan_of)
            if is_proven_best(run):
                return Outlook.SETTLED
        return Outlook.MORE

    @staticmethod
    def _take_bound(run: Run, part: Run) -> None:
        """What bounds the relaxation, bounds the problem, if the lower level is the same one."""
        if run.model.integer_y.any():
            return
        if part.is_infeasible:
            run.is_infeasible = True
        source = f"the relaxation of integers: {part.bound_source}"
        run.raise_bound(part.bound, source, part.bound_slack, is_lowered=True)


def _roundings(x: np.ndarray, model: Model, run: Run, level: int) -> Iterator[np.ndarray]:
    """The nearest whole vector, then such that depend on the fractions and on chance."""
    low, high = integer_ranges(model, run.p)
    yield np.clip(np.round(x), low, high)
    draw = np.random.default_rng(run.seed + 1000 * level)
    for _ in range(ROUNDINGS - 1):
        part = np.clip(x - np.floor(x), NEAR, 1 - NEAR)
        yield np.clip(np.floor(x) + (draw.random(x.size) < part), low, high)


@dataclass(frozen=True)
class EveryInteger(_WhileUnproven):
    """All values of the upper integers, one after another."""

    count: float

    name = "every value of the integers"
    family = "enumeration"
    may_prove = True

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"{self.count:,.0f} combinations of integers within their bounds, the rest solved for "
            "each; a proof where each of them is proven"
        )

    @property
    def condition(self) -> str:
        """When it is tried."""
        return f"once the effort allows so many (first up to {FIRST_VALUES})"

    def run(self, run: Run, level: int) -> Outlook:
        """Try all combinations if they are few enough for the level."""
        if self.count > FIRST_VALUES * 4.0**level:
            return Outlook.MORE
        model, fixed = run.model, fixed_integers(run.model)
        low, high = integer_ranges(model, run.p)
        ranges = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
        bound = math.inf
        for values in itertools.product(*ranges):
            run.check_limits()
            bound = min(bound, solve_the_rest(run, fixed, np.array(values, dtype=float), self.plan_of))
        if bound == math.inf and run.best() is None:
            run.is_infeasible = True
        else:
            run.raise_bound(bound, f"all {self.count:,.0f} combinations of integers")
        return Outlook.SETTLED if is_proven_best(run) or run.is_infeasible else Outlook.DONE


def integer_ranges(model: Model, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each upper integer; infinite without a bound."""
    low, high = (bound[model.integer_x] for bound in model.bounds(p))
    return np.ceil(low - 1e-9), np.floor(high + 1e-9)


def n_combinations(model: Model, p: np.ndarray) -> float:
    """How many values the upper integers have together; infinite without bounds."""
    low, high = integer_ranges(model, p)
    return float(np.prod(np.maximum(high - low + 1, 0.0)))


def steps_with_plans(situation: Situation, plan_of: PlanOf) -> list[Step | Omission]:
    """The steps that solve other problems by plans of their own."""
    model = situation.model
    if not model.integer_x.any():
        return []
    found: list[Step | Omission] = [RoundedRelaxation(plan_of, int(model.integer_x.sum()))]
    count = n_combinations(model, situation.p)
    if math.isfinite(count):
        found.append(EveryInteger(plan_of, count))
    else:
        found.append(Omission(EveryInteger.name, "an upper integer has no finite bounds"))
    return found
