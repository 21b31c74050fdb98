"""Quadratic functions with sizes of single entries, solved on the few entries that are not zero.

``sum_squares(A @ y - b) + x * norm1(y)`` with more features than samples: few entries of the minimiser
differ from zero, and on these the function is a small dense one. Entries whose slopes outweigh their
sizes are added until there are none. The Hessian's columns of the entries come from products, one each,
and are kept: from one x to the next it stays as it is, or changes in its diagonal alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Array = np.ndarray
Product = Callable[[Array], Array]

FIRST = 20  # entries that are added at once, at least
MOST = 2000  # entries whose columns are kept
ROUNDS = 60  # of additions
CYCLES = 200  # over the entries of a small problem, at the most
RIDGE = 1e-13  # relative, added to a matrix that is not definite
SAME = 1e-10  # relative difference at which two products are one
ROUNDING = 1e-15


class WorkingSet:
    """Entries that may differ from zero, and the Hessian in them."""

    def __init__(self) -> None:
        self.entries = np.empty(0, dtype=int)
        self.hessian = np.empty((0, 0))

    def minimise(
        self, slope: Product, product: Product, sizes: Array, start: Array, is_exact: Callable[..., bool]
    ) -> Array | None:
        """A minimiser of a quadratic function plus sizes . |y|; None where too many entries would move.

        Parameters
        ----------
        slope, product : callable
            The gradient of the quadratic part at a point, and its Hessian times a vector.
        sizes : array
            The weights of the entries' sizes, nonnegative.
        start : array
        is_exact : callable
            Of a point and the slope there: whether it will do.
        """
        self._adapt(product, sizes.size)
        y = np.zeros(sizes.size)
        y[self.entries] = start[self.entries]  # others come in as they are wanted: most go back to zero
        here = slope(y)
        for _ in range(ROUNDS):
            if is_exact(y, here):
                return y
            if not self._extend(product, _wanted(y, here, sizes, self.entries), y):
                return None
            own = self.entries
            linear = here[own] - self.hessian @ y[own]
            y = y.copy()
            y[own] = minimise_small(self.hessian, linear, sizes[own], y[own])
            here = slope(y)
        return None

    def _extend(self, product: Product, wanted: Array, y: Array) -> bool:
        """Take further entries in; False where they would be too many, or there are none at all."""
        if len(self.entries) + len(wanted) > MOST:
            self._keep(y[self.entries] != 0)
        before, more = len(self.entries), len(wanted)
        if before + more > MOST or before + more == 0:
            return False
        entries = np.concatenate([self.entries, wanted])
        hessian = np.empty((before + more, before + more))
        hessian[:before, :before] = self.hessian
        for number, entry in enumerate(wanted, start=before):
            unit = np.zeros(y.size)
            unit[entry] = 1.0
            hessian[:, number] = hessian[number, :] = product(unit)[entries]
        self.entries, self.hessian = entries, hessian
        return True

    def _keep(self, chosen: Array) -> None:
        """Forget all entries but these."""
        self.entries, self.hessian = self.entries[chosen], self.hessian[np.ix_(chosen, chosen)]

    def _adapt(self, product: Product, n: int) -> None:
        """Keep the columns if they still hold, but for their diagonal; forget them otherwise."""
        if not len(self.entries):
            return
        random, changes = np.random.default_rng(0), []
        for _ in range(2):
            vector = np.zeros(n)
            vector[self.entries] = 1.0 + random.random(len(self.entries))
            there, own = product(vector)[self.entries], vector[self.entries]
            size = float(np.abs(there).max(initial=0.0))
            changes.append((there - self.hessian @ own) / own)
        if np.abs(changes[0] - changes[1]).max() > SAME * size:
            self._keep(np.zeros(len(self.entries), dtype=bool))
        elif np.abs(changes[0]).max() > SAME * size:
            self.hessian[np.diag_indices(len(self.entries))] += changes[0]


def _wanted(y: Array, slope: Array, sizes: Array, known: Array) -> Array:
    """Entries outside a set that must be in it, or whose slopes outweigh their sizes, worst first."""
    excess = np.abs(slope) - sizes
    excess[(y != 0) | (sizes == 0)] = np.inf
    excess[known] = -np.inf
    worst = np.argsort(-excess, kind="stable")
    must = int(np.sum(excess == np.inf))
    return worst[: max(must, min(max(FIRST, int(np.sum(y != 0))), int(np.sum(excess > 0))))]


def minimise_small(hessian: Array, linear: Array, sizes: Array, start: Array) -> Array:
    """A minimiser of z'Hz/2 + linear'z + sizes'|z| for a dense H.

    Entries in turn find out which of them leave zero, and with which sign; Newton steps find the best
    point with these signs, and which entries go back to zero on the way.
    """
    z, diagonal = start.copy(), np.maximum(hessian.diagonal(), ROUNDING)
    for _ in range(CYCLES):
        slope = hessian @ z + linear
        for k in range(z.size):
            target = z[k] - slope[k] / diagonal[k]
            new = np.sign(target) * max(abs(target) - sizes[k] / diagonal[k], 0.0)
            if new != z[k]:
                slope += hessian[:, k] * (new - z[k])
                z[k] = new
        z = _best_with_these_signs(hessian, linear, sizes, z)
        outweighs = np.abs(hessian @ z + linear) > sizes * (1 + SAME)
        if not np.any(outweighs & (z == 0) & (sizes > 0)):
            break
    return z


def _best_with_these_signs(hessian: Array, linear: Array, sizes: Array, z: Array) -> Array:
    """Towards the minimiser among points with the signs of z; what meets zero on the way stays there."""
    z = z.copy()
    for _ in range(z.size):
        moves = (z != 0) | (sizes == 0)
        if not moves.any():
            return z
        own = hessian[np.ix_(moves, moves)]
        right = -linear[moves] - sizes[moves] * np.sign(z[moves])
        way = _solved(own, right - own @ z[moves])
        # How far each entry may go until it meets zero.
        at, is_sized = z[moves], sizes[moves] > 0
        turns = is_sized & (at * way < 0)
        ends = np.where(turns, -at / np.where(turns, way, 1.0), np.inf)
        first = float(ends.min(initial=np.inf))
        at = at + min(first, 1.0) * way
        at[ends <= min(first, 1.0)] = 0.0
        z[moves] = at
        if first >= 1.0:
            return z
    return z


def _solved(matrix: Array, right: Array) -> Array:
    """A positive semidefinite matrix divided into a vector, with one correction for rounding."""
    shift = 0.0
    while True:
        try:
            factor = cho_factor(matrix + shift * np.eye(len(matrix)))
        except LinAlgError:
            # More entries than samples: the step goes on until one of them meets zero.
            shift = max(10 * shift, RIDGE * float(matrix.diagonal().max()))
            continue
        found = cho_solve(factor, right)
        return found if shift else found + cho_solve(factor, right - matrix @ found)
