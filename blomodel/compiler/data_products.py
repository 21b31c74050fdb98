"""Products of data matrices, found once for all tapes in which the same data stand."""

from __future__ import annotations

import weakref
import zlib

import numpy as np

from blomodel.compiler.tape import KEPT_ENTRIES

_Place = tuple[int, tuple[int, ...], tuple[int, ...]]  # the owner of the memory, shape and strides
_Known = tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray], tuple[int, int], np.ndarray]
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
    first = _checksum(owners[0])
    numbers = first, first if owners[1] is owners[0] else _checksum(owners[1])
    known = _PRODUCTS.get(key)
    if known is not None and known[0]() is owners[0] and known[1]() is owners[1]:
        if known[2] == numbers:
            return known[3]
    result = left @ right
    result.flags.writeable = False

    def forget(_: object) -> None:
        _PRODUCTS.pop(key, None)

    _PRODUCTS[key] = (weakref.ref(owners[0], forget), weakref.ref(owners[1], forget), numbers, result)
    return result


def _owner(array: np.ndarray) -> np.ndarray:
    return array.base if isinstance(array.base, np.ndarray) else array


def _checksum(array: np.ndarray) -> int:
    """Tells whether data have changed where they lie: cvxpy lets its constants be written to."""
    memory = array if array.flags.c_contiguous else np.ascontiguousarray(array.T)
    return zlib.crc32(memory.data.cast("B"))


def _place(array: np.ndarray) -> _Place:
    begin: int = array.__array_interface__["data"][0]
    return begin, array.shape, array.strides
