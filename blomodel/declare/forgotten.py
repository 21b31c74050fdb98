"""Variables that were probably forgotten in the list of a lower level.

A hyper-parameter occurs in the lower level only, as a forgotten lower variable does. Two things tell
them apart. The upper level speaks about other variables, and gives this one not even a bound. And the
lower level is convex in its own variables and this one together, as it is in a variable of its own; a
weight multiplies what the lower level decides, and such a product is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.followers import Lower
from blomodel.declare.levels import Levels
from blomodel.errors import LevelWarning


def forgotten_variables(
    levels: Levels, upper_parts: Sequence[cp.Expression | Constraint], followers: Sequence[Lower]
) -> list[cp.Variable]:
    """Upper variables that look as if the lower level were meant to decide them."""
    above = {variable.id for part in upper_parts for variable in part.variables()}
    spoken_of = [variable for variable in levels.upper if variable.id in above]
    silent = [
        variable
        for variable in levels.upper
        if variable.id not in above and not any(_is_set(v) for v in variable.attributes.values())
    ]
    if not spoken_of or not silent:
        return []
    fixed = Substitution(spoken_of, [cp.Parameter(variable.shape) for variable in spoken_of])
    found = []
    for variable in silent:
        owners = [follower for follower in followers if _uses(follower, variable)]
        # More than one follower feels what the upper level decides; what a follower decides, it alone.
        if len(owners) == 1 and _is_convex_with(owners[0], variable, fixed):
            found.append(variable)
    return found


def warn_of_forgotten(
    levels: Levels,
    upper_parts: Sequence[cp.Expression | Constraint],
    followers: Sequence[Lower],
    stacklevel: int,
) -> None:
    """Name the variables that were probably forgotten, and how to say that they were not."""
    found = forgotten_variables(levels, upper_parts, followers)
    if not found:
        return
    names = ", ".join(f"'{variable.name()}'" for variable in found)
    it = "it" if len(found) == 1 else "them"
    every = ", ".join(variable.name() for variable in levels.upper)
    warnings.warn(
        f"Only the lower level uses {names}, and is convex in {it}; the upper level gives {it} no "
        f"bound: forgotten in variables=[...] of bm.Lower? As it stands, the upper level decides {it}. "
        f"If that is meant, say bm.BilevelProblem(..., variables=[{every}]).",
        LevelWarning,
        stacklevel=stacklevel,
    )


def _is_set(attribute: object) -> bool:
    return attribute is not None and attribute is not False


def _parts(follower: Lower) -> list[cp.Expression | Constraint]:
    return [follower.objective.args[0], *follower.constraints]


def _uses(follower: Lower, variable: cp.Variable) -> bool:
    return any(variable.id in {leaf.id for leaf in part.variables()} for part in _parts(follower))


def _is_convex_with(follower: Lower, variable: cp.Variable, fixed: Substitution) -> bool:
    """Whether the parts with the variable are convex in it and in what the follower decides."""
    for part in _parts(follower):
        if variable.id not in {leaf.id for leaf in part.variables()}:
            continue
        stated = fixed(part)
        if isinstance(stated, Constraint):
            if not stated.is_dcp():
                return False
        elif not (
            stated.is_convex() if isinstance(follower.objective, cp.Minimize) else stated.is_concave()
        ):
            return False
    return True
