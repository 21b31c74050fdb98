"""The constraints that one level puts on its own variables, as a set with a projection.

Bounds, sums with bounds (simplices, budgets), balls and affine subspaces over disjoint groups of
variables have a formula, which compiled loops use; they project onto other polyhedra row by row, and
Python does so by a QP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, ending
from blomodel.kernels.projection import (
    AFFINE,
    BALL,
    BOX,
    BUDGET,
    CAPPED,
    POLYHEDRON,
    SIMPLEX,
    build_set,
    polyhedron,
    project,
)
from blomodel.model.model import Model
from blomodel.solvers.convex_qp import solve_convex_qp
from blomodel.structure.set_rows import AffineRow, CurvedRow, NotProjectable, OwnRows, read_rows
from blomodel.text.layout import counted

__all__ = ["NotProjectable", "SetSpec", "SimpleSet", "simple_set"]

SetSpec = tuple[np.ndarray, np.ndarray, np.ndarray]
Block = tuple[int, np.ndarray, np.ndarray]  # kind, places, numbers: see kernels/projection.py

ROUNDING = 1e-9  # relative; what may be between two bounds that are meant to be equal
_NAMES = {
    SIMPLEX: "simplex",
    CAPPED: "capped simplex",
    BALL: "Euclidean ball",
    AFFINE: "affine subspace",
    BUDGET: "box with one linear row",
}


@dataclass(frozen=True, eq=False)
class _Polyhedron:
    """Entries whose rows need a QP: A_eq v = b_eq, A_in v <= b_in."""

    places: np.ndarray
    A_eq: sp.csr_array
    b_eq: np.ndarray
    A_in: sp.csr_array
    b_in: np.ndarray

    def project(self, v: np.ndarray) -> np.ndarray:
        identity = sp.eye_array(v.size)
        with ending(NEVER):  # short, and who asks needs the point before it can stop
            answer = solve_convex_qp(identity, -v, self.A_eq, self.b_eq, self.A_in, self.b_in)
        if not answer.has_point:
            raise NotProjectable(
                f"The constraints on {counted(v.size, 'entry', 'entries')} leave no point to "
                "project onto: the QP solver "
                f"reports {answer.status.value}. Check that they can hold together."
            )
        return answer.y

    @property
    def is_small(self) -> bool:
        """Whether compiled loops may go through its rows one by one."""
        return limits.COMPILED_POLYHEDRON.allows((len(self.b_eq) + len(self.b_in)) * self.places.size)

    def block(self) -> Block:
        """The rows, each of length 1, as compiled loops take them."""
        matrix = sp.vstack([self.A_in, self.A_eq]).toarray()
        length = np.linalg.norm(matrix, axis=1)
        length[length == 0.0] = 1.0
        right = np.concatenate([self.b_in, self.b_eq]) / length
        low = np.repeat([0.0, -np.inf], [len(self.b_in), len(self.b_eq)])
        return POLYHEDRON, self.places, polyhedron(matrix / length[:, None], right, low)


@dataclass(frozen=True, eq=False)
class SimpleSet:
    """What a level's constraints on its own variables allow.

    Attributes
    ----------
    spec : tuple of arrays or None
        For ``project`` in compiled loops; None when a polyhedron is too large for them.
    text : str
        What the set is, for a person.
    is_exact : bool
        Whether no constraint of the level holds the other level's variables. If one does, it is not
        part of this set, and ``reason`` names it.
    bounds : (lower, upper)
        From the constraints on single entries.
    is_tied : bool array
        Entries that other constraints tie together.
    """

    spec: SetSpec | None
    text: str
    is_exact: bool
    reason: str
    bounds: tuple[np.ndarray, np.ndarray]
    is_tied: np.ndarray
    _formulas: SetSpec = field(repr=False)
    _polyhedra: tuple[_Polyhedron, ...] = field(repr=False)

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The bounds, when the set is a box or the whole space."""
        return None if self.is_tied.any() else self.bounds

    def project(self, v: np.ndarray) -> np.ndarray:
        """The nearest point of the set, as a new array."""
        nearest = np.array(v, dtype=float)
        project(self._formulas, nearest)
        for part in self._polyhedra:
            nearest[part.places] = part.project(nearest[part.places])
        return nearest


