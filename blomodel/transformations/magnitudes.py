r"""How large variables, rows and objectives of a model are, from the numbers that stand in it.

Around one point every function is a polynomial of second degree: rows :math:`a_i'z + b_i`, objectives
:math:`q'z + z'Hz/2`. Counted in other units, :math:`z_j = c_j z_j'`, row i times :math:`r_i` and an
objective divided by t, their coefficients are :math:`r_i a_{ij} c_j`, :math:`r_i b_i`,
:math:`q_j c_j / t` and :math:`H_{jk} c_j c_k / t`. The units sought make all of these as near to one as
they can be, in the sense of least squares of their logarithms (Curtis and Reid, 1972). These have the
property that counts here: a model that is written in other units gets units that undo it. The point is
the middle of the ranges that rows imply, or the one next to the origin: the same point in all units. No
variable is larger than its range allows, whatever small coefficients it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import jacobian, jvp
from blomodel.compiler.tape import Tape
from blomodel.model.model import Model
from blomodel.transformations.ranges import NEGLIGIBLE, At, Line, implied_ranges, middle_of
from blomodel.transformations.units import slope_there

OF_BOUNDS = 0.1  # weight of bounds on a single variable: many are only meant to be large enough
PULL = 1e-3  # towards no change, where nothing else decides
SAME = 1e-9  # relative; slopes that differ by less are equal
PROBES = 4  # products with the Hessian, where it has too many entries to be looked at
PROBES_IN_HASTE = 2  # where each takes long
ALIKE = 0.9  # share of their size that looks at one entry must have in common


@dataclass(frozen=True)
class Odd:
    """A coefficient of a row that no units bring near one: where it stands, and its size then."""

    kind: int  # of row, as in ``Magnitudes.rows``
    row: int
    variable: int
    size: float


@dataclass(frozen=True)
class Magnitudes:
    """Sizes as logarithms to base two; zero is a size of one.

    Attributes
    ----------
    variables : array
        Of x, then y.
    rows : tuple of arrays
        Of upper inequalities and equalities, then of lower ones, as they stand.
    scaled_rows : tuple of arrays
        The same when variables are counted in their own sizes.
    odd : Odd or None
        The coefficient that is then farthest from the others of its row; None without rows.
    lines : tuple
        Rows of each kind, linearised in two places.
    """

    variables: np.ndarray
    rows: tuple[np.ndarray, ...]
    scaled_rows: tuple[np.ndarray, ...]
    odd: Odd | None = None
    lines: tuple[tuple[Line, Line], ...] = field(default=(), repr=False)

    def with_variables(self, sizes: np.ndarray) -> Magnitudes:
        """The same with other sizes of variables."""
        scaled = tuple(_row_sizes(pair, sizes) for pair in self.lines)
        return replace(self, variables=sizes, scaled_rows=scaled)


def find_magnitudes(model: Model, p: np.ndarray, ordinary: float) -> Magnitudes | None:
    """The sizes of a model's parts at these parameters.

    None where no coefficient is beyond ``ordinary``, a logarithm to base two, or where numbers do not
    tell.
    """
    kinds = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    n_x, n_z = model.x.size, model.x.size + model.y.size
    low, high = implied_ranges(model, p)
    middle = middle_of(low, high)
    at = (middle[:n_x], middle[n_x:], p)
    equations = _Equations(n_z)
    lines = [Line.of(rows, at) for rows in kinds]
    for line in lines:
        equations.add_rows(line)
    everything = np.ones(n_z, bool)
    equations.add_objective(model.f_grad, at, everything)
    equations.add_objective(model.g_grad, at, np.arange(n_z) >= n_x)
    if not equations.has_beyond(ordinary):
        return None
    found = equations.solve()
    if found is None:
        return None
    sizes = _within_ranges(_by_kind(model, found[:n_z]), low, high)
    sizes[np.concatenate([model.integer_x, model.integer_y])] = 0.0  # whole numbers stay whole
    # Rows may be flat in the middle, as a square is: one more look, a size away from it.
    away = np.clip(middle + np.exp2(sizes), low, high)
    beside = [Line.of(rows, (away[:n_x], away[n_x:], p)) for rows in kinds]
    both = list(zip(lines, beside, strict=True))
    scaled = tuple(_row_sizes(pair, sizes) for pair in both)
    as_stated = tuple(_row_sizes(pair, np.zeros(n_z)) for pair in both)
    return Magnitudes(sizes, as_stated, scaled, _oddest(lines, sizes, scaled), tuple(both))


class _Equations:
    """Logarithms of coefficients: each is a sum of unknowns that shall undo it.

    Unknowns are the sizes of variables, then a factor for each row, then one for each objective.
    """

    def __init__(self, n_variables: int) -> None:
        self.n_variables = self.n_unknowns = n_variables
        self._columns: list[np.ndarray] = []  # up to three unknowns of each equation; -1: none
        self._values: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def add_rows(self, line: Line) -> None:
        """Coefficients and constants of rows."""
        first, count = self.n_unknowns, len(line.constants)
        self.n_unknowns += count
        is_bound = np.bincount(line.slopes.row, minlength=count) == 1
        weights = np.where(is_bound, OF_BOUNDS, 1.0)
        of_entry = line.slopes.row
        self._add(line.slopes.data, weights[of_entry], first + of_entry, line.slopes.col)
        self._add(line.constants, weights, first + np.arange(count))

    def add_objective(self, slope: Tape, at: At, decided: np.ndarray) -> None:
        """First and second derivatives; only those that hold a variable that the level decides."""
        unit = self.n_unknowns
        self.n_unknowns += 1
        z = np.concatenate(at[:2])
        # A run of the tape for each variable, ten times what a few looks may take.
        has_cheap_hessian = limits.FEW_LOOKS.allows(slope.n_products * self.n_variables / 10)
        is_read = limits.SIZES_FROM_HESSIAN.allows(self.n_variables) and has_cheap_hessian
        count = PROBES if limits.FEW_LOOKS.allows(slope.n_products) else PROBES_IN_HASTE
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (0 if is_read else count, z.size))
        here = slope_there(slope, *at)
        bend, products = _products(slope, at, z, signs)
        linear = here - bend
        linear[np.abs(linear) <= NEGLIGIBLE * (np.abs(here) + np.abs(bend))] = 0.0
        mine = np.flatnonzero(decided)
        self._add(linear[mine], np.ones(mine.size), np.full(mine.size, unit), mine)
        if is_read:
            second = sp.coo_array(sp.triu(jacobian(slope, ("x", "y"), at)))
            keep = decided[second.row] | decided[second.col]
            entries, row, col = second.data[keep], second.row[keep], second.col[keep]
        else:  # the diagonal, estimated by products with random signs
            looks = signs * products
            mean, spread = looks.mean(axis=0), np.sqrt((looks**2).mean(axis=0))
            # Where the looks differ, they show what stands beside the diagonal, and cancel by chance.
            mine = mine[np.abs(mean[mine]) > ALIKE * spread[mine]]
            entries, row, col = mean[mine], mine, mine
        self._add(entries, np.ones(entries.size), np.full(entries.size, unit), row, col)

    def _add(self, entries: np.ndarray, weights: np.ndarray, *unknowns: np.ndarray) -> None:
        usable = np.isfinite(entries) & (entries != 0.0)
        columns = np.full((int(usable.sum()), 3), -1)
        for k, unknown in enumerate(unknowns):
            columns[:, k] = unknown[usable]
        self._columns.append(columns)
        self._values.append(-np.log2(np.abs(entries[usable])))
        self._weights.append(weights[usable])

    def has_beyond(self, ordinary: float) -> bool:
        """Whether some coefficient is larger or smaller."""
        return any(np.abs(values).max(initial=0.0) > ordinary for values in self._values)

    def solve(self) -> np.ndarray | None:
        """The unknowns, by least squares."""
        columns, values = np.vstack(self._columns), np.concatenate(self._values)
        weights = np.sqrt(np.concatenate(self._weights))
        row, place = np.nonzero(columns >= 0)
        matrix = sp.csr_array(
            (weights[row], (row, columns[row, place])), shape=(len(values), self.n_unknowns)
        )
        found = lsmr(matrix, weights * values, damp=PULL, atol=1e-6, btol=1e-6, maxiter=200)[0]
        return found if np.all(np.isfinite(found)) else None


def _products(slope: Tape, at: At, z: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian times the point, and times each vector of signs.

    In one call: what holds the point alone, a third of the work with data, is computed once for all.
    """
    own = z[None, :][: int(z.any())]  # none where the point is the origin
    if not len(own) + len(signs):
        return np.zeros(z.size), signs
    product = jvp(slope, ("x", "y"))
    found = product.at_each(product.input_names[-1], np.concatenate([own, signs]), *at, z)
    return (found[0], found[1:]) if len(own) else (np.zeros(z.size), found)


