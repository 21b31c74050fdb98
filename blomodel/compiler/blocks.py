"""Named groups of cvxpy leaves, laid out as one flat vector."""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np

from blomodel.errors import DataError


class Block:
    """Variables or parameters in a fixed order, flattened column by column as cvxpy does.

    Parameters
    ----------
    name : str
        "x" for the upper variables, "y" for the lower ones, "p" for the user's parameters.
    leaves : sequence of cvxpy.Variable or cvxpy.Parameter
    """

    def __init__(self, name: str, leaves: Sequence[cp.Variable | cp.Parameter]) -> None:
        self.name = name
        self.leaves = tuple(leaves)
        ends = np.cumsum([leaf.size for leaf in self.leaves], dtype=int)
        self.size = int(ends[-1]) if len(ends) else 0
        self._slices = {
            leaf.id: slice(int(end) - leaf.size, int(end))
            for leaf, end in zip(self.leaves, ends, strict=True)
        }

    def __contains__(self, leaf: cp.Variable | cp.Parameter) -> bool:
        return leaf.id in self._slices

    def slice_of(self, leaf: cp.Variable | cp.Parameter) -> slice:
        """Where the leaf lies in the block's vector."""
        return self._slices[leaf.id]

    def pack(self) -> np.ndarray:
        """The leaves' current values as one vector."""
        vector = np.empty(self.size)
        for leaf in self.leaves:
            if leaf.value is None:
                raise DataError(f"'{leaf.name()}' has no value; set {leaf.name()}.value first.")
            value = leaf.value.toarray() if hasattr(leaf.value, "toarray") else leaf.value
            vector[self.slice_of(leaf)] = np.asarray(value, float).ravel(order="F")
        return vector

    def unpack(self, vector: np.ndarray) -> dict[cp.Variable | cp.Parameter, np.ndarray]:
        """The vector cut into arrays of the leaves' shapes."""
        return {leaf: vector[self.slice_of(leaf)].reshape(leaf.shape, order="F") for leaf in self.leaves}
