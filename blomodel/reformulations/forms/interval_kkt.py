r"""Linear relaxations of the KKT conditions over a box, where the conditions are not linear.

With :math:`J_j \in [\underline J_j, \overline J_j]` the range of a derivative over the box and c a
corner of it, the mean value theorem gives for every z of the box

.. math:: r(z) \ge r(c) + \sum_{c_j = l_j} \underline J_j (z_j - l_j)
                        + \sum_{c_j = u_j} \overline J_j (z_j - u_j),

and the same with the ends exchanged from above. For products these are the estimators of McCormick;
kinks are covered because the range then holds every slope. The error falls with the square of the
box's width, so that branching on the variables closes it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from blomodel.compiler.passes.derivatives import vjp
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.tape import Tape
from blomodel.model.model import Model

Array = np.ndarray
MAX_CORNERS = 16  # estimators of one row from each side
MAX_SLOPE = 1e9  # larger numbers in a row cost the linear programs their accuracy
LARGEST = float(np.finfo(float).max)
MAX_SWEEPS = 20  # rounds of propagation through all rows
SMALL_CHANGE = 1e-3  # relative: less in a round of propagation is not worth the next
ROUNDING = 1e-9  # relative: room for rounding in a propagated range


@dataclass(frozen=True)
class Box:
    """Ranges of all unknowns z = (x, y, multipliers)."""

    low: Array
    high: Array


@dataclass(frozen=True)
class LinearRows:
    """``matrix z <= right``."""

    matrix: Array
    right: Array


class IntervalKKT:
    """Upper objective and KKT conditions as rows r(z), with ranges of their derivatives.

    Row 0 is the upper objective; ``equalities`` and ``inequalities`` number the others, and row
    ``pair_rows[k]`` is paired with the multiplier ``pair_columns[k]``.
    """

    def __init__(self, model: Model, p: Array) -> None:
        self.model, self.p = model, p
        self.n_x, self.n_y = model.x.size, model.y.size
        n_in, n_eq = len(model.lower_in), len(model.lower_eq)
        self.n = self.n_x + self.n_y + n_in + n_eq
        self._parts: list[tuple[Tape, Tape, bool]] = []  # function, its pullback, holds multipliers
        sizes = []
        for tape, has_multipliers in (
            (model.f, False),
            (model.lagrangian_gradient, True),
            (model.lower_eq.tape, False),
            (model.upper_eq.tape, False),
            (model.lower_in.tape, False),
            (model.upper_in.tape, False),
        ):
            sizes.append(0 if tape is None else tape.n_outputs)
            if tape is not None:
                wanted = tape.input_names if has_multipliers else ("x", "y")
                pullback = vjp(tape, tuple(name for name in wanted if name != "p"))
                self._parts.append((tape, pullback, has_multipliers))
        ends = np.cumsum(sizes)
        self.equalities = np.arange(1, ends[3])
        self.inequalities = np.arange(ends[3], ends[5])
        self.pair_rows = np.arange(ends[3], ends[4])
        self.pair_columns = self.n_x + self.n_y + np.arange(n_in)
        everything = Box(np.full(self.n, -np.inf), np.full(self.n, np.inf))
        low, high = self._slopes(everything, np.ones(ends[5], dtype=bool))
        moves = low != high
        self.is_linear = ~moves.any(axis=1)
        self.curved_columns = np.flatnonzero(moves.any(axis=0))
        self._slope = np.where(self.is_linear[:, None], low, 0.0)
        self._constant = self.values(np.zeros(self.n))

    def first_box(self) -> Box:
        """Bounds on x and y that single rows give, and the signs of the multipliers."""
        low, high = np.full(self.n, -np.inf), np.full(self.n, np.inf)
        low[self.pair_columns] = 0.0
        for block, bounds in (
            (slice(0, self.n_x), self.model.bounds(self.p)),
            (slice(self.n_x, self.n_x + self.n_y), self.model.y_bounds),
        ):
            low[block], high[block] = bounds
        return Box(low, high)

    def name_of(self, column: int) -> str:
        """The user's name for an unknown."""
        for block, begin in ((self.model.x, 0), (self.model.y, self.n_x)):
            for leaf in block.leaves:
                where = block.slice_of(leaf)
                if begin + where.start <= column < begin + where.stop:
                    return str(leaf.name())
        return "a multiplier of the lower level"

    def values(self, z: Array) -> Array:
        """All rows at z."""
        return np.concatenate(
            [tape(*self._inputs(z, has_multipliers)) for tape, _, has_multipliers in self._parts]
        )

    def _inputs(self, z: Array, has_multipliers: bool) -> list[Array]:
        x, y, multipliers = np.split(z, [self.n_x, self.n_x + self.n_y])
        return [x, y, self.p] + ([np.append(1.0, multipliers)] if has_multipliers else [])

    def _slopes(self, box: Box, wanted: Array) -> tuple[Array, Array]:
        """Ranges of the derivatives of the wanted rows over the box."""
        low, high = np.zeros((wanted.size, self.n)), np.zeros((wanted.size, self.n))
        first = 0
        for tape, pullback, has_multipliers in self._parts:
            ends = [self._inputs(end, has_multipliers) for end in (box.low, box.high)]
            bounds = dict(zip(tape.input_names, zip(*ends, strict=True), strict=True))
            columns = kept = np.arange(self.n_x + self.n_y)
            if has_multipliers:
                columns = np.arange(self.n)
                # The weight of g itself is an input of the tape but no unknown.
                kept = np.delete(np.arange(self.n + 1), self.n_x + self.n_y)
            for row in range(tape.n_outputs):
                if wanted[first + row]:
                    unit = np.zeros(tape.n_outputs)
                    unit[row] = 1.0
                    bounds[pullback.input_names[-1]] = (unit, unit)
                    found = _without_overflow(*intervals(pullback, bounds))
                    low[first + row, columns] = found[0][kept]
                    high[first + row, columns] = found[1][kept]
            first += tape.n_outputs
        return low, high

    def ranges(self, box: Box) -> tuple[Array, Array]:
        """Bounds of all rows over the box by interval arithmetic; its ends may be infinite."""
        found = [self._range(box, tape, has_multipliers) for tape, _, has_multipliers in self._parts]
        return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])

    def least_objective(self, box: Box) -> float:
        """A lower bound of f over the box."""
        return float(self._range(box, self.model.f, False)[0][0])

    def _range(self, box: Box, tape: Tape, has_multipliers: bool) -> tuple[Array, Array]:
        ends = [self._inputs(end, has_multipliers) for end in (box.low, box.high)]
        bounds = dict(zip(tape.input_names, zip(*ends, strict=True), strict=True))
        return _without_overflow(*intervals(tape, bounds))

    def propagate(self, box: Box, tight: Array, cutoff: float) -> Box:
        """The part of the box that each row alone leaves, and f <= ``cutoff``; maybe none.

        ``tight`` names the inequalities that hold with equality.

        With c one value of unknown j and J the range of the row's derivative in it, a row r = 0 needs
        J (z_j - c) = -r(z with z_j = c). Boxes may be open, where linear estimators do not exist.
        """
        rows = np.arange(self.is_linear.size)
        is_equal = np.isin(rows, np.concatenate([self.equalities, tight]))
        right = np.where(rows == 0, cutoff, 0.0)
        for _ in range(MAX_SWEEPS):
            before = box
            slope_low, slope_high = self._slopes(box, ~self.is_linear)
            slope_low[self.is_linear] = slope_high[self.is_linear] = self._slope[self.is_linear]
            held = (slope_low != 0) | (slope_high != 0)
            for j in np.flatnonzero(held.any(axis=0)):
                # Nothing is rounded in a row that holds one unknown only.
                room = np.where(held.sum(axis=1) > held[:, j], ROUNDING, 0.0)
                slope = slope_low[:, j], slope_high[:, j]
                box = self._cut(box, int(j), np.where(is_equal, room, np.inf), right + room, slope)
                if box.low[j] > box.high[j]:
                    return box
            change = _finite_change(before.low, box.low) + _finite_change(before.high, box.high)
            if change <= SMALL_CHANGE:
                break
        return box

    def _cut(self, box: Box, j: int, below: Array, above: Array, slope: tuple[Array, Array]) -> Box:
        """The range of unknown j in which each row can lie between ``-below`` and ``above``."""
        at = float(np.clip(0.0, box.low[j], box.high[j]))
        low, high = box.low.copy(), box.high.copy()
        low[j] = high[j] = at
        rest_low, rest_high = self.ranges(Box(low, high))
        first, last = _quotient(-below - rest_high, above - rest_low, *slope)
        low[j] = max(box.low[j], at + first.max(initial=-np.inf))
        high[j] = min(box.high[j], at + last.min(initial=np.inf))
        return Box(low, high)

    def relax(self, box: Box) -> tuple[list[LinearRows], list[LinearRows], Array]:
        """Linear under- and overestimators of every row, and how much each row's slopes vary.

        Item i of the lists stands for row i: ``matrix z + right`` bounds it from below or above.
        A row without a usable corner has no estimator on that side.
        """
        low, high = self._slopes(box, ~self.is_linear)
        below: list[LinearRows] = []
        above: list[LinearRows] = []
        for row in range(self.is_linear.size):
            if self.is_linear[row]:
                exact = LinearRows(self._slope[row : row + 1], self._constant[row : row + 1])
                below.append(exact)
                above.append(exact)
                continue
            below.append(self._estimators(row, box, low[row], high[row]))
            above.append(self._estimators(row, box, high[row], low[row]))
        with np.errstate(invalid="ignore"):
            spread = np.where(np.isinf(low) | np.isinf(high), np.inf, high - low)
        return below, above, spread

    def _estimators(self, row: int, box: Box, at_low: Array, at_high: Array) -> LinearRows:
        """One estimator for each usable corner, with the slopes that belong to its low and high ends."""
        varies = np.flatnonzero(at_low != at_high)
        choices = [
            [
                is_high
                for is_high, end, slope in (
                    (False, box.low[j], at_low[j]),
                    (True, box.high[j], at_high[j]),
                )
                if np.isfinite(end) and abs(slope) <= MAX_SLOPE
            ]
            for j in varies
        ]
        matrix, right = [], []
        for sides in itertools.islice(itertools.product(*choices), MAX_CORNERS):
            is_high = np.array(sides, dtype=bool)
            corner, slope = np.clip(0.0, box.low, box.high), at_low.copy()
            corner[varies] = np.where(is_high, box.high[varies], box.low[varies])
            slope[varies] = np.where(is_high, at_high[varies], at_low[varies])
            if not np.all(np.isfinite(slope)):
                break  # an infinite slope that does not vary: no corner is usable
            constant = float(self.values(corner)[row]) - float(slope @ corner)
            if abs(constant) <= MAX_SLOPE:
                matrix.append(slope)
                right.append(constant)
        return LinearRows(np.array(matrix).reshape(-1, self.n), np.array(right))


