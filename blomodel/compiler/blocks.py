"""Named groups of cvxpy leaves, laid out as one flat vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.basics.arrays import dense
from blomodel.errors import DataError
from blomodel.text.layout import counted


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
        self.leaves: tuple[cp.Variable | cp.Parameter, ...] = tuple(leaves)
        ends = np.cumsum([leaf.size for leaf in self.leaves], dtype=int)
        self.size: int = int(ends[-1]) if len(ends) else 0
        self._slices = {
            leaf.id: slice(int(end) - leaf.size, int(end))
            for leaf, end in zip(self.leaves, ends, strict=True)
        }

    def __contains__(self, leaf: cp.Variable | cp.Parameter) -> bool:
        return leaf.id in self._slices

    def slice_of(self, leaf: cp.Variable | cp.Parameter) -> slice:
        """Where the leaf lies in the block's vector."""
        return self._slices[leaf.id]

    def entry_name(self, position: int) -> str:
        """How people call an entry of the block's vector, such as ``price[2]`` or ``flow[0, 1]``."""
        for leaf in self.leaves:
            where = self.slice_of(leaf)
            if where.start <= position < where.stop:
                if leaf.size == 1:
                    return str(leaf.name())
                index = np.unravel_index(position - where.start, leaf.shape, order="F")
                return f"{leaf.name()}[{', '.join(str(int(k)) for k in index)}]"
        raise IndexError(position)

    def entry_names(self, positions: Iterable[int], most: int = 4) -> list[str]:
        """The names of several entries; a whole leaf by its name alone, and no more than so many."""
        wanted = set(map(int, positions))
        names: list[str] = []
        for leaf in self.leaves:
            own = range(self.slice_of(leaf).start, self.slice_of(leaf).stop)
            held = [k for k in own if k in wanted]
            names += [str(leaf.name())] if held and len(held) == len(own) else map(self.entry_name, held)
        return names if len(names) <= most else [*names[:most], "..."]

    @property
    def has_values(self) -> bool:
        """Whether every leaf has a value."""
        return all(leaf.value is not None for leaf in self.leaves)

    def pack(self) -> np.ndarray:
        """The leaves' current values as one vector."""
        for leaf in self.leaves:
            if leaf.value is None:
                raise DataError(f"'{leaf.name()}' has no value; set {leaf.name()}.value first.")
            if np.size(dense(leaf.value)) != leaf.size:
                raise DataError(
                    f"The value of '{leaf.name()}' has shape {np.shape(leaf.value)}, but the variable "
                    f"has shape {leaf.shape}."
                )
        return self.join({leaf: leaf.value for leaf in self.leaves})

    def join(self, values: Mapping[Any, Any], asked_by: str = "") -> np.ndarray:
        """One vector from a value for each leaf; values of other leaves are passed over.

        ``asked_by`` is the function that messages name first.
        """
        by = f"{asked_by}: " if asked_by else ""
        vector = np.empty(self.size)
        for leaf in self.leaves:
            value = dense(values[leaf])
            if value.size != leaf.size:
                raise DataError(
                    f"{by}'{leaf.name()}' has shape {leaf.shape}, but a value of shape {value.shape} "
                    "was given."
                )
            vector[self.slice_of(leaf)] = value.ravel(order="F")
        return vector

    def read(self, given: object, whose: str, asked_by: str) -> np.ndarray:
        """Values as a person gives them, as one vector.

        Parameters
        ----------
        given : number, array, list or dict
            A list may hold one array for each leaf; a dict goes from leaf to array. An array stands
            for all leaves, flattened column by column.
        whose : str
            How messages call the leaves, such as "upper variables".
        asked_by : str
            The function that messages name first.
        """
        if isinstance(given, Mapping):
            missing = [leaf.name() for leaf in self.leaves if leaf not in given]
            if missing:
                raise DataError(f"{asked_by}: no value for the {whose} {', '.join(missing)}.")
            return self.join(given, asked_by)
        is_list = isinstance(given, list | tuple) and len(given) == len(self.leaves) > 1
        if is_list and any(np.size(part) > 1 for part in given):  # type: ignore[attr-defined]
            return self.join(dict(zip(self.leaves, given, strict=True)), asked_by)  # type: ignore[call-overload]
        vector = dense(given).astype(float).ravel(order="F")
        if vector.size != self.size:
            names = ", ".join(f"{leaf.name()} {leaf.shape}" for leaf in self.leaves)
            raise DataError(
                f"{asked_by}: the {whose} have {counted(self.size, 'entry', 'entries')}, but "
                f"{counted(vector.size, 'number')} came; pass an array, or a list with one "
                f"array for each of these: {names or 'none'}."
            )
        return vector

    def unpack(self, vector: np.ndarray) -> dict[Any, np.ndarray]:
        """The vector cut into arrays of the leaves' shapes."""
        return {leaf: vector[self.slice_of(leaf)].reshape(leaf.shape, order="F") for leaf in self.leaves}

    def assign(self, vector: np.ndarray) -> None:
        """Set every leaf's value; rounding that breaks an attribute such as nonneg is kept as it is."""
        for leaf, value in self.unpack(vector).items():
            leaf.save_value(value + 0.0)  # a copy, and no negative zeros