def simple_set(model: Model, level: str, p: np.ndarray) -> SimpleSet:
    """The set that a level's constraints on its own variables describe.

    Parameters
    ----------
    model : Model
    level : {"x", "y"}
        The upper constraints on x alone, or the lower constraints on y alone.
    p : array
        Values of the parameters.

    Raises
    ------
    NotProjectable
        When a constraint is curved in another way than a ball of its own variables, or the
        constraints contradict each other plainly.
    """
    rows = read_rows(model, level, p)
    lower, upper = _bounds(rows)
    joint = [row for row in rows.affine if row.places.size > 1]
    blocks: list[Block] = []
    polyhedra: list[_Polyhedron] = []
    is_tied = np.zeros(rows.size, dtype=bool)
    for places, own, curved in _groups(rows.size, joint, rows.curved):
        is_tied[places] = True
        if curved:
            blocks.append(_curved_block(places, own, curved, lower, upper))
            continue
        block = _one_direction(places, own, lower, upper) or _subspace(places, own, lower, upper)
        if block is not None:
            blocks.append(block)
        else:
            polyhedra.append(_polyhedron(places, own, lower, upper))
    text = _describe(blocks, polyhedra, lower[~is_tied], upper[~is_tied])
    for run in _runs(~is_tied & (np.isfinite(lower) | np.isfinite(upper))):
        blocks.append((BOX, run, np.concatenate([lower[run], upper[run]])))
    is_compiled = all(part.is_small for part in polyhedra)
    return SimpleSet(
        spec=build_set([*blocks, *(p.block() for p in polyhedra)]) if is_compiled else None,
        text=text,
        is_exact=not rows.coupling,
        reason=rows.coupling,
        bounds=(lower, upper),
        is_tied=is_tied,
        _formulas=build_set(blocks),
        _polyhedra=tuple(polyhedra),
    )


def _bounds(rows: OwnRows) -> tuple[np.ndarray, np.ndarray]:
    """Bounds from the rows that hold a single entry."""
    lower, upper = np.full(rows.size, -np.inf), np.full(rows.size, np.inf)
    for many in rows.bounds:
        limits = many.right / many.values + 0.0  # no negative zeros
        above, below = (many.values > 0) | many.is_equality, (many.values < 0) | many.is_equality
        np.minimum.at(upper, many.places[above], limits[above])
        np.maximum.at(lower, many.places[below], limits[below])
        for at in np.flatnonzero(lower > upper):
            lower[at] = upper[at] = _meet(lower[at], upper[at], many.label)
    for row in rows.affine:
        if row.places.size == 0:
            if row.right < -ROUNDING or (row.is_equality and row.right > ROUNDING):
                raise _empty(row.label)
            continue
        if row.places.size > 1:
            continue
        at, slope = row.places[0], row.values[0]
        bound = row.right / slope + 0.0  # no negative zeros
        if slope > 0 or row.is_equality:
            upper[at] = min(upper[at], bound)
        if slope < 0 or row.is_equality:
            lower[at] = max(lower[at], bound)
        if lower[at] > upper[at]:
            lower[at] = upper[at] = _meet(lower[at], upper[at], row.label)
    return lower, upper


def _meet(low: float, high: float, label: str) -> float:
    """One value for bounds that cross by rounding only."""
    if low - high > ROUNDING * (1 + abs(low)):
        raise _empty(label)
    return (low + high) / 2


def _empty(label: str) -> NotProjectable:
    return NotProjectable(
        f"Constraint {label!r} cannot hold together with the others of its level, so there is no point "
        "to project onto; correct its bounds or drop it."
    )


def _groups(
    size: int, joint: Sequence[AffineRow], curved: Sequence[CurvedRow]
) -> list[tuple[np.ndarray, list[AffineRow], list[CurvedRow]]]:
    """Entries that rows tie together, with these rows."""
    tied = [*(row.places for row in joint), *(row.places for row in curved)]
    if not tied:
        return []
    first = np.concatenate([np.full(places.size, places[0]) for places in tied])
    second = np.concatenate(tied)
    graph = sp.coo_array((np.ones(first.size), (first, second)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label))
    found: dict[int, tuple[np.ndarray, list[AffineRow], list[CurvedRow]]] = {}
    for number in np.unique(label[second]):
        begin = ends[number - 1] if number else 0
        found[int(number)] = (order[begin : ends[number]], [], [])
    for row in joint:
        found[int(label[row.places[0]])][1].append(row)
    for round_row in curved:
        found[int(label[round_row.places[0]])][2].append(round_row)
    return list(found.values())


def _curved_block(
    places: np.ndarray,
    own: Sequence[AffineRow],
    curved: Sequence[CurvedRow],
    lower: np.ndarray,
    upper: np.ndarray,
) -> Block:
    row = curved[0]
    others = [*(other.label for other in curved[1:]), *(other.label for other in own)]
    if others or np.isfinite(lower[places]).any() or np.isfinite(upper[places]).any():
        second = f"{others[0]!r}" if others else "bounds"
        raise NotProjectable(
            f"Constraint {row.label!r} meets {second} on the same variables, and the intersection has "
            "no simple projection; keep one of the two, write both as linear rows, or use a method that "
            "does not project, such as method='auto'."
        )
    return row.kind, row.places, row.numbers


