"""Points and parameter values at which to look at expressions when none are given."""

from __future__ import annotations

import numpy as np

from blomodel.basics.arrays import dense
from blomodel.compiler.blocks import Block


def generic_points(lower_bound: np.ndarray, upper_bound: np.ndarray) -> list[np.ndarray]:
    """Points inside the box at which no coefficient vanishes by accident."""
    rng = np.random.default_rng(20)
    points = []
    for _ in range(3):
        low = np.where(np.isfinite(lower_bound), lower_bound, -np.inf)
        high = np.where(np.isfinite(upper_bound), upper_bound, np.inf)
        share = rng.uniform(0.05, 0.95, len(low))
        reach = np.abs(rng.standard_normal(len(low))) + 0.1
        with np.errstate(invalid="ignore"):
            inside = low + share * (high - low)
        point = np.where(np.isfinite(low), low + reach, np.where(np.isfinite(high), high - reach, reach))
        sides = rng.choice([-1.0, 1.0], len(low))
        point = np.where(np.isinf(low) & np.isinf(high), sides * reach, point)
        points.append(np.where(np.isfinite(low) & np.isfinite(high), inside, point))
    return points


def corner_points(lower_bound: np.ndarray, upper_bound: np.ndarray) -> list[np.ndarray]:
    """The least, the middle and the largest point of the box, one unit out where it has no end."""
    low = np.where(np.isfinite(lower_bound), lower_bound, np.minimum(upper_bound, 0.0) - 1.0)
    high = np.where(np.isfinite(upper_bound), upper_bound, np.maximum(low, 0.0) + 1.0)
    return [low, (low + high) / 2, high]


def pack_or_generic(block: Block) -> np.ndarray:
    """The parameters' values, or some numbers of the right sign where they have none."""
    vector = np.random.default_rng(5).uniform(0.5, 1.5, block.size)
    for leaf in block.leaves:
        where = block.slice_of(leaf)
        if leaf.value is not None:
            vector[where] = dense(leaf.value).ravel(order="F")
        elif leaf.is_nonpos():
            vector[where] *= -1.0
        elif leaf.is_psd():
            vector[where] = np.eye(leaf.shape[0]).ravel()
    return vector
