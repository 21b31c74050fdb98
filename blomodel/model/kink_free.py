"""The same problem with variables for the kinks of both levels: the lower level is then a QP at fixed x.

Pieces of KKT conditions, and tests of a point's neighbourhood, want rows and multipliers: a lasso has
none of them as it is written, but with t >= y and t >= -y it has. A kink of the upper level becomes an
upper variable, bounded from below by rows that may hold y.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.rewriting import Substitution, rewrite
from blomodel.compiler.lowering import lower
from blomodel.compiler.tape import Tape
from blomodel.declare.levels import Levels
from blomodel.errors import NonconvexLowerError
from blomodel.model.model import Model
from blomodel.model.sizes import SimplerSizes
from blomodel.programs.lifting import Lifting

# Where a variable lies in its level, and expressions less this variable, of which it is the largest.
Definition = tuple[slice, list[Tape]]


@dataclass(frozen=True, eq=False)
class KinkFree:
    """A model with further variables at both levels, and how to find their values."""

    model: Model
    upper: list[Definition]
    lower: list[Definition]
    sizes: tuple[int, int]  # upper and lower variables of the problem as it was written

    def lift(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The point with the further variables, as they are at an answer."""
        lifted_x, lifted_y = np.zeros(self.model.x.size), np.zeros(self.model.y.size)
        lifted_x[: x.size], lifted_y[: y.size] = x, y
        for vector, definitions in ((lifted_y, self.lower), (lifted_x, self.upper)):
            for where, parts in definitions:
                # Its own value is still 0 here. One variable may stand for the maximum of a vector.
                n = where.stop - where.start
                values = [part(lifted_x, lifted_y, p).reshape(n, -1) for part in parts]
                vector[where] = np.hstack(values).max(axis=1)
        return lifted_x, lifted_y

    def own(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The point without the further variables."""
        return x[: self.sizes[0]], y[: self.sizes[1]]


def find_kink_free(model: Model) -> KinkFree | None:
    """The problem without kinks; None where it has none, keeps some below, or is large."""
    is_small = limits.KINK_FREE_VARIABLES.allows(max(model.x.size, model.y.size))
    if not is_small or model.own_pairs is not None:
        return None
    g = rewrite(model.g_expression, SimplerSizes(model.blocks, model.x_bounds))
    below = Lifting([g], model.lower_constraints, model.blocks, model.x_bounds)
    # The upper level decides over both x and y, as far as its kinks are concerned.
    both = (Block("x", ()), Block("y", (*model.x.leaves, *model.y.leaves)), model.p)
    nothing = (np.zeros(0), np.zeros(0))
    above = Lifting([model.f_expression], model.upper_constraints, both, nothing)
    if not below.definitions and not above.definitions:
        return None
    # Rows bound the further variables from below, so that signs of their own would say nothing more.
    further = [variable for lifting in (above, below) for variable, _ in lifting.definitions]
    free = [cp.Variable(variable.shape, name=variable.name()) for variable in further]
    substitute = Substitution(further, free)
    n_above = len(above.definitions)
    levels = Levels(
        (*model.x.leaves, *free[:n_above]), (*model.y.leaves, *free[n_above:]), model.p.leaves
    )

    def all_of(constraints: list[Constraint]) -> list[Constraint]:
        return [substitute(constraint) for constraint in constraints]

    try:
        lifted = Model(
            substitute(above.terms[0]),
            all_of(above.constraints),
            substitute(below.terms[0]),
            all_of(below.constraints),
            levels,
        )
        if lifted.lower_program.kind == "conic":
            return None
    except NonconvexLowerError:
        return None

    def definitions(lifting: Lifting, leaves: list[cp.Variable], block: Block) -> list[Definition]:
        return [
            (block.slice_of(leaf), [lower([substitute(part) - leaf], lifted.blocks) for part in parts])
            for leaf, (_, parts) in zip(leaves, lifting.definitions, strict=True)
        ]

    return KinkFree(
        lifted,
        definitions(above, free[:n_above], lifted.x),
        definitions(below, free[n_above:], lifted.y),
        (model.x.size, model.y.size),
    )
