"""Followers of a game one by one: what each could gain if the others stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.memory import remembered
from blomodel.declare.followers import Lower, follower_name
from blomodel.declare.levels import Levels
from blomodel.declare.point import Point, Values
from blomodel.declare.statement import Statement
from blomodel.model.model import Model
from blomodel.transformations.attributes import PlainVariables
from blomodel.transformations.chain import Chain

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem


def best_response_gaps(
    problem: BilevelProblem, point: Point, deadline: Deadline = NEVER
) -> dict[str, float]:
    """What each follower could gain by another answer of its own, relative to 1 + its best value.

    Infinite where a follower has no best answer, or none was found.
    """
    found = {}
    for k, chain in enumerate(_follower_chains(problem)):
        found[follower_name(problem.followers, k)] = _gap(problem, chain, point, deadline)
    return found


@remembered
def _follower_chains(problem: BilevelProblem) -> list[tuple[Chain, Model]]:
    """Each follower as the lower level of a problem in which all others are given."""
    return [_alone(problem, follower) for follower in problem.followers]


def _alone(problem: BilevelProblem, follower: Lower) -> tuple[Chain, Model]:
    own = {variable.id for variable in follower.variables}
    parts = (follower.objective.args[0], *follower.constraints)
    given = {v.id: v for part in parts for v in part.variables() if v.id not in own}
    levels = Levels(tuple(given.values()), follower.variables, problem.levels.parameters)
    # What the upper level wants does not matter for the follower's answer.
    statement = Statement(cp.Constant(0.0), (), (follower,), levels)
    chain = Chain(statement).where_accepted(PlainVariables())
    # Demands on what is given are the others' affair.
    return chain, Model(replace(chain.end, upper_constraints=()))


def _gap(problem: BilevelProblem, alone: tuple[Chain, Model], point: Point, deadline: Deadline) -> float:
    (chain, model), p = alone, problem.parameter_values()
    values: Values = point.values
    start = {leaf: values[leaf] for leaf in (*chain.start.levels.upper, *chain.start.levels.lower)}
    here = chain.forward_values(start, p)
    x, y = chain.end.levels.x.join(here), chain.end.levels.y.join(here)
    answer, _ = model.solve_lower(x, p, y, warm=False, accuracy=1e-9, deadline=deadline)
    if not answer.status.has_point:
        return np.inf
    own = float(model.g(x, y, p)[0])
    return max(own - answer.value, 0.0) / (1 + abs(answer.value))
