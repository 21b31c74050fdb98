"""Several followers as one lower level.

None of them holds another's variables, so the sum of the objectives (each as something to minimise) is
least exactly where every single one is. Points, multipliers and values stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import cvxpy as cp
from cvxpy.atoms.affine.add_expr import AddExpression

from blomodel.declare.followers import Lower, follower_name, joint_name
from blomodel.declare.statement import Statement
from blomodel.text.shorten import some_of
from blomodel.transformations.transformation import Applied, Transformation


class JoinFollowers(Transformation):
    """One lower level that stands for all followers."""

    name: ClassVar[str] = "followers joined"

    def obstacle(self, statement: Statement) -> str | None:
        """There must be several."""
        if statement.is_game:
            return "they see one another"
        return None if len(statement.followers) > 1 else "there is one follower"

    def apply(self, statement: Statement) -> Applied:
        """Their constraints and variables follow one another in the order of the followers."""
        followers = statement.followers
        names = some_of(follower_name(followers, k) for k in range(len(followers)))
        return Applied(
            name=self.name,
            reason=f"{names} share no variable, so the sum of their objectives stands for each",
            before=statement,
            after=replace(statement, followers=(_join(followers),)),
        )


def _join(followers: Sequence[Lower]) -> Lower:
    # Where all maximise, so does the joint level, and its value is what a user expects.
    if all(follower.sign < 0 for follower in followers):
        objective = cp.Maximize(AddExpression([follower.objective.args[0] for follower in followers]))
    else:
        objective = cp.Minimize(AddExpression([follower.minimised for follower in followers]))
    joint = Lower(
        objective,
        [constraint for follower in followers for constraint in follower.constraints],
        [variable for follower in followers for variable in follower.variables],
        name=joint_name(followers),
    )
    for follower in followers:
        joint.multipliers.update(follower.multipliers)
    return joint
