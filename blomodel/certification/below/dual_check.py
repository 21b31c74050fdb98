"""v(x) of a strongly convex quadratic lower level by weak duality: no interior-point solve.

Multipliers that are not negative make the smallest value of the Lagrangian a lower bound of v(x). For a
quadratic one with a positive definite Hessian H and the slope r at some y this smallest value is
L(y) - r'H^-1 r / 2, so that a small slope proves y. The values of L are cvxpy's own, of the level as it
was written; slope and Hessian are the compiled ones, and are held against differences of these values,
which a quadratic function makes exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.basics.kept_values import kept_values
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import INEQUALITY, as_row
from blomodel.declare.row_values import value_of
from blomodel.model.model import Model
from blomodel.programs.adjoint import factorised
from blomodel.programs.quadratic import is_positive_semidefinite
from blomodel.solvers.answer import InnerStatus

PROBES = 3  # directions in which slope and Hessian are held against cvxpy's values
AGREES = 1e-7  # relative difference of the two
SURELY = 1e-9  # smallest eigenvalue, relative to the largest entry, of a Hessian that counts as positive
PROVEN = 1e-10  # relative; what the bound may leave open


class DualBound(NamedTuple):
    """A minimiser, its multipliers in cvxpy's signs, and a lower bound of v(x) that it attains."""

    y: np.ndarray
    duals: list[np.ndarray]
    value: float


def bound_by_duality(
    model: Model,
    p: np.ndarray,
    x: np.ndarray,
    objective: cp.Expression,
    constraints: Sequence[Constraint],
    block: Block,
) -> DualBound | None:
    """The bound for a large quadratic program; None where it proves nothing.

    Parameters
    ----------
    objective, constraints
        The lower level as it was written, minimised, with x put in as numbers.
    block : Block
        Its variables.
    """
    if limits.INTERIOR_POINT_CHECK.allows(max(model.lower_size, model.g.n_products / model.y.size)):
        return None
    if not (model.is_convex_below and model.lower_program.kind == "QP" and model.has_smooth_kkt):
        return None
    if not model.conditions.multipliers_are_unknowns:
        return None
    answer = model.lower_program.solve(x, p)
    H = model.lower_program.hessian(x, p)
    if answer.status is not InnerStatus.OPTIMAL or H.shape[0] != model.y.size:
        return None
    scale = float(np.abs(H.data).max(initial=0.0))
    if not is_positive_semidefinite(sp.csc_array(H - SURELY * scale * sp.eye_array(H.shape[0]))):
        return None
    rows = [as_row(constraint) for constraint in constraints]
    duals = [
        np.maximum(dual, 0.0) if kind == INEQUALITY else np.asarray(dual)
        for (kind, _), dual in zip(rows, answer.duals, strict=True)
    ]

    def lagrangian(y: np.ndarray) -> float:
        block.assign(y)
        pulls = (
            float(np.sum(np.reshape(dual, row.shape, order="F") * row.value))
            for (_, row), dual in zip(rows, duals, strict=True)
        )
        return value_of(objective) + sum(pulls)

    y, slope = answer.y, model.lower_stationarity(x, answer.y, p, model.split_duals(duals))
    solve = factorised(H, sp.csr_array((0, len(y))))
    with kept_values(block.leaves):
        at_y = lagrangian(y)
        block.assign(y)
        own = value_of(objective)
        if solve is None or not _agree(lagrangian, y, at_y, slope, H):
            return None
    open_part = 0.5 * float(slope @ solve(slope, np.zeros(0))[0])
    value = at_y - open_part
    if not (0 <= open_part and own - value <= PROVEN * (1 + abs(own))):
        return None
    return DualBound(y, duals, min(value, own))


def _agree(
    lagrangian: Callable[[np.ndarray], float],
    y: np.ndarray,
    at_y: float,
    slope: np.ndarray,
    H: sp.csc_array,
) -> bool:
    """Whether slope and Hessian are those of the values."""
    draw, size = np.random.default_rng(0), 1 + float(np.abs(y).max(initial=0.0))
    for _ in range(PROBES):
        move = size * draw.standard_normal(len(y))
        ahead, behind = lagrangian(y + move), lagrangian(y - move)
        curved, small = float(move @ (H @ move)), AGREES * (abs(at_y) + abs(ahead) + abs(behind))
        if not abs((ahead - behind) / 2 - slope @ move) <= small:
            return False
        if not abs(ahead + behind - 2 * at_y - curved) <= small:
            return False
    return True
