"""Products of data matrices, found once for all tapes in which the same data stand."""

from __future__ import annotations

import weakref

import numpy as np

from blomodel.compiler.tape import KEPT_ENTRIES

_Place = tuple[int, tuple[int, ...], tuple[int, ...]]  # the owner of the memory, shape and strides
_Known = tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray], np.ndarray]
_PRODUCTS: dict[tuple[_Place, _Place], _Known] = {}


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product of two matrices; of large data that cannot change it is kept while they live.

    The Hessian of ``sum_squares(A @ y - b)`` is needed by the structure, the program of the lower level
    and the certificate, each with a tape of its own; A'A takes longer than all that is done with it.
    """
    if min(left.size, right.size) < KEPT_ENTRIES or left.flags.writeable or right.flags.writeable:
        return left @ right
    owners = _owner(left), _owner(right)
    key = (_place(left), _place(right))
    known = _PRODUCTS.get(key)
    if known is not None and known[0]() is owners[0] and known[1]() is owners[1]:
        return known[2]
    result = left @ right
    result.flags.writeable = False

    def forget(_: object) -> None:
        _PRODUCTS.pop(key, None)

    _PRODUCTS[key] = (weakref.ref(owners[0], forget), weakref.ref(owners[1], forget), result)
    return result


def _owner(array: np.ndarray) -> np.ndarray:
    return array.base if isinstance(array.base, np.ndarray) else array


def _place(array: np.ndarray) -> _Place:
    begin: int = array.__array_interface__["data"][0]
    return begin, array.shape, array.strides
