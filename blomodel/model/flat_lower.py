"""Lower objectives that are flat somewhere: in which units a loss below is seen, and whether it is real.

A lower level may hardly care at some x, as with g = x y near x = 0, or in a part of y that nothing
connects with the rest. What an answer loses there is compared with what g can vary by at that x, in that
part, not with one number for all. A lower level is indifferent at single x, and these are often the best
ones above; an x that rounding has moved away from such a place is told from one that only a tolerance
brings there by whether a small step that keeps the upper rows leads to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from blomodel.basics.memory import remembered
from blomodel.compiler.passes.dependence import independent_groups
from blomodel.compiler.passes.derivatives import gradient

if TYPE_CHECKING:
    from blomodel.model.model import Model

Array = np.ndarray
ACCURATE = 1e-3  # of the lower value: the smallest unit in which a gap is measured
VISIBLE = 1e-2  # relative to size or bounds: distance at which two answers are different to the eye
NOISE = 1e-14  # relative; differences of g below this are rounding
TINY = 1e-10  # relative; solvers leave such losses in their answers
GONE = 1e-12  # share of a loss that rounding may leave of it
SNAPS = 1e-9  # share of a step at which it ends on a bound
MEETS = 0.99  # share of a loss that a step must undo to the first order


def _variations(model: Model, x: Array, y: Array, p: Array) -> Array:
    """By how much g changes when an entry of y moves by its own size, within its bounds."""
    low, high = model.y_bounds
    reach = np.minimum(1 + np.abs(y), np.where(high > low, high - low, np.inf))
    points = (y, np.minimum(y + reach, np.maximum(high, y)), np.maximum(y - reach, np.minimum(low, y)))
    with np.errstate(all="ignore"):
        slopes = [np.abs(model.g_grad(x, at, p)[x.size :]) * reach for at in points]
    finite = [slope for slope in slopes if np.all(np.isfinite(slope))]
    return np.max(finite, axis=0) if finite else np.zeros(y.size)


def variation(model: Model, x: Array, y: Array, p: Array) -> float:
    """By how much g changes when y moves by about its own size: largest slope times move."""
    return float(_variations(model, x, y, p).max(initial=0.0))


def gap_unit(model: Model, x: Array, y: Array, p: Array, value: float) -> float:
    """What a lower gap is compared with: the optimal value, or how much g varies if that is less.

    A large constant in g would otherwise hide every gap. The unit is no smaller than what the accuracy
    of the optimal value allows.
    """
    size = 1 + abs(value)
    change = variation(model, x, y, p)
    return size if change == 0 else float(np.clip(change, ACCURATE * size, size))


@remembered
def groups_below(model: Model) -> list[Array]:
    """Entries of y, in groups that neither g nor a lower row connects."""
    rows = [rows.tape for rows in (model.lower_in, model.lower_eq) if rows.tape is not None]
    if model.lower_in.spectral:
        return [np.arange(model.y.size)]
    return independent_groups(gradient(model.g, ("y",)), rows)


def loss_in_own_units(
    model: Model, x: Array, y: Array, better: Array, p: Array, tolerance: float
) -> float:
    """What y loses against another answer at x, relative to what g can vary by; often 0.

    Only parts of y that are another answer to the eye count, and only a loss that no step of x within
    the tolerance undoes.
    """
    low, high = model.y_bounds
    widths = np.where(high > low, high - low, np.inf)
    apart = np.abs(y - better)
    if not np.any(apart > VISIBLE * np.minimum(1.0, widths)):
        return 0.0
    worst = 0.0
    for group in groups_below(model):
        sight = np.minimum(1 + np.abs(better[group]).max(), widths[group])
        if np.all(apart[group] <= VISIBLE * sight):
            continue
        swapped = y.copy()
        swapped[group] = better[group]
        here, there = float(model.g(x, y, p)[0]), float(model.g(x, swapped, p)[0])
        if not here - there > NOISE * max(abs(here), abs(there)):
            continue
        change = max(_variations(model, x, at, p)[group].max() for at in (y, swapped))
        loss = (here - there) / max(change, here - there)
        if loss > max(worst, TINY) and not is_undone(model, x, y, swapped, p, tolerance):
            worst = loss
    return worst


def is_undone(model: Model, x: Array, y: Array, better: Array, p: Array, tolerance: float) -> bool:
    """Whether a step of x within the tolerance makes y as good as the better answer.

    At its end the loss must be gone, not only small beside what it was: where a bound on x stops the
    step, what is left may be all that the lower level cares about.
    """
    loss = _loss(model, x, y, better, p)
    there = step_that_undoes(model, x, y, better, p, tolerance, loss)
    return there is not None and _loss(model, there, y, better, p) <= GONE * loss


def _loss(model: Model, x: Array, y: Array, better: Array, p: Array) -> float:
    """What y loses against another answer."""
    return float(model.g(x, y, p)[0]) - float(model.g(x, better, p)[0])


def step_that_undoes(
    model: Model, x: Array, y: Array, better: Array, p: Array, tolerance: float, loss: float
) -> Array | None:
    """The x within the tolerance that speaks most for y, if it undoes a loss to first order.

    It keeps the upper rows exactly: a place that only a violation reaches does not count.
    """
    n_x = x.size
    slope = model.g_grad(x, y, p)[:n_x] - model.g_grad(x, better, p)[:n_x]
    if not n_x or not np.all(np.isfinite(slope)) or not slope.any():
        return None
    ends = room_for_x(model, x, p, tolerance)
    if slope @ np.where(slope > 0, *ends) > -MEETS * loss:
        return None
    rows, equal = model.upper_in.linearise(x, y, p), model.upper_eq.linearise(x, y, p)
    unit = float(np.abs(slope).max())
    size = max(float(np.maximum(-ends[0], ends[1]).max()), 1e-300)
    found = linprog(
        slope / unit,
        A_ub=sp.csr_array(rows.in_x) if rows.in_x.shape[0] else None,
        b_ub=np.maximum(-rows.value, 0.0) / size if rows.in_x.shape[0] else None,
        A_eq=sp.csr_array(equal.in_x) if equal.in_x.shape[0] else None,
        b_eq=np.zeros(equal.in_x.shape[0]) if equal.in_x.shape[0] else None,
        bounds=np.column_stack(ends) / size,
    )
    if found.status != 0 or not found.fun * unit * size <= -MEETS * loss:
        return None
    move = found.x * size
    for end in ends:  # exactly on a bound, where the program's rounding leaves it beside
        move = np.where(np.abs(move - end) <= SNAPS * size, end, move)
    return np.asarray(x + move)


def room_for_x(model: Model, x: Array, p: Array, tolerance: float) -> tuple[Array, Array]:
    """The least and the largest step of each entry of x within the tolerance and its bounds."""
    low, high = model.bounds(p)
    step = np.where(model.integer_x, 0.0, tolerance * (1 + np.abs(x)))
    return np.minimum(np.maximum(low - x, -step), 0.0), np.maximum(np.minimum(high - x, step), 0.0)
