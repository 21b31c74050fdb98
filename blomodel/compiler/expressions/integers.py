"""Which entries of a variable must be whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import cvxpy as cp
import numpy as np

from blomodel.compiler.blocks import Block

Integers = Mapping[int, np.ndarray]  # by a variable's id: which of its entries, column by column


def integer_entries(variable: cp.Variable) -> np.ndarray:
    """Which entries ``boolean=`` and ``integer=`` declare whole, flattened column by column."""
    mask = np.zeros(variable.shape, dtype=bool)
    for attribute, places in (("boolean", variable.boolean_idx), ("integer", variable.integer_idx)):
        declared = variable.attributes[attribute]
        if declared is True:
            mask[...] = True
        elif declared:
            mask[_at(places, variable.ndim)] = True
    return mask.ravel(order="F")


def boolean_entries(variable: cp.Variable) -> np.ndarray:
    """Which entries ``boolean=`` declares 0 or 1, flattened column by column."""
    mask = np.zeros(variable.shape, dtype=bool)
    declared = variable.attributes["boolean"]
    if declared is True:
        mask[...] = True
    elif declared:
        mask[_at(variable.boolean_idx, variable.ndim)] = True
    return mask.ravel(order="F")


def _at(places: Iterable[Sequence[int]], n_dimensions: int) -> tuple[np.ndarray, ...]:
    """The places that were given, as an index of an array.

    cvxpy's solvers take one list of indices for each dimension, as ``np.nonzero`` gives them. Where this
    cannot be meant, the places are taken one by one.
    """
    given = [np.atleast_1d(np.asarray(part, dtype=int)) for part in places]
    if len(given) == n_dimensions:
        return tuple(given)
    return tuple(np.array(given).T)


def whole_copy(leaf: cp.Variable, mask: np.ndarray | None) -> cp.Variable:
    """A free variable of the same shape, whose whole entries cvxpy's solvers know of."""
    if mask is None or not mask.any():
        return cp.Variable(leaf.shape, name=leaf.name())
    if mask.all():
        return cp.Variable(leaf.shape, name=leaf.name(), integer=True)
    places = np.nonzero(mask.reshape(leaf.shape, order="F"))
    whole = [tuple(int(k) for k in part) for part in places]
    return cp.Variable(leaf.shape, name=leaf.name(), integer=whole)


def stated_integers(variables: Iterable[cp.Variable]) -> dict[int, np.ndarray]:
    """The whole entries of every variable that has any."""
    found = {variable.id: integer_entries(variable) for variable in variables}
    return {key: mask for key, mask in found.items() if mask.any()}


def renamed_integers(
    integers: Integers, renamed: Mapping[cp.Variable, cp.Variable]
) -> dict[int, np.ndarray]:
    """The same where other variables have taken the places of some."""
    new = {old.id: variable.id for old, variable in renamed.items()}
    return {new.get(key, key): mask for key, mask in integers.items()}


def integers_of(block: Block, integers: Integers) -> np.ndarray:
    """Which entries of a block's vector must be whole."""
    parts = [integers.get(leaf.id, np.zeros(leaf.size, dtype=bool)) for leaf in block.leaves]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def first_integer(block: Block, mask: np.ndarray) -> cp.Variable | None:
    """The first variable of a block that has a whole entry, to name it in messages."""
    if not mask.any():
        return None
    return next((leaf for leaf in block.leaves if mask[block.slice_of(leaf)].any()), None)


def distance_to_integers(values: np.ndarray, mask: np.ndarray) -> float:
    """How far the entries that must be whole lie from whole numbers, at most."""
    part = values[mask]
    return float(np.abs(part - np.round(part)).max(initial=0.0))


def with_integers_rounded(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The vector with the entries that must be whole at the nearest whole numbers."""
    return np.where(mask, np.round(values), values)
