"""Atoms that cvxpy calls convex only on part of the line, though they have values elsewhere.

cvxpy reads ``y**3`` as "y**3 where y >= 0, infinite elsewhere", and minimises that. A reader means
the cube, which is not convex, so such an atom needs a proof that its argument stays nonnegative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.atoms import traits_of


def hidden_domains(parts: Sequence[cp.Expression | Constraint]) -> list[cp.Expression]:
    """Sub-expressions that must be nonnegative for cvxpy's reading of their atom to be the plain one."""
    found: list[cp.Expression] = []
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        waiting += part.args
        if isinstance(part, Constraint) or not part.args or part.is_constant():
            continue
        found += traits_of(part).hidden_domain(part)
    return [argument for argument in found if argument.variables() and not argument.is_nonneg()]


def first_unproven(
    parts: Sequence[cp.Expression | Constraint],
    smallest_value: Callable[[cp.Expression], float],
) -> cp.Expression | None:
    """The first hidden domain that ``smallest_value`` (a sound lower bound) does not prove."""
    for argument in hidden_domains(parts):
        if not smallest_value(argument) >= 0:
            return argument
    return None
