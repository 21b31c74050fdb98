"""Why a problem has no answer: which level, which constraints, and by how much at best."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint
from cvxpy.utilities.canonical import Canonical

from blomodel.basics import limits
from blomodel.basics.arrays import dense
from blomodel.basics.deadline import Deadline
from blomodel.basics.interrupts import Interrupts
from blomodel.basics.kept_values import kept_values
from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.nash import Nash
from blomodel.declare.point import Point
from blomodel.errors import LevelWarning
from blomodel.methods.run.run import OPTIMALITY_GAP
from blomodel.programs.by_cvxpy import solve_by_cvxpy
from blomodel.solvers.choice import current_choice
from blomodel.structure.facts import holding
from blomodel.text.shorten import shorten

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

N_STARTS = 4  # of the search for the least violation, which comes after a whole solve
VIOLATED = 1e-6  # relative to the largest entry of the point


@dataclass(frozen=True)
class Conflict:
    """A constraint that cannot hold with others.

    Attributes
    ----------
    level : {"upper", "lower"}
    constraint : cvxpy constraint
    violation : float
        By how much it is violated where the conflict's constraints are violated least in total.
    """

    level: str
    constraint: Canonical | str  # its text, where a solution was read from a file
    violation: float


@dataclass(frozen=True)
class NoAnswer:
    """Why there is no answer.

    Attributes
    ----------
    kind : str
        "lower infeasible", "lower unbounded", "upper constraint violated", "relaxation infeasible",
        "unbounded", "not attained" or "diverged".
    reason : str
        A sentence.
    conflicts : tuple of Conflict
        The constraints that it is about.
    is_proven : bool
        Whether a solver has shown it; otherwise it is what searches have seen.
    """

    kind: str
    reason: str
    conflicts: tuple[Conflict, ...] = ()
    is_proven: bool = True

    @property
    def sentence(self) -> str:
        """The reason, with the constraints that it is about."""
        names = "; ".join(shorten(conflict.constraint, 60) for conflict in self.conflicts)
        return f"{self.reason} ({names})" if names else self.reason


def explain_relaxation(problem: BilevelProblem, deadline: Deadline) -> NoAnswer | None:
    """Whether both levels' constraints alone leave no point, and which of them are in conflict."""
    own = [("upper", c) for c in problem.constraints]
    own += [("lower", c) for c in problem.lower.constraints]
    conflicts = _find_conflict(own, deadline)
    if not conflicts:
        return None
    if all(conflict.level == "lower" for conflict in conflicts):
        reason = "the lower level's constraints contradict each other, whatever x is"
        return NoAnswer("lower infeasible", reason, conflicts)
    reason = "no point satisfies the constraints of both levels together, whoever decides y"
    return NoAnswer("relaxation infeasible", reason, conflicts)


def explain_lower_at(problem: BilevelProblem, x: np.ndarray, deadline: Deadline) -> tuple[Conflict, ...]:
    """The lower constraints that are in conflict at an x of ``problem.levels``."""
    values = problem.levels.x.unpack(x).values()
    fixed = Substitution(problem.levels.upper, tuple(map(cp.Constant, values)))
    stated = list(problem.lower.constraints)
    found = _find_conflict([("lower", fixed(c)) for c in stated], deadline, stated)
    return found or ()


