"""The same problem with variables for the kinks of its lower level, which is then a QP at fixed x.

Pieces of KKT conditions, and tests of a point's neighbourhood, want rows and multipliers: a lasso has
none of them as it is written, but with t >= y and t >= -y it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from blomodel.analysis.levels import Levels
from blomodel.analysis.set_rows import rewrite
from blomodel.analysis.sizes import SimplerSizes
from blomodel.compiler.attributes import Substitution
from blomodel.compiler.lifting import Lifting
from blomodel.compiler.lowering import lower
from blomodel.compiler.model import Model
from blomodel.compiler.tape import Tape
from blomodel.errors import NonconvexLowerError

LARGEST = 300  # lower variables; what the further rows make possible does not pay beyond


@dataclass(frozen=True, eq=False)
class KinkFree:
    """A model with further lower variables, and how to find their values."""

    model: Model
    # Where a variable lies, and expressions less this variable, of which it is the largest.
    definitions: list[tuple[slice, list[Tape]]]
    n_own: int  # lower variables of the problem as it was written

    def lift(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The lower variables followed by the further ones, as they are at a lower answer."""
        lifted = np.zeros(self.model.y.size)
        lifted[: self.n_own] = y
        for where, parts in self.definitions:
            # Its own value is still 0 here. One variable may stand for the maximum of a vector.
            values = [part(x, lifted, p).reshape(where.stop - where.start, -1) for part in parts]
            lifted[where] = np.hstack(values).max(axis=1)
        return lifted


def find_kink_free(model: Model) -> KinkFree | None:
    """The problem without kinks; None where it has none, or keeps some, or is large."""
    if model.y.size > LARGEST or model.own_pairs is not None:
        return None
    g = rewrite(model.g_expression, SimplerSizes(model.blocks, model.x_bounds))
    lifting = Lifting([g], model.lower_constraints, model.blocks, model.x_bounds)
    if not lifting.definitions:
        return None
    # Rows bound the further variables from below, so that signs of their own would say nothing more.
    further = [variable for variable, _ in lifting.definitions]
    free = [cp.Variable(variable.shape, name=variable.name()) for variable in further]
    substitute = Substitution(further, free)
    try:
        lifted = Model(
            model.f_expression,
            model.upper_constraints,
            substitute(lifting.terms[0]),
            [substitute(constraint) for constraint in lifting.constraints],
            Levels(model.x.leaves, (*model.y.leaves, *free), model.p.leaves),
        )
        if lifted.lower_program.kind == "conic":
            return None
    except NonconvexLowerError:
        return None
    definitions = [
        (lifted.y.slice_of(leaf), [lower([substitute(part) - leaf], lifted.blocks) for part in parts])
        for leaf, (_, parts) in zip(free, lifting.definitions, strict=True)
    ]
    return KinkFree(lifted, definitions, model.y.size)
