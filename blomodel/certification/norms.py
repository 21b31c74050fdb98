"""Euclidean norms of the lower objective that are zero at an answer: the manifold on which they stay so.

A norm whose argument vanishes, and whose dual vector is strictly shorter than its weight, keeps a
vanishing argument for all x nearby. There the lower level is the one with that argument fixed at zero,
which has no kink, so that what is shown about it holds for the problem itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.pnorm import Pnorm, PnormApprox

from blomodel.basics.kept_values import kept_values
from blomodel.basics.memory import remembered
from blomodel.compiler.expressions.rewriting import rewrite
from blomodel.declare.followers import Lower
from blomodel.declare.levels import Levels
from blomodel.model.model import Model

ZERO = 1e-6  # relative length of an argument that counts as zero
STRICT = 1e-5  # by which a dual vector must be shorter than the weight, relative


@dataclass(frozen=True)
class Manifold:
    """A model whose vanishing norms are fixed at zero.

    Attributes
    ----------
    model : Model
        With one more lower variable for each such norm, its value, which is zero.
    positions : list of pairs
        For each norm: the positions of the constraints that fix argument and value.
    """

    model: Model
    positions: list[tuple[int, int]]

    @property
    def n_further(self) -> int:
        """Lower variables that the model has more."""
        return len(self.positions)

    def holds(self, model: Model, multipliers: np.ndarray) -> bool:
        """Whether the norms stay zero nearby; multipliers of ``model``, which may have further rows."""
        equal = multipliers[len(model.lower_in) :]
        for argument, value in self.positions:
            length = np.linalg.norm(equal[model.lower_eq.slices[argument]])
            weight = -float(equal[model.lower_eq.slices[value]][0])
            if not length <= (1 - STRICT) * weight:
                return False
        return True


def manifold_of_norms(model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray) -> Manifold | None:
    """The model on the manifold of its vanishing norms; None where no norm vanishes."""
    if model.statement.partners:
        return None
    leaves = [*model.x.leaves, *model.y.leaves]
    found: list[cp.Expression] = []
    with kept_values(leaves):
        model.x.assign(x)
        model.y.assign(y)
        size = 1 + np.abs(y).max(initial=0.0)
        norms = _norms(model.g_expression)
        for norm in norms:
            value = np.asarray(norm.value, dtype=float)
            if value.size and np.all(np.isfinite(value)) and value.min() <= ZERO * size:
                found.append(norm)
        groups = tuple(
            (id(norm), tuple(np.ravel(np.asarray(norm.value) <= ZERO * size, order="F")))
            for norm in found
        )
    if not found:
        return None
    return _fixed(model, groups)


def _norms(expression: cp.Expression) -> list[cp.Expression]:
    if isinstance(expression, Pnorm | PnormApprox) and expression.p == 2:
        return [expression] if expression.variables() else []
    return [norm for argument in expression.args for norm in _norms(argument)]


@remembered  # the certificate asks again at points nearby
def _fixed(model: Model, groups: tuple[tuple[int, tuple[bool, ...]], ...]) -> Manifold:
    statement = model.statement
    level = statement.lower
    is_zero = dict(groups)
    values: list[cp.Variable] = []
    rows: list[cp.Constraint] = []
    positions: list[tuple[int, int]] = []
    begin = len(level.constraints)

    def fix(argument: cp.Expression) -> cp.Variable:
        value = cp.Variable(name=f"norm{len(values)}")
        values.append(value)
        positions.append((begin + len(rows), begin + len(rows) + 1))
        rows.extend([cp.vec(argument, order="F") == 0, value == 0])
        return value

    def exchange(part: cp.Expression) -> cp.Expression | None:
        if isinstance(part, norm1 | abs_atom) and part.args[0].is_nonneg():
            # A sum of norms, as a mixed norm is, would get kinks where one of them is fixed at zero.
            inside = rewrite(part.args[0], exchange)
            is_sum = isinstance(part, norm1)
            return cp.sum(inside, axis=part.axis, keepdims=part.keepdims) if is_sum else inside
        if id(part) not in is_zero:
            return None
        zero, argument = is_zero[id(part)], part.args[0]
        if part.axis is None:
            return fix(argument)
        lines = [argument[k, :] if part.axis == 1 else argument[:, k] for k in range(len(zero))]
        one_by_one = [fix(line) if z else cp.norm(line, 2) for line, z in zip(lines, zero, strict=True)]
        return cp.reshape(cp.hstack(one_by_one), part.shape, order="F")

    objective = rewrite(model.g_expression, exchange)
    variables = (*statement.levels.lower, *values)
    after = replace(
        statement,
        followers=(
            Lower(cp.Minimize(objective), [*level.constraints, *rows], variables, name=level.name),
        ),
        levels=Levels(statement.levels.upper, variables, statement.levels.parameters),
    )
    return Manifold(Model(after), positions)