def _by_kind(model: Model, sizes: np.ndarray) -> np.ndarray:
    """One size for all entries of a long variable: they are of a kind, and some are small by chance."""
    same = sizes.copy()
    for block, first in ((model.x, 0), (model.y, model.x.size)):
        for leaf in block.leaves:
            part = block.slice_of(leaf)
            mine = slice(first + part.start, first + part.stop)
            if not limits.UNIT_OF_EACH_ENTRY.allows(leaf.size):
                same[mine] = np.median(sizes[mine])
    return same


def _within_ranges(sizes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Sizes that the ranges allow: not above the larger end, not below the smaller one."""
    largest = np.maximum(np.abs(low), np.abs(high))
    smallest = np.where(low > 0, low, np.where(high < 0, -high, 0.0))
    with np.errstate(divide="ignore"):
        top = np.where(largest > 0, np.log2(np.where(largest > 0, largest, 1.0)), np.inf)
        return np.maximum(np.minimum(sizes, top), np.where(smallest > 0, np.log2(smallest), -np.inf))


def _row_sizes(lines: tuple[Line, Line], sizes: np.ndarray) -> np.ndarray:
    """The largest coefficient of each row, for variables of these sizes."""
    count = len(lines[0].constants)
    if not count:
        return np.empty(0)
    largest = np.zeros(count)
    for line in lines:
        entries = np.abs(line.slopes.data) * np.exp2(sizes[line.slopes.col])
        np.maximum.at(largest, line.slopes.row, np.where(np.isfinite(entries), entries, 0.0))
    constants = np.where(np.isfinite(lines[0].constants), np.abs(lines[0].constants), 0.0)
    largest = np.where(largest > 0, largest, constants)
    found = np.log2(np.where(largest > 0, largest, 1.0))
    # A curved row may be steep far from where it holds: it is never counted in a larger unit.
    return np.where(_is_curved(*lines), np.minimum(found, 0.0), found)


def _is_curved(here: Line, there: Line) -> np.ndarray:
    """Which rows have other slopes at another point."""
    slopes = sp.csr_array(here.slopes), sp.csr_array(there.slopes)
    largest = np.maximum(*(abs(part).max(axis=1).toarray().ravel() for part in slopes))
    change = abs(slopes[0] - slopes[1]).max(axis=1).toarray().ravel()
    return ~(change <= SAME * largest)


def _oddest(lines: list[Line], sizes: np.ndarray, rows: tuple[np.ndarray, ...]) -> Odd | None:
    """The coefficient that is farthest from the largest one of its row."""
    found: Odd | None = None
    for kind, (line, of_rows) in enumerate(zip(lines, rows, strict=True)):
        slopes = line.slopes
        usable = np.flatnonzero(np.isfinite(slopes.data) & (slopes.data != 0.0))
        if not usable.size:
            continue
        entries = np.log2(np.abs(slopes.data[usable])) + sizes[slopes.col[usable]]
        apart = entries - of_rows[slopes.row[usable]]
        k = int(np.abs(apart).argmax())
        if found is None or abs(apart[k]) > abs(found.size):
            found = Odd(kind, int(slopes.row[usable[k]]), int(slopes.col[usable[k]]), float(apart[k]))
    return found
