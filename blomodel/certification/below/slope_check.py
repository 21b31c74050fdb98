"""What a lower answer without constraints can lose, by the slope that is left and by what makes g grow.

Where matrices of second derivatives are too large, an answer is found by products, and its accuracy
shows in the slope r that is left. For a convex g, and y* the minimiser,

    g(y) - g(y*) <= r'(y - y*) - sum_k m_k (y - y*)_k^2 / 2,

where m_k is the curvature that squares of single entries, such as a ridge, give g in the entry k. An
entry with such a square loses at most r_k^2 / (2 m_k). One with a size w_k |y_k| in g loses at most
|r_k| (|y_k| + |y*_k|), and the sizes of y* sum up to no more than g(y) if all else in g is nonnegative.
Entries with neither are bounded by nothing that is known.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from blomodel.certification.below.free_directions import summands
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jacobian
from blomodel.model.model import Model
from blomodel.solvers.answer import Answer

Array = np.ndarray
ROUNDING = 4 * float(np.finfo(float).eps)  # relative, of each number that is summed up below


def largest_loss(model: Model, p: Array, x: Array, answer: Answer) -> float | None:
    """By how much g can lie above its minimum at a lower answer found by products; None: not known."""
    left = model.lower_program.slope_left(x, p, answer.y)
    if left is None:
        return None
    slope, sizes = np.abs(left[0]), left[1]
    constants = [cp.Constant(value) for value in model.statement.levels.x.unpack(x).values()]
    substitute = Substitution(model.statement.levels.upper, constants)
    parts = summands(model.g_expression)
    curvature = sum(
        (
            own_curvatures(model, p, x, answer.y, part)
            for part in parts
            if substitute(part).is_quadratic()
        ),
        start=np.zeros(answer.y.size),
    )
    is_curved = curvature > 0
    loss = float(np.sum(slope[is_curved] ** 2 / (2 * curvature[is_curved])))
    others = ~is_curved & (slope > 0)
    if others.any():
        if np.any(sizes[others] <= 0) or not all(substitute(part).is_nonneg() for part in parts):
            return None
        own = float(slope[others] @ np.abs(answer.y[others]))
        loss += own + float((slope[others] / sizes[others]).max()) * abs(answer.value)
    return loss + ROUNDING * abs(answer.value)


def own_curvatures(model: Model, p: Array, x: Array, y: Array, part: cp.Expression) -> Array:
    """Second derivatives of a quadratic summand in single entries of y; zeros where entries meet."""
    nothing = np.zeros(y.size)
    # A matrix makes entries meet, and its Hessian is what must not be computed.
    if max((constant.size for constant in part.constants()), default=0) > y.size:
        return nothing
    second = jacobian(gradient(lower([part], model.blocks), ("y",)), ("y",), (x, y, p)).tocoo()
    if np.any((second.row != second.col) & (second.data != 0.0)) or np.any(second.data < 0.0):
        return nothing
    return np.asarray(second.diagonal())
