"""Copies of problems: sent to another process with what was found, or made beside the original.

What is compiled stays behind, since solvers cannot be sent; a copy compiles again on first use.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.leaf_ids import next_leaf_id
from blomodel.compiler.expressions.rewriting import rewrite
from blomodel.declare.followers import Lower
from blomodel.declare.nash import Nash
from blomodel.errors import LevelWarning

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.solve.stated import StatedProblem

    Problem = TypeVar("Problem", bound=StatedProblem)

KEPT = (
    "objective",
    "constraints",
    "is_game",
    "followers",
    "transformations",
    "declared",
    "status",
    "user_start",
)


def portable_state(problem: StatedProblem) -> dict[str, Any]:
    """What a pickled problem consists of: what was stated and what was found, nothing compiled."""
    state = {name: getattr(problem, name) for name in KEPT}
    solution = problem.solution
    state["solution"] = None if solution is None else replace(solution, problem=None)
    state["_certificate"] = problem._certificate
    # Multipliers that the lower level answers with are made anew, without values.
    state["values"] = [leaf.value for leaf in problem.variables]
    state["first_free_id"] = next_leaf_id()
    return state


def deep_copy(problem: Problem, memo: dict[int, Any]) -> Problem:
    """The same problem in variables and parameters of its own, with their values and what was found.

    cvxpy's own deep copies of a variable keep forms of it that name the original, so that expressions
    are written anew on new leaves here.
    """
    own = {leaf for follower in problem.followers for leaf in follower.multipliers.values()}
    leaves = [leaf for leaf in (*problem.variables, *problem.parameters) if leaf not in own]
    renewed = {leaf: _renewed(leaf) for leaf in leaves}
    followers = []
    for follower in problem.followers:
        constraints = [_written_on(renewed, constraint) for constraint in follower.constraints]
        objective = type(follower.objective)(_written_on(renewed, follower.objective.args[0]))
        variables = [renewed[leaf] for leaf in follower.variables]
        followers.append(Lower(objective, constraints, variables, name=follower.name))
        for old, new in zip(follower.constraints, constraints, strict=True):
            if old.id in follower.multipliers:  # which the upper level may hold
                renewed[follower.multipliers[old.id]] = followers[-1].multiplier(new)
    declared = problem.declared
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LevelWarning)  # the user has been told
        made = type(problem)(
            type(problem.objective)(_written_on(renewed, problem.objective.args[0])),
            [_written_on(renewed, constraint) for constraint in problem.constraints],
            Nash(followers) if problem.is_game else followers,
            None if declared is None else [renewed[leaf] for leaf in declared],
            problem.transformations,
        )
    memo[id(problem)] = made
    memo |= {id(old): new for old, new in renewed.items()}
    _copy_values(_leaves(problem), _leaves(made))
    made.status, made.certificate = problem.status, problem._certificate
    if problem.solution is not None:
        made.solution = replace(problem.solution, problem=cast("BilevelProblem", made))
    made.user_start = problem.user_start.of(dict(zip(problem.variables, made.variables, strict=True)))
    return made


def _written_on(renewed: dict[Any, Any], part: Any) -> Any:
    """An expression or a constraint with other leaves."""
    table = {leaf.id: other for leaf, other in renewed.items()}

    def replacement(inner: Any) -> Any:
        is_leaf = isinstance(inner, cp.Variable | cp.Parameter)
        return table.get(inner.id) if is_leaf else None

    written = rewrite(part, replacement)
    if isinstance(part, Constraint) and part.label:
        written.set_label(part.label)
    return written


def _renewed(leaf: Any) -> Any:
    """A leaf of the same kind, name, shape and attributes."""
    declared = leaf.attributes.items()
    attributes = {name: value for name, value in declared if value is not None and value is not False}
    kind = cp.Parameter if isinstance(leaf, cp.Parameter) else cp.Variable
    return kind(leaf.shape, name=leaf.name(), **attributes)


def _leaves(problem: StatedProblem) -> Iterable[cp.Variable]:
    """Variables, parameters and the constraints' dual variables, in an order that copies share."""
    levels: list[Any] = [problem, *problem.followers]
    duals = [dual for level in levels for row in level.constraints for dual in row.dual_variables]
    return [*problem.variables, *problem.parameters, *duals]


def _copy_values(old: Iterable[Any], new: Iterable[Any]) -> None:
    for source, target in zip(old, new, strict=True):
        target.save_value(copy.copy(source.value))
