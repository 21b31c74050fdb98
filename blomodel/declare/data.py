"""Data that are read where they lie: arrays on disk that may be larger than the memory."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.errors import DataError


class Data(cp.Constant):
    """A constant that shares the memory of its array, which must not be changed while it is in use."""

    def __init__(self, array: np.ndarray, name: str | None = None) -> None:
        super().__init__(_Shared(array), name=name)
        # To find out its signs, cvxpy would read all of it and copy most of it.
        self._imag, self._nonneg, self._nonpos = False, False, False
        self._cached_is_pos = False


class _Shared:
    """What cvxpy takes as it is: of arrays it makes copies."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array)


def data(array: np.ndarray, name: str | None = None) -> Data:
    """State a constant without a copy of it, such as an ``np.memmap`` that is larger than the memory.

    ``bm.data(A) @ y`` stands for ``A @ y``, where cvxpy would copy A. With ``batch_size=...`` the
    first-order methods read a few rows at a time. The array must not be changed while it is in use, and
    nothing is assumed of its signs.

    Parameters
    ----------
    array : array
        Of one or two axes and dtype float64, row by row (C order).
    name : str, optional
        What formulas call it.
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.ndim not in (1, 2):
        what = f"{array.dtype} with {array.ndim} axes" if isinstance(array, np.ndarray) else type(array)
        raise DataError(f"data(...) takes an array of float64 with one or two axes, not {what}.")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise DataError(
            "data(...) takes an array that is stored row by row without gaps (C order), as it is read "
            "where it lies; np.ascontiguousarray makes such a copy."
        )
    return Data(array, name)
