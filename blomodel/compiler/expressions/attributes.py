"""Variables with attributes (nonneg, symmetric, PSD, ...) as plain variables with constraints."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.compiler.expressions.integers import boolean_entries

Joined = dict[cp.Variable, list[Constraint]]

_BEYOND_BOUNDS = ("symmetric", "PSD", "NSD", "diag", "sparsity")


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


def joined_bounds(variables: Sequence[cp.Variable], plain: Mapping[cp.Variable, cp.Variable]) -> Joined:
    """Rows for many variables of one shape of which all that is demanded are bounds on each entry.

    Each row alone costs as much as one for all of them.

    Returns
    -------
    dict
        By variable: the rows that stand in its place, which are those of all others too; none for
        variables after the first. Variables that must stay alone are not in it.
    """
    groups: dict[Hashable, list[tuple[cp.Variable, np.ndarray, np.ndarray]]] = {}
    for variable in variables:
        if variable is plain[variable] or any(variable.attributes[name] for name in _BEYOND_BOUNDS):
            continue
        bounds = _bounds(variable)
        filled = [np.isfinite(bound) for bound in bounds]
        if all(each.all() or not each.any() for each in filled):
            key = variable.shape, *(bool(each.any()) for each in filled)
            groups.setdefault(key, []).append((variable, *bounds))
    found: Joined = {}
    for members in groups.values():
        if limits.SEPARATE_PARTS.allows(len(members)):
            continue
        whole = cp.hstack([_flat(plain[variable]) for variable, _, _ in members])
        lower, upper = (np.concatenate([member[k] for member in members]) for k in (1, 2))
        found |= {variable: [] for variable, _, _ in members}
        found[members[0][0]] = _rows_of_bounds(whole, lower, upper)
    return found


def _bound_constraints(variable: cp.Variable, plain: cp.Variable) -> list[Constraint]:
    return _rows_of_bounds(_flat(plain), *_bounds(variable))


def _bounds(variable: cp.Variable) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each entry, column by column."""
    lower, upper = (
        _spread(np.asarray(bound, float), variable.shape).ravel(order="F")
        for bound in variable.get_bounds()
    )
    if not variable.attributes["boolean"]:
        return lower, upper
    # cvxpy tells the bounds of a variable that is boolean as a whole, not of single entries.
    is_boolean = boolean_entries(variable)
    lower = np.where(is_boolean, np.maximum(lower, 0.0), lower)
    return lower, np.where(is_boolean, np.minimum(upper, 1.0), upper)


def _spread(bound: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return bound if bound.shape == shape else np.broadcast_to(bound, shape)


def _flat(plain: cp.Variable) -> cp.Expression:
    return cp.vec(plain, order="F") if plain.ndim != 1 else plain


def _rows_of_bounds(flat: cp.Expression, lower: np.ndarray, upper: np.ndarray) -> list[Constraint]:
    constraints: list[Constraint] = []
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
