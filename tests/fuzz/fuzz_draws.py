"""Draws by hypothesis in the manner of NumPy's generators: a failing model shrinks to a small one.

Numbers have one or two digits, and shrink to zero or to the lower end, choices to the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st


class Draws:
    """What the models ask of ``np.random.Generator``."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any]) -> None:
        self._draw = draw

    def _many(self, strategy: st.SearchStrategy, size: Any) -> Any:
        if size is None:
            return self._draw(strategy)
        count = int(np.prod(size))
        return np.array([self._draw(strategy) for _ in range(count)]).reshape(size)

    def integers(self, low: int, high: int | None = None, size: Any = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        return self._many(st.integers(low, high - 1), size)

    def choice(self, options: int | Sequence, size: Any = None, replace: bool = True) -> Any:
        options = range(options) if isinstance(options, int) else list(options)
        one = st.sampled_from(options)
        if size is None or replace:
            return self._many(one, size)
        return self._draw(st.lists(one, min_size=size, max_size=size, unique=True))

    def uniform(self, low: float, high: float, size: Any = None) -> Any:
        return low + (high - low) * self._many(st.integers(0, 20), size) / 20

    def normal(self, size: Any = None) -> Any:
        return self._many(st.integers(-25, 25), size) / 10

    def random(self, size: Any = None) -> Any:
        return self._many(st.integers(0, 99), size) / 100