def explain_coupling(
    problem: BilevelProblem, *, tolerance: float, seed: int, deadline: Deadline
) -> tuple[NoAnswer | None, Point | None]:
    """The least violation of upper constraints that hold y, over all lower answers.

    Solves the bilevel problem whose upper level minimises these violations. Returns why there is no
    answer, or else the point that the violations leave, as one of the model that is solved.
    """
    from blomodel.solve.solving import solve_problem

    coupled = holding(problem.constraints, problem.levels.lower)
    rows = [as_row(constraint)[0] for constraint in coupled]
    if not coupled or any(kind not in (EQUALITY, INEQUALITY) for kind in rows):
        return None, None
    slacks = [cp.Variable(nonneg=True, name=f"violation_{k}") for k in range(len(coupled))]
    others = [c for c in problem.constraints if not any(c is held for held in coupled)]
    soft = [part for c, slack in zip(coupled, slacks, strict=True) for part in _softened(c, slack)]
    total = cp.Minimize(cp.sum(cp.hstack(slacks)))
    lower = Nash(problem.followers) if problem.is_game else list(problem.followers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LevelWarning)  # the user has been told
        elastic = type(problem)(total, others + soft, lower)
    duals = [d for f in problem.followers for c in f.constraints for d in c.dual_variables]
    with kept_values([*problem.variables, *duals]):
        solve_problem(
            elastic,
            "auto",
            began=time.perf_counter(),
            interrupts=Interrupts(),  # the problem's own solve listens
            progress=None,
            time_limit=deadline.remaining,
            max_iterations=None,
            optimality_gap=OPTIMALITY_GAP,
            tolerance=tolerance,
            seed=seed,
            n_jobs=1,
            choice=current_choice(),
            settings={"n_starts": N_STARTS},
            is_explained=False,
        )
        if elastic.status is None or not elastic.status.has_point:
            return None, None
        if any(leaf.value is None for leaf in problem.variables):
            return None, None  # multipliers, which the elastic problem does not use
        stated = Point.present(problem.levels)
        violations = [float(slack.value) for slack in slacks]
    scale = 1 + max(np.abs(part).max(initial=0) for part in (stated.x, stated.y))
    broken = tuple(
        Conflict("upper", constraint, violation)
        for constraint, violation in zip(coupled, violations, strict=True)
        if violation > tolerance * scale
    )
    if not broken:
        return None, problem.chain.forward(stated, problem.parameter_values())
    is_proven = elastic.status == "optimal"
    reason = "every lower answer violates an upper constraint"
    if not is_proven:
        reason = "every lower answer that was found violates an upper constraint"
    return NoAnswer("upper constraint violated", reason, broken, is_proven), None


def _softened(constraint: Constraint, slack: cp.Variable) -> list[Constraint]:
    kind, expression = as_row(constraint)
    return [expression <= slack] if kind == INEQUALITY else [expression <= slack, -expression <= slack]


def _find_conflict(
    constraints: Sequence[tuple[str, Constraint]],
    deadline: Deadline,
    stated: Sequence[Constraint] | None = None,
) -> tuple[Conflict, ...] | None:
    """A set of constraints that cannot hold together, none of which could be left out.

    None when all of them can hold, or when this is no convex question. ``stated`` is what to name in
    their place.
    """
    if not constraints or not all(c.is_dcp() for _, c in constraints):
        return None
    if not _is_violated(_least_violations([c for _, c in constraints])):
        return None
    chosen = list(range(len(constraints)))
    if limits.FILTERED_CONSTRAINTS.allows(len(chosen)):
        for k in list(chosen):
            if deadline.is_over:
                break
            rest = [other for other in chosen if other != k]
            if _is_violated(_least_violations([constraints[i][1] for i in rest])):
                chosen = rest
    found = _least_violations([constraints[k][1] for k in chosen])
    assert found is not None
    names = [c for _, c in constraints] if stated is None else stated
    return tuple(
        Conflict(constraints[k][0], names[k], violation)
        for k, violation in zip(chosen, found[0], strict=True)
    )


def _is_violated(found: tuple[np.ndarray, float] | None) -> bool:
    return found is not None and float(found[0].sum()) > VIOLATED * found[1]


def _least_violations(constraints: Sequence[Constraint]) -> tuple[np.ndarray, float] | None:
    """Violations whose sum is least, and the size of the point; None where no solver finds them."""
    slacks = cp.Variable(max(len(constraints), 1), nonneg=True)
    rows: list[Constraint] = []
    for k, constraint in enumerate(constraints):
        kind, expression = as_row(constraint)
        if kind == INEQUALITY:
            rows.append(expression <= slacks[k])
        elif kind == EQUALITY:
            rows.append(cp.abs(expression) <= slacks[k])
        else:
            rows.append(expression + slacks[k] * np.eye(expression.shape[0]) >> 0)
    elastic = cp.Problem(cp.Minimize(cp.sum(slacks)), rows)
    leaves = elastic.variables()
    with kept_values(leaves), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate solve is noticed by its status
        try:
            solve_by_cvxpy(elastic, cp.CLARABEL)
        except cp.SolverError:
            return None
        if elastic.status != cp.OPTIMAL:
            return None
        largest = max(float(np.abs(dense(leaf.value)).max(initial=0)) for leaf in leaves)
        return np.maximum(slacks.value[: len(constraints)], 0.0), 1 + largest
