"""Quadratic programs that fall apart into independent blocks, each solved on its own.

Blocks of similar size are stacked and solved together by the primal-dual active set rule (see
``active_set.py``), so that a hundred small followers cost a few products of stacked matrices. Only
strongly convex blocks are: their variables are eliminated first. What does not end in a minimiser here
is left to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits

Solve = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
_CORRECTIONS = 12
_REFINEMENTS = 6
_WORST_CONDITION = 1e8
_FULL = 0.15  # share of nonzeros from which a larger block is treated as a plain matrix


@dataclass(frozen=True, eq=False)
class Part:
    """Variables, and the rows that hold them and no others."""

    variables: np.ndarray
    rows: np.ndarray


def independent_parts(hessian: sp.sparray, rows: sp.sparray) -> list[Part]:
    """The connected components of the variables, through a Hessian's pattern and the rows'."""
    n, m = hessian.shape[0], rows.shape[0]
    if n == 0:
        return []
    pattern = abs(sp.csr_array(rows))
    links = sp.csr_array(abs(sp.csr_array(hessian)))
    graph = sp.block_array([[links, pattern.T], [pattern, None]], format="csr") if m else links
    _, component = connected_components(graph, directed=False)
    of_rows = component[n:]
    # A row without variables belongs to the first part.
    of_rows = np.where(np.diff(pattern.indptr) == 0, component[0], of_rows) if m else of_rows
    names, first = np.unique(component[:n], return_index=True)
    number = np.empty(component.max(initial=0) + 1, dtype=int)
    number[names[np.argsort(first)]] = np.arange(len(names))
    return [
        Part(variables, inside)
        for variables, inside in zip(
            _grouped(number[component[:n]], len(names)),
            _grouped(number[of_rows], len(names)),
            strict=True,
        )
    ]


def _grouped(numbers: np.ndarray, count: int) -> list[np.ndarray]:
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))


@dataclass(frozen=True, eq=False)
class BlockAnswer:
    """A minimiser of all blocks together."""

    y: np.ndarray
    multipliers: np.ndarray
    active: np.ndarray
    corrections: int


class BlockActiveSet:
    """min .5 y'Py + q'y s.t. Ay <= b (= on the rows in ``equality``), block by block."""

    n: int
    m: int

    def __init__(self, parts: Sequence[Part], equality: np.ndarray) -> None:
        self.n, self.m = sum(len(part.variables) for part in parts), len(equality)
        self._A: sp.csc_array | None = None
        buckets: dict[tuple[int, int], list[Part]] = {}
        for part in parts:
            key = len(part.variables).bit_length(), len(part.rows).bit_length()
            buckets.setdefault(key, []).append(part)
        self._stacks = [_Stack(members, equality) for members in buckets.values()]

    @staticmethod
    def takes(parts: Sequence[Part], P: sp.csc_array) -> bool:
        """Whether plain matrices of the blocks are small or mostly full."""
        sizes = [(len(part.variables), len(part.rows)) for part in parts]
        if all(limits.DENSE_ACTIVE_SET.allows(n + m) for n, m in sizes):
            return True
        is_full = P.nnz > _FULL * sum(n * n for n, _ in sizes)
        return is_full and all(limits.DENSE_ACTIVE_SET_IF_FULL.allows(n + m) for n, m in sizes)

    def set_matrices(self, P: sp.csc_array, A: sp.csc_array) -> bool:
        """Take these matrices; tells whether every block is strongly convex."""
        if len(self._stacks) == 1 and self._stacks[0].count == 1:
            self._stacks[0].set_hessians(P.toarray()[None])
        else:
            entries = sp.coo_array(P)
            for stack in self._stacks:
                stack.read_hessians(entries, self.n)
        if A is not self._A:  # it moves less often than P
            self._A, rows = A, sp.coo_array(A)
            for stack in self._stacks:
                stack.read_rows(rows, self.n, self.m)
        return all(stack.prepare() for stack in self._stacks)

    def solve(
        self, q: np.ndarray, b: np.ndarray, active: np.ndarray | None, accuracy: float
    ) -> BlockAnswer | None:
        """The minimiser, corrected from the rows thought active; None where a block does not end."""
        y, multipliers = np.zeros(self.n), np.zeros(self.m)
        exact, corrections = np.zeros(self.m, bool), 0
        for stack in self._stacks:
            spent = stack.solve(q, b, active, 0.01 * min(accuracy, 1e-9), (y, multipliers, exact))
            if spent is None:
                return None
            corrections = max(corrections, spent)
        return BlockAnswer(y, multipliers, exact, corrections)

    def optimality_solver(self, active: np.ndarray) -> Solve:
        """Solver of [P A'; A 0] on the rows active in the last answer; it outlives the next solves."""
        stacks, rows = [copy(stack) for stack in self._stacks], np.flatnonzero(active)

        def solve(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            u, w, right = np.zeros(self.n), np.zeros(self.m), np.zeros(self.m)
            right[rows] = s
            for stack in stacks:
                stack.solve_active(r, right, u, w)
            return u, w[rows]

        return solve


class _Stack:
    """Blocks of similar size, filled up to the same one: by free variables, and rows that never bind."""

    def __init__(self, parts: list[Part], equality: np.ndarray) -> None:
        self.count = len(parts)
        self.n = max(len(part.variables) for part in parts)
        self.m = max(len(part.rows) for part in parts)
        # Where in the stacked vectors each variable and row lies.
        self.variables = np.concatenate([part.variables for part in parts])
        self.rows = np.concatenate([part.rows for part in parts]).astype(int)
        self.at_variable = np.concatenate(
            [k * self.n + np.arange(len(part.variables)) for k, part in enumerate(parts)]
        )
        self.at_row = np.concatenate(
            [k * self.m + np.arange(len(part.rows)) for k, part in enumerate(parts)]
        ).astype(int)
        self.equality = self._stacked_rows(equality, False)
        self._inverted: np.ndarray | None = None  # the active rows that ``_inverse`` belongs to

    def _stacked_rows(self, values: np.ndarray, rest: float) -> np.ndarray:
        stacked = np.full(self.count * self.m, rest, dtype=values.dtype)
        stacked[self.at_row] = values[self.rows]
        return stacked.reshape(self.count, self.m)

    def _places(self, n_all: int) -> np.ndarray:
        places = np.full(n_all, -1)
        places[self.variables] = self.at_variable
        return places

    def read_hessians(self, P: sp.coo_array, n_all: int) -> None:
        """Take the blocks of P; variables that fill up are given a one."""
        n, places = self.n, self._places(n_all)
        here = places[P.col] >= 0
        stack = np.zeros((self.count, n, n))
        stack.reshape(-1)[places[P.row[here]] * n + places[P.col[here]] % n] = P.data[here]
        filled = np.zeros(self.count * n, bool)
        filled[self.at_variable] = True
        empty = np.flatnonzero(~filled)
        stack.reshape(-1)[empty * n + empty % n] = 1.0
        self.set_hessians(stack)

    def set_hessians(self, stack: np.ndarray) -> None:
        """Take the blocks of P, in the order of their variables."""
        self.P = (stack + stack.transpose(0, 2, 1)) / 2

    def read_rows(self, A: sp.coo_array, n_all: int, m_all: int) -> None:
        """Take the rows of each block, which hold no variables of others."""
        places, row_places = self._places(n_all), np.full(m_all, -1)
        row_places[self.rows] = self.at_row
        here = row_places[A.row] >= 0
        self.A = np.zeros((self.count, self.m, self.n))
        where = row_places[A.row[here]] * self.n + places[A.col[here]] % self.n
        self.A.reshape(-1)[where] = A.data[here]
        self.At = np.ascontiguousarray(self.A.transpose(0, 2, 1))

    def prepare(self) -> bool:
        """Eliminate the variables; False where a block is not strongly convex."""
        self._inverted = None
        if not np.isfinite(self.P).all() or not self._factorise():
            return False
        self.PAt = self._divide(self.At)
        self.gram = self.A @ self.PAt  # A P^-1 A'
        return True

    def _factorise(self) -> bool:
        """Prepare division by P; False where it is not positive definite, or badly conditioned."""
        n, diagonal = self.n, self.P.diagonal(axis1=1, axis2=2)
        self._reciprocal = self._factors = None
        if np.count_nonzero(self.P) == np.count_nonzero(diagonal):
            least, largest = diagonal.min(axis=1), diagonal.max(axis=1)
            if not (least * _WORST_CONDITION > largest).all():
                return False
            self._reciprocal = 1.0 / diagonal[:, :, None]
            return True
        factors = []
        for block in self.P:
            factor, info = lapack.dpotrf(block, lower=1, clean=1)
            if info != 0:
                return False
            # The condition is at least this; what is worse shows in the residuals.
            pivots = factor.diagonal()
            if pivots.max() ** 2 > _WORST_CONDITION * pivots.min() ** 2:
                return False
            factors.append(factor)
        if self.count > 1 and limits.INVERTED_BLOCK.allows(n):
            self._reciprocal = np.linalg.inv(self.P)
        else:
            self._factors = factors
        return True

    def _divide(self, right: np.ndarray) -> np.ndarray:
        """P^-1 times stacked columns."""
        if self._reciprocal is not None:
            is_diagonal = self._reciprocal.shape[2] == 1 and self.n > 1
            return self._reciprocal * right if is_diagonal else self._reciprocal @ right
        assert self._factors is not None
        solved = np.empty_like(right)
        for k, factor in enumerate(self._factors):
            solved[k] = lapack.dpotrs(factor, right[k], lower=1)[0] if right.shape[2] else right[k]
        return solved

    def solve(
        self,
        q: np.ndarray,
        b: np.ndarray,
        active: np.ndarray | None,
        tolerance: float,
        into: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> int | None:
        """Write the minimiser into y, multipliers and active rows; tells the corrections made."""
        stacked = np.zeros(self.count * self.n)
        stacked[self.at_variable] = q[self.variables]
        q = stacked.reshape(self.count, self.n, 1)
        b = self._stacked_rows(b, np.inf)
        finite = np.isfinite(b)
        bounds = np.where(finite, b, 0.0)
        guess = self.equality.copy()
        if active is not None:
            guess |= self._stacked_rows(active, False) & finite
        reach = np.abs(bounds).max(axis=1, initial=1.0)[:, None]
        free = self._divide(-q)
        values = np.where(finite, (self.A @ free)[:, :, 0] - bounds, -np.inf)
        corrections = 0
        while corrections <= _CORRECTIONS:
            self._invert(guess)
            known = np.where(guess, values, 0.0)[:, :, None]
            multipliers = (self._inverse @ known)[:, :, 0]
            over = values - (self.gram @ multipliers[:, :, None])[:, :, 0]
            wrong_row = (over > tolerance * reach) & ~guess
            largest = np.abs(multipliers).max(axis=1, initial=1.0)[:, None]
            wrong_sign = (multipliers < -tolerance * largest) & guess & ~self.equality
            if not wrong_row.any() and not wrong_sign.any():
                break
            guess = (guess | wrong_row) & ~wrong_sign
            corrections += 1
        else:
            return None
        point = free - self.PAt @ multipliers[:, :, None]
        found = self._refine(
            q, bounds[:, :, None], guess[:, :, None], point, multipliers[:, :, None], tolerance
        )
        if found is None:
            return None
        y, pushes = found[0].reshape(-1), found[1][:, :, 0]
        pushes = np.where(self.equality, pushes, np.maximum(pushes, 0.0)).reshape(-1)
        into[0][self.variables] = y[self.at_variable]
        into[1][self.rows] = pushes[self.at_row]
        into[2][self.rows] = guess.reshape(-1)[self.at_row]
        return corrections

    def solve_active(self, r: np.ndarray, s: np.ndarray, u: np.ndarray, w: np.ndarray) -> None:
        """Write the solution of Pu + A'w = r, Au = s on the active rows into u and w."""
        stacked = np.zeros(self.count * self.n)
        stacked[self.at_variable] = r[self.variables]
        free = self._divide(stacked.reshape(self.count, self.n, 1))
        miss = self.A @ free - self._stacked_rows(s, 0.0)[:, :, None]
        push = self._inverse @ miss  # which is zero outside the active rows
        u[self.variables] = (free - self.PAt @ push).reshape(-1)[self.at_variable]
        w[self.rows] = push.reshape(-1)[self.at_row]

    def _invert(self, active: np.ndarray) -> None:
        """The inverse of A P^-1 A' on the active rows of each block, zero elsewhere."""
        changed = np.arange(self.count)
        if self._inverted is not None:
            changed = np.flatnonzero((self._inverted != active).any(axis=1))
        else:
            self._inverse = np.zeros((self.count, self.m, self.m))
        if len(changed) and self.m:
            used = np.flatnonzero(active[changed].any(axis=0))
            chosen = active[np.ix_(changed, used)]
            both = chosen[:, :, None] & chosen[:, None, :]
            system = np.where(both, self.gram[np.ix_(changed, used, used)], 0.0)
            # Dependent rows make it singular; the small shift picks one of the multipliers, and
            # refinement removes its effect on everything that is determined.
            diagonal = system.diagonal(axis1=1, axis2=2)
            shift = 1e-11 * np.maximum(diagonal.max(axis=1, initial=0.0), 1e-300)
            where = np.arange(len(used))
            system[:, where, where] += np.where(chosen, shift[:, None], 1.0)
            self._inverse = self._inverse.copy()  # solvers of the rows before still hold it
            self._inverse[changed] = 0.0
            self._inverse[np.ix_(changed, used, used)] = np.where(both, np.linalg.inv(system), 0.0)
        self._inverted = active.copy()

    def _refine(
        self,
        q: np.ndarray,
        b: np.ndarray,
        active: np.ndarray,
        y: np.ndarray,
        multipliers: np.ndarray,
        tolerance: float,
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Remove the rounding of elimination; None where the system is not solved to the tolerance."""
        previous = np.inf
        for _ in range(_REFINEMENTS):
            curve, pull = self.P @ y, self.At @ multipliers
            slope = q + curve + pull
            miss = np.where(active, b - self.A @ y, 0.0)
            scale = np.maximum.reduce(
                [_largest(q), _largest(curve), _largest(pull), np.full(self.count, 1e-8)]
            )
            scale_b = np.maximum(np.maximum(_largest(np.where(active, b, 0.0)), _largest(y)), 1e-8)
            error = float(np.max(np.maximum(_largest(slope) / scale, _largest(miss) / scale_b)))
            if error <= 0.01 * tolerance:
                return y, multipliers
            if not error < 0.5 * previous:
                return (y, multipliers) if error <= tolerance else None
            previous = error
            towards = self._divide(-slope)
            step = self._inverse @ np.where(active, self.A @ towards - miss, 0.0)
            y, multipliers = y + towards - self.PAt @ step, multipliers + step
        return None


def _largest(stacked: np.ndarray) -> np.ndarray:
    return np.abs(stacked).max(axis=(1, 2), initial=0.0)