def _one_direction(
    places: np.ndarray, own: Sequence[AffineRow], lower: np.ndarray, upper: np.ndarray
) -> Block | None:
    """A box and rows that all have the same direction: low <= a'v <= high."""
    direction = _spread(own[0], places)
    # Rows with equal entries, the common case, become sums.
    direction = direction / direction[np.argmax(np.abs(direction))]
    low, high = -np.inf, np.inf
    for row in own:
        values = _spread(row, places)
        slope = values[np.argmax(np.abs(direction))]
        if not np.allclose(values, slope * direction, rtol=1e-12, atol=0.0) or slope == 0.0:
            return None
        limit = row.right / slope + 0.0
        if slope > 0 or row.is_equality:
            high = min(high, limit)
        if slope < 0 or row.is_equality:
            low = max(low, limit)
        if low > high:
            low = high = _meet(low, high, row.label)
    smallest, largest = lower[places], upper[places]
    if low == high and not (np.isfinite(smallest).any() or np.isfinite(largest).any()):
        return None  # an affine subspace
    _check_reach(direction, smallest, largest, low, high, own[0].label)
    if np.all(direction == 1.0) and np.all(smallest == 0.0) and np.all(largest >= high):
        # Each entry is at most the sum, so that such upper bounds say nothing.
        if low == high:
            return SIMPLEX, places, np.array([high])
        if low <= 0.0:
            return CAPPED, places, np.array([high])
    return BUDGET, places, np.concatenate([smallest, largest, direction, [low, high]])


def _check_reach(
    direction: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    low: float,
    high: float,
    label: str,
) -> None:
    ends = np.where(direction > 0, lower, upper), np.where(direction > 0, upper, lower)
    least, most = float(direction @ ends[0]), float(direction @ ends[1])
    scale = ROUNDING * (1 + abs(high if np.isfinite(high) else low))
    if least > high + scale or most < low - scale:
        raise _empty(label)


def _subspace(
    places: np.ndarray, own: Sequence[AffineRow], lower: np.ndarray, upper: np.ndarray
) -> Block | None:
    if np.isfinite(lower[places]).any() or np.isfinite(upper[places]).any():
        return None
    is_small = limits.SUBSPACE_BASIS.allows(len(own) * places.size)
    if not is_small or not all(row.is_equality for row in own):
        return None
    matrix = np.stack([_spread(row, places) for row in own])
    right = np.array([row.right for row in own])
    left, singular, basis = np.linalg.svd(matrix, full_matrices=False)
    rank = int((singular > 1e-12 * singular[0]).sum())
    level = (left[:, :rank].T @ right) / singular[:rank]
    misfit = np.abs(matrix @ (basis[:rank].T @ level) - right)
    if misfit.max() > ROUNDING * (1 + np.abs(right).max()):
        raise _empty(own[int(np.argmax(misfit))].label)
    return AFFINE, places, np.concatenate([[rank], level, basis[:rank].ravel()])


def _polyhedron(
    places: np.ndarray, own: Sequence[AffineRow], lower: np.ndarray, upper: np.ndarray
) -> _Polyhedron:
    size = places.size
    identity = sp.eye_array(size, format="csr")
    above, below = np.isfinite(upper[places]), np.isfinite(lower[places])

    def stack(rows: list[AffineRow]) -> tuple[sp.csr_array, np.ndarray]:
        starts = np.cumsum([0, *(row.places.size for row in rows)])
        columns = np.searchsorted(places, np.concatenate([np.zeros(0, int), *(r.places for r in rows)]))
        values = np.concatenate([np.zeros(0), *(row.values for row in rows)])
        matrix = sp.csr_array((values, columns, starts), shape=(len(rows), size))
        return matrix, np.array([row.right for row in rows])

    A_eq, b_eq = stack([row for row in own if row.is_equality])
    A_in, b_in = stack([row for row in own if not row.is_equality])
    A_in = sp.csr_array(sp.vstack([A_in, identity[above], -identity[below]]))
    b_in = np.concatenate([b_in, upper[places][above], -lower[places][below]])
    return _Polyhedron(places, A_eq, b_eq, A_in, b_in)


def _spread(row: AffineRow, places: np.ndarray) -> np.ndarray:
    """The row's coefficients over a group of entries."""
    values = np.zeros(places.size)
    values[np.searchsorted(places, row.places)] = row.values
    return values


def _runs(chosen: np.ndarray) -> list[np.ndarray]:
    """Runs of consecutive chosen entries."""
    entries = np.flatnonzero(chosen)
    return np.split(entries, np.flatnonzero(np.diff(entries) > 1) + 1) if entries.size else []


def _describe(
    blocks: Sequence[Block],
    polyhedra: Sequence[_Polyhedron],
    lower: np.ndarray,
    upper: np.ndarray,
) -> str:
    if not blocks and not polyhedra and not (np.isfinite(lower) | np.isfinite(upper)).any():
        return "all of the space"
    parts: list[str] = []
    n_bounded = int((np.isfinite(lower) | np.isfinite(upper)).sum())
    if n_bounded:
        parts.append(f"box ({counted(n_bounded, 'bounded entry', 'bounded entries')})")
    kinds: dict[tuple[str, int], int] = {}
    for kind, places, _ in blocks:
        key = (_NAMES.get(kind, "l1 ball"), places.size)
        kinds[key] = kinds.get(key, 0) + 1
    for part in polyhedra:
        key = ("polyhedron", part.places.size)
        kinds[key] = kinds.get(key, 0) + 1
    for (name, size), count in kinds.items():
        times = f"{count} x " if count > 1 else ""
        parts.append(f"{times}{name} of {counted(size, 'entry', 'entries')}")
    n_free = int(lower.size - n_bounded)
    if n_free:
        parts.append(counted(n_free, "free entry", "free entries"))
    return ", ".join(parts)
