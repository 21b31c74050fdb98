r"""Where a lower point stands for others: how it moves with x, and what excludes it at another x.

A lower point :math:`y_k` tells of every x at which it satisfies the lower rows. So a cut says: some row
excludes it at x, or the lower objective is no worse than at :math:`y_k`. "Excludes" is ``> 0``, and a
relaxation must be closed, so that in general ``>= 0`` takes its place: a point on its own row cuts
nothing. Where a row has integer variables and commensurable coefficients, its values are a lattice, and
the least positive one takes the place of zero; then the cut holds at the very x at which it was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from blomodel.basics.memory import remembered
from blomodel.compiler.passes.dependence import dependence
from blomodel.model.model import Model
from blomodel.model.rows import Rows
from blomodel.solvers.branching.scip_expressions import Formula

Array = np.ndarray

DENOMINATORS = (1, 2, 3, 4, 5, 10, 12, 100, 1000, 10_000, 100_000)  # tried for coefficients
WHOLE = 1e-9  # relative: what is as good as a whole number
INSIDE = 0.99  # of the least positive value, so that rounding excludes nothing
NEVER = 1e-9  # relative: a row that is no larger than this for any x excludes nothing
NO_MOVE = 1e-14  # a lower point that moves by less with x stays


@dataclass(frozen=True, eq=False)
class Carried:
    """A lower point at every x.

    Attributes
    ----------
    y : list of formulas
        Where it lies.
    excluding : list of formulas
        One of them is ``<= 0`` wherever it is no lower point.
    is_sharp : bool
        Whether none of them is ``<= 0`` at the x where the point was found.
    """

    y: list[Formula]
    excluding: list[Formula]
    is_sharp: bool


def carry(
    model: Model,
    p: Array,
    at: Array,
    y: Array,
    x: Sequence[Formula],
    sharp: Mapping[int, Formula] = MappingProxyType({}),
) -> Carried | None:
    """A lower point, found at the upper point ``at``, in terms of x; None where it tells nothing else.

    Only for problems with integers, whose lower equations are affine. ``sharp`` holds, for some lower
    rows, what is ``<= 0`` wherever they exclude the point, and never else.
    """
    if not (model.lower_in.is_affine and model.lower_eq.is_affine):
        return None
    equations = model.lower_eq.linearise(at, y, p)
    moves = _moves(model, equations.in_x.toarray(), equations.in_y.toarray())
    for row, column in find_switches(model, p):
        if at[column] < 0.5:  # an attacked entry is zero, and the point does without it
            moves[row, column] = -y[row]
    here: list[Formula] = [float(value) for value in y]
    for row, column in zip(*np.nonzero(moves), strict=True):
        here[row] = here[row] + float(moves[row, column]) * (x[column] - float(at[column]))
    excluding: list[Formula] = []
    is_sharp = True
    slopes = equations.in_x.toarray() + equations.in_y.toarray() @ moves
    for slope in _nonzero(slopes):
        both = [_excluding(model, at, x, sign * slope, 0.0) for sign in (1.0, -1.0)]
        if not all(is_strict for _, is_strict in both):
            return None  # an equation of real numbers excludes the point almost everywhere
        excluding += [formula for formula, _ in both]
    low, high = model.bounds(p)
    rows = model.lower_in.linearise(at, y, p)
    slopes = rows.in_x.toarray() + rows.in_y.toarray() @ moves
    excluding += list(sharp.values())
    for k, (slope, value) in enumerate(zip(slopes, rows.value, strict=True)):
        if k in sharp:
            continue
        slope[np.abs(slope) < NO_MOVE] = 0.0
        held = np.flatnonzero(slope)
        moves_of_x = low[held] - at[held], high[held] - at[held]
        ends = np.maximum(slope[held] * moves_of_x[0], slope[held] * moves_of_x[1])
        if held.size and value + ends.sum() > NEVER * (1 + abs(value)):
            formula, is_strict = _excluding(model, at, x, slope, float(value))
            excluding.append(formula)
            is_sharp &= is_strict or value < -WHOLE
    return Carried(here, excluding, is_sharp)


def _moves(model: Model, in_x: Array, in_y: Array) -> Array:
    """How the real entries of a lower point move with x, so that equations hold if they can."""
    moves = np.zeros((model.y.size, model.x.size))
    real = np.flatnonzero(~model.integer_y)
    if len(in_x) and real.size:
        moves[real] = -np.linalg.pinv(in_y[:, real]) @ in_x
    moves[np.abs(moves) < NO_MOVE] = 0.0
    return moves


@remembered
def find_switches(model: Model, p: Array) -> tuple[tuple[int, int], ...]:
    """Entries of y that a 0-1 entry of x sets to zero: pairs of both, as in interdiction.

    A row ``a y_j + b x_i <= c`` with ``y_j >= 0`` leaves y_j no choice where x_i is 1. A lower point can
    then do without y_j there, unless an equation holds it.
    """
    if not len(model.lower_in) or not model.integer_x.any():
        return ()
    zeros = np.zeros(model.x.size), np.zeros(model.y.size), p
    rows = model.lower_in.linearise(*zeros)
    in_x, in_y = rows.in_x.toarray(), rows.in_y.toarray()
    in_equations = np.abs(model.lower_eq.linearise(*zeros).in_y.toarray()).sum(axis=0)
    low, high = model.bounds(p)
    is_binary = model.integer_x & (low == 0) & (high == 1)
    found: dict[int, int] = {}
    single = np.flatnonzero(((in_x != 0).sum(axis=1) == 1) & ((in_y != 0).sum(axis=1) == 1))
    for row in single:
        i, j = int(np.flatnonzero(in_x[row])[0]), int(np.flatnonzero(in_y[row])[0])
        a, b, c = in_y[row, j], in_x[row, i], -rows.value[row]
        is_zero = a > 0 and b > 0 and abs(c - b) <= WHOLE * (1 + abs(c))
        if is_zero and is_binary[i] and model.y_bounds[0][j] == 0 and not in_equations[j]:
            found.setdefault(j, i)
    return tuple(found.items())


def _nonzero(slopes: Array) -> list[Array]:
    small = WHOLE * (1 + np.abs(slopes).max(initial=0.0))
    cleaned = np.where(np.abs(slopes) < small, 0.0, slopes)
    return [slope for slope in cleaned if slope.any()]


def _excluding(
    model: Model, at: Array, x: Sequence[Formula], slope: Array, value: float
) -> tuple[Formula, bool]:
    """``<= 0`` where a row is positive: its formula and whether zero itself is left out."""
    step = least_positive(slope, value, model.integer_x)
    row: Formula = value
    for column in np.flatnonzero(slope):
        row = row + float(slope[column]) * (x[int(column)] - float(at[column]))
    return INSIDE * step - row, step > 0


def least_positive(slope: Array, value: float, is_integer: Array) -> float:
    """The least positive value of ``value + slope'd`` over whole d; 0 where there is none.

    Entries of d that are not whole must not occur.
    """
    held = np.flatnonzero(slope)
    if not held.size or not np.all(is_integer[held]):
        return 0.0
    unit = common_unit(slope[held])
    if unit == 0.0:
        return 0.0
    rest = value - unit * np.floor(value / unit)
    small = WHOLE * (1 + abs(value)) * 10
    if rest <= small or unit - rest <= small:
        return unit
    return float(rest)


def common_unit(numbers: Array) -> float:
    """The largest number of which all are multiples; 0 where none is found."""
    for denominator in DENOMINATORS:
        scaled = numbers * denominator
        whole = np.round(scaled)
        if np.all(np.abs(scaled - whole) <= WHOLE * (1 + np.abs(scaled))):
            return float(np.gcd.reduce(np.abs(whole).astype(np.int64))) / denominator
    return 0.0


def linking_columns(model: Model) -> Array:
    """Which entries of x the lower level holds."""
    found = np.zeros(model.x.size, dtype=bool)
    parts: tuple[Rows, ...] = (model.lower_in, model.lower_eq)
    for tape in (model.g, *(part.tape for part in parts if part.tape is not None)):
        found |= dependence(tape, "x").any(axis=0)
    return found


def elsewhere(
    model: Model, at: Array, x: Sequence[Formula], bounds: tuple[Array, Array]
) -> list[Formula] | None:
    """One of these is ``<= 0`` wherever x differs from ``at`` in what the lower level holds.

    None where that is not a matter of whole numbers.
    """
    linking = linking_columns(model)
    if not np.all(model.integer_x[linking]):
        return None
    found: list[Formula] = []
    distance: Formula = 0.0  # of the entries that lie at a bound, which can leave it in one direction
    for column in np.flatnonzero(linking):
        here, move = float(at[column]), x[int(column)] - float(at[column])
        if bounds[0][column] >= here - 0.5:
            distance = distance + move
        elif bounds[1][column] <= here + 0.5:
            distance = distance - move
        else:
            found += [move + 1.0, 1.0 - move]
    return [*found, 1.0 - distance]
