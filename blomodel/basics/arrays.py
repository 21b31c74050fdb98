"""Numbers as plain arrays, however they came."""

from __future__ import annotations

from typing import Any

import numpy as np


def dense(value: Any) -> np.ndarray:
    """A number, an array or a sparse matrix as a plain array."""
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def is_on_disk(values: Any) -> bool:
    """Whether an array is a part of a file, so that looking at all of it takes long."""
    while isinstance(values, np.ndarray):
        if isinstance(values, np.memmap):
            return True
        values = values.base
    return False
