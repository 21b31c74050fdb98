"""Whether parts of a model are convex at these parameters, where parameters move their curvature."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from blomodel.basics.memory import remembered
from blomodel.compiler.passes.derivatives import gradient, hessian
from blomodel.compiler.passes.polynomial import CONSTANT, polynomial
from blomodel.compiler.tape import Tape
from blomodel.errors import NonconvexLowerError
from blomodel.model.concave_x import find_concave_x
from blomodel.model.model import Model
from blomodel.programs.quadratic import is_positive_semidefinite


def curvature_signs(model: Model, p: np.ndarray) -> tuple[bool, ...]:
    """Answers to questions of convexity that decide how a model is solved, at these parameters.

    Empty where no parameter has a say in them: curvature that is not quadratic is judged by cvxpy's
    rules, for all values of the parameters that their attributes allow.
    """
    moving = _with_moving_curvature(model)
    signs = []
    x, y = (np.clip(0.0, *bounds) for bounds in (model.bounds(p), model.y_bounds))
    for tape in moving:
        both = sp.csc_array(hessian(tape, ("x", "y"), (x, y, p)))
        below = sp.csc_array(both[model.x.size :, model.x.size :])
        signs += [is_positive_semidefinite(part) for part in (both, below, -both, -below)]
    if model.g in moving and not model.integer_y.any():
        try:
            signs.append(find_concave_x(model, model.compiled_lower, p) is None)
        except NonconvexLowerError:
            signs.append(False)
    return tuple(signs)


@remembered
def _with_moving_curvature(model: Model) -> list[Tape]:
    """The objectives that are quadratic, with coefficients of second degree that parameters move."""
    if not model.p.size:
        return []
    return [tape for tape in (model.f, model.g) if _moves(tape)]


def _moves(tape: Tape) -> bool:
    """Whether a parameter may change a second derivative of a quadratic function."""
    of_p = [polynomial(tape, variable=block, coefficient="p") for block in ("x", "y")]
    if any(facts.degree[0] > 2 for facts in of_p):
        return False
    if any(facts.coefficient_class[0, 2] > CONSTANT for facts in of_p):
        return True
    # A product of x and y: its coefficient is that of x in the slope in y.
    slope = polynomial(gradient(tape, ("y",)), variable="x", coefficient="p")
    return bool(np.any(slope.coefficient_class[:, 1] > CONSTANT))
