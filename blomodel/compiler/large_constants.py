"""Large constants: kept once for all tapes, and read where they lie instead of being copied.

A data matrix stands in dozens of tapes: values, gradients, products with Hessians, directions of loops.
In each of them its operand is an address, marked by ``FAR``, until the tape gets the workspace on which
it runs; then it becomes the distance from that workspace.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numba
import numpy as np

from blomodel.basics import limits
from blomodel.basics.arrays import is_on_disk
from blomodel.compiler.work import divisible
from blomodel.kernels import machine as op

FAR = 1 << 60  # a place from here on is an address, in units of 8 bytes
_IS_INTERPRETED = bool(getattr(numba.config, "DISABLE_JIT", 0))  # kernels then check their places
_SAMPLE = 64  # entries by which large arrays are told apart before all of them are compared
_FULL: dict[int, tuple[weakref.ref[np.ndarray], bool]] = {}
_POOL: dict[tuple[Any, ...], list[weakref.ref[np.ndarray]]] = {}


def is_large(values: np.ndarray) -> bool:
    """Whether an array is worth being kept once and read where it lies."""
    return not _IS_INTERPRETED and not limits.COPIED_CONSTANT.allows(values.size)


def interned(flat: np.ndarray) -> np.ndarray:
    """The one array with these numbers that all tapes use; ``flat`` itself if it is the first.

    Tapes rely on its never being changed.
    """
    if not is_large(flat):
        return flat
    if flat.flags.writeable:
        flat = flat.view()
        flat.flags.writeable = False
    sample = flat[:: max(1, flat.size // _SAMPLE)]
    key = (flat.size, sample.tobytes())
    found = _POOL.setdefault(key, [])
    for reference in found:
        known = reference()
        if known is not None and (_address(known) == _address(flat) or _are_equal(known, flat)):
            return known
    found.append(weakref.ref(flat, lambda gone: _forget(key, gone)))
    return flat


def has_no_zeros(values: np.ndarray) -> bool:
    """Whether no entry is zero; a large array that cannot change is looked at once."""
    if values.flags.writeable or not is_large(values):
        return bool(np.all(values))
    number = id(values)
    known = _FULL.get(number)
    if known is None or known[0]() is not values:
        gone = weakref.ref(values, lambda _: _FULL.pop(number, None))
        known = _FULL[number] = (gone, bool(np.all(values)))
    return known[1]


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the numbers are the same; files are not read for that."""
    return not (is_on_disk(one) or is_on_disk(other)) and np.array_equal(one, other)


def _forget(key: tuple[Any, ...], gone: weakref.ref[np.ndarray]) -> None:
    left = [reference for reference in _POOL.get(key, []) if reference is not gone]
    if left:
        _POOL[key] = left
    else:
        _POOL.pop(key, None)


def _address(values: np.ndarray) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


def far_place(values: np.ndarray) -> int | None:
    """The place of a large array outside of the workspace; None for one that is to be copied."""
    is_plain = values.ndim == 1 and values.flags.c_contiguous and values.flags.aligned
    if not is_plain or values.itemsize != 8 or not is_large(values):
        return None
    return FAR + (_address(values) >> 3)


def attached(
    code: np.ndarray, integers: np.ndarray, workspace: np.ndarray, kept: Iterable[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The instructions with far places as distances from the workspace, whose arrays live as long."""
    code = divisible(code, integers)
    has_far_places = bool(integers.max(initial=0) >= FAR)
    if not np.any(code >= FAR) and not has_far_places:
        return code, integers
    base = np.uint64(_address(workspace) >> 3)
    if has_far_places:
        integers = integers.copy()
        far = integers >= FAR
        integers[far] -= np.uint64(FAR) + base
    lists = np.uint64(_address(integers) >> 3)
    code = code.copy()
    far = code >= FAR
    far[:, 0] = False
    is_list = (
        far & (code[:, :1] % op.DIVISIBLE == op.SPARSE) & (np.arange(code.shape[1]) == op.SPARSE_LISTS)
    )
    code[is_list] -= np.uint64(FAR) + lists
    code[far & ~is_list] -= np.uint64(FAR) + base
    weakref.finalize(code, _let_go, tuple(kept)).atexit = False
    return code, integers


def _let_go(kept: tuple[np.ndarray, ...]) -> None:
    """Called when the instructions that read these arrays are gone."""
