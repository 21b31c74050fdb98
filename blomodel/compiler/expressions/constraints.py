"""Constraints as rows: the kind of row, and the expression that stands on it."""

from __future__ import annotations

import cvxpy as cp
from cvxpy.constraints import PSD, SOC, Equality, ExpCone, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint

from blomodel.errors import ModelError
from blomodel.text.shorten import shorten

INEQUALITY, EQUALITY, SPECTRAL = "inequality", "equality", "spectral"


def as_row(constraint: Constraint) -> tuple[str, cp.Expression]:
    """The kind of row that a constraint is, and the expression that stands on it."""
    if isinstance(constraint, Inequality):
        return INEQUALITY, constraint.expr
    if isinstance(constraint, NonPos):
        return INEQUALITY, constraint.args[0]
    if isinstance(constraint, NonNeg):
        return INEQUALITY, -constraint.args[0]
    if isinstance(constraint, Equality | Zero):
        return EQUALITY, constraint.expr if isinstance(constraint, Equality) else constraint.args[0]
    if isinstance(constraint, SOC):
        bound, vectors = constraint.args
        if vectors.ndim <= 1:
            return INEQUALITY, cp.norm(vectors, 2) - bound
        return INEQUALITY, cp.norm(vectors, 2, axis=constraint.axis) - bound
    if isinstance(constraint, ExpCone):
        first, second, third = constraint.args
        return INEQUALITY, cp.multiply(second, cp.exp(first / second)) - third
    if isinstance(constraint, PSD):
        return SPECTRAL, constraint.args[0]
    raise ModelError(
        f"Constraint {shorten(constraint)!r} is a {type(constraint).__name__}, which is not supported; "
        "equalities, inequalities, SOC, ExpCone and PSD constraints are."
    )
