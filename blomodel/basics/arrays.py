"""Numbers as plain arrays, however they came."""

from __future__ import annotations

from typing import Any

import numpy as np


def dense(value: Any) -> np.ndarray:
    """A number, an array or a sparse matrix as a plain array."""
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)