def _without_overflow(low: Array, high: Array) -> tuple[Array, Array]:
    """Ranges whose nearer end is a number: what overflowed is large, but it is not infinite."""
    return np.minimum(low, LARGEST), np.maximum(high, -LARGEST)


def _quotient(low: Array, high: Array, slope_low: Array, slope_high: Array) -> tuple[Array, Array]:
    """Ends of the steps t with slope * t in [low, high]; a slope of 0 says nothing about them."""
    # Opposite infinities say nothing.
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    low, high = low - ROUNDING * np.abs(low), high + ROUNDING * np.abs(high)
    with np.errstate(all="ignore"):
        ends = np.array([end / slope for end in (low, high) for slope in (slope_low, slope_high)])
        ends = np.where(np.isnan(ends), 0.0, ends)  # infinite by infinite comes as near to 0 as any
        may_vanish = (slope_low <= 0) & (slope_high >= 0)
        first = np.where(may_vanish, -np.inf, ends.min(axis=0))
        last = np.where(may_vanish, np.inf, ends.max(axis=0))
        # A slope of one sign that may vanish still tells the sign of the step and how short it is.
        rises, falls = (slope_low == 0) & (slope_high > 0), (slope_low < 0) & (slope_high == 0)
        first = np.where(rises & (low > 0), low / slope_high, first)
        last = np.where(rises & (high < 0), high / slope_high, last)
        last = np.where(falls & (low > 0), low / slope_low, last)
        first = np.where(falls & (high < 0), high / slope_low, first)
    return first, last


def _finite_change(before: Array, after: Array) -> float:
    """How much one side of a box moved, relative to its size; an end that became finite counts 1."""
    moved = before != after
    size = 1 + np.abs(after[moved])
    with np.errstate(all="ignore"):
        change = np.abs(after[moved] - before[moved]) / size
    return float(np.minimum(change, 1.0).max(initial=0.0))
