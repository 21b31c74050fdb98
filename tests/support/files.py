"""Arrays in files, as data that are larger than the memory are stated."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def in_file(path: Path, values: np.ndarray) -> np.ndarray:
    """The same numbers, mapped from a file and not to be changed."""
    np.ascontiguousarray(values, dtype=float).tofile(path)
    return np.memmap(path, dtype=float, mode="r", shape=values.shape)
