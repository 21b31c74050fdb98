"""Variables with attributes (nonneg, symmetric, PSD, ...) as plain variables with constraints."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.integers import boolean_entries


def has_attributes(variable: cp.Variable) -> bool:
    """Whether the variable was declared with any."""
    return any(value is not None and value is not False for value in variable.attributes.values())


def plain_copy(variable: cp.Variable) -> cp.Variable:
    """The variable itself when it has no attributes, else a free variable of the same name."""
    return cp.Variable(variable.shape, name=variable.name()) if has_attributes(variable) else variable


def attribute_constraints(variable: cp.Variable, plain: cp.Variable) -> list[Constraint]:
    """What the attributes of ``variable`` demand, written on ``plain``."""
    if variable is plain:
        return []
    attributes = variable.attributes
    constraints = _bound_constraints(variable, plain)
    if attributes["symmetric"] or attributes["PSD"] or attributes["NSD"]:
        if plain.shape[0] > 1:
            constraints.append(cp.upper_tri(plain) == cp.upper_tri(plain.T))
    if attributes["PSD"]:
        constraints.append(plain >> 0)
    if attributes["NSD"]:
        constraints.append(plain << 0)
    zero_entries = _zero_entries(variable)
    if zero_entries.size:
        constraints.append(cp.vec(plain, order="F")[zero_entries] == 0)
    return constraints


def _bound_constraints(variable: cp.Variable, plain: cp.Variable) -> list[Constraint]:
    lower, upper = (
        np.broadcast_to(np.asarray(bound, float), variable.shape).ravel(order="F")
        for bound in variable.get_bounds()
    )
    # cvxpy tells the bounds of a variable that is boolean as a whole, not of single entries.
    is_boolean = boolean_entries(variable)
    lower = np.where(is_boolean, np.maximum(lower, 0.0), lower)
    upper = np.where(is_boolean, np.minimum(upper, 1.0), upper)
    constraints: list[Constraint] = []
    flat = cp.vec(plain, order="F") if plain.ndim != 1 else plain
    for bound, at_least in ((lower, True), (upper, False)):
        finite = np.flatnonzero(np.isfinite(bound))
        if finite.size == 0:
            continue
        part = flat if finite.size == bound.size else flat[finite]
        constraints.append(part >= bound[finite] if at_least else part <= bound[finite])
    return constraints


def _zero_entries(variable: cp.Variable) -> np.ndarray:
    if variable.attributes["diag"]:
        allowed = np.eye(variable.shape[0], dtype=bool)
    elif variable.attributes["sparsity"]:
        allowed = np.zeros(variable.shape, dtype=bool)
        allowed[variable.sparse_idx] = True
    else:
        return np.empty(0, dtype=int)
    return np.flatnonzero(~allowed.ravel(order="F"))
