r"""The lower level's multipliers as part of its answer, so that the upper level can use them.

For :math:`g = \tfrac12 y'Qy + q(x)'y + r(x)` and rows :math:`A(x)y \le b(x)` (and equations), the
pair of answer and multipliers solves one lower level of its own,

.. math:: \min_{y,\lambda}\; g(x,y) + \bigl[y'Qy + q(x)'y + \lambda\cdot b(x)\bigr] \quad\text{s.t.}\quad
          A(x)y \le b(x),\; Qy + q(x) + A(x)'\lambda = 0,\; \lambda \ge 0.

The bracket is the gap between primal and dual value, nonnegative and zero exactly at the optimal
pairs, where g is least too. So the optimal value is v(x), and the lower gap of a certificate
bounds both what y leaves to gain and how far lambda is from being its multiplier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import cvxpy as cp
import numpy as np

from blomodel.basics.kept_values import kept_values
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.followers import Lower
from blomodel.declare.point import Values
from blomodel.declare.statement import Partner, Statement
from blomodel.errors import ModelError
from blomodel.programs.by_cvxpy import solve_by_cvxpy
from blomodel.text.shorten import some_of
from blomodel.transformations.transformation import Applied, Transformation


class MultipliersInAnswer(Transformation):
    """The lower level answers with its multipliers too, where the upper level uses one."""

    name: ClassVar[str] = "multipliers in the answer"

    def obstacle(self, statement: Statement) -> str | None:
        """The upper level must use a multiplier, and the followers must have been joined."""
        if len(statement.followers) > 1:
            return "there are several followers"
        return None if statement.priced_rows else "the upper level uses no multiplier"

    def apply(self, statement: Statement) -> Applied:
        """A ModelError says why a level has no multipliers that can be used this way."""
        # It finds the level's coefficients by compiling it, which other problems do without.
        from blomodel.transformations.primal_dual import primal_dual

        primal, rows = statement.lower, statement.priced_rows
        for variable in primal.variables:
            if variable.id in statement.integers:
                raise ModelError(
                    f"The upper level uses a multiplier of the lower level, but '{variable.name()}' is "
                    "declared integer or boolean there: the value of such a level jumps with its rows, "
                    "so that it has no multipliers. State the price as a variable of its own, or relax "
                    f"'{variable.name()}'."
                )
        n_stated = len(primal.constraints)
        # Attributes' demands are compiled after all constraints, the last of which is stationarity.
        partners = [Partner(n_stated, tuple(primal.variables), is_stationarity=True)]
        for position, row in enumerate(rows):
            place = position if position < n_stated else position + 1
            partners.append(Partner(place, (row.multiplier,)))
        after = replace(
            statement,
            followers=(primal_dual(primal, rows),),
            priced_rows=(),
            partners=tuple(partners),
        )
        used = {variable.id for variable in _upper_variables(statement)}
        names = some_of(r.multiplier.name() for r in rows if r.multiplier.id in used)
        reason = f"the upper level uses {names}, so multipliers are part of the lower answer"
        return WithMultipliers(self.name, reason, statement, after)


def _upper_variables(statement: Statement) -> list[cp.Variable]:
    parts = [statement.upper_objective, *statement.upper_constraints]
    return [variable for part in parts for variable in part.variables()]


class WithMultipliers(Applied):
    """A lower level that answers with its multipliers too, and the way back."""

    def forward(self, values: Values, p: np.ndarray) -> Values:
        """The values with the multipliers that were not given: those that fit the others best."""
        level, rows = self.after.lower, self.before.priced_rows
        missing = [row.multiplier for row in rows if row.multiplier not in values]
        own = {row.multiplier.id for row in rows}
        everything = (*self.after.levels.upper, *self.after.levels.lower)
        is_known = all(leaf in values for leaf in everything if leaf.id not in own)
        if not missing or not is_known:
            return values
        return {**values, **_fit(level, {leaf: values[leaf] for leaf in everything if leaf in values})}

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """The multipliers in the answer, not those of the level that holds them."""
        n_stated = sum(len(follower.constraints) for follower in self.before.followers)
        stated = self.before.priced_rows[:n_stated]
        return [values[row.multiplier] for row in stated]


def _fit(level: Lower, known: Values) -> Values:
    """Multipliers that satisfy stationarity, the level's last constraint, and close the gap best."""
    missing = [leaf for leaf in level.variables if leaf not in known]
    substitute = Substitution([*known], [cp.Constant(value) for value in known.values()])
    fit = cp.Problem(cp.Minimize(substitute(level.minimised)), [substitute(level.constraints[-1])])
    with kept_values(missing):
        try:
            solve_by_cvxpy(fit, cp.CLARABEL)
            found = [leaf.value for leaf in missing]
        except cp.SolverError:
            found = [None] * len(missing)
    # Without any that fit, zeros will do: the certificate refuses the point.
    return {
        leaf: np.zeros(leaf.shape) if value is None else np.asarray(value)
        for leaf, value in zip(missing, found, strict=True)
    }
