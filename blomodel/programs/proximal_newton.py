"""A large lower level that is smooth and convex but for sizes of single entries: proximal steps.

``sum_squares(A @ y - b) + x * norm1(y)`` with many features: the Hessian A'A would have far more entries
than A. The same without sizes: so many rows that A'A would take too long. Proximal gradient steps with
momentum (Beck and Teboulle, 2009) find out which entries are zero; Newton steps with conjugate gradients
on the others make the answer sharp. Only products are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cvxpy as cp
import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.blocks import Block
from blomodel.compiler.passes.derivatives import jvp
from blomodel.programs.adjoint import Adjoint
from blomodel.programs.lagrangian import Lagrangian
from blomodel.programs.newton import extreme_curvatures
from blomodel.programs.working_set import WorkingSet
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.choice import count
from blomodel.solvers.threads import one_blas_thread

Definitions = Sequence[tuple[cp.Variable, Sequence[cp.Expression]]]

MAX_ROUNDS = 200  # of proximal steps, and then Newton steps
FEW_ROUNDS = 5  # before columns of the Hessian are tried
STEPS = 30  # proximal steps in a round
MAX_PRODUCTS = 300  # with the Hessian, in one Newton step
POWER_STEPS = 15
MARGIN = 1.1  # on the largest curvature, which power steps find from below
SHARE = 0.1  # of the accuracy: what is left of the slope may be worth
ROUNDING = 1e-15
ROUGH = 0.1  # relative accuracy of Newton steps before the zeros are settled
STRICT = 1e-6  # relative distance from its weight at which a slope holds an entry at zero


class ProximalProgram:
    """min_y s(x, y) + sum_k w_k(x) |y_k|, for s smooth and convex in y.

    Parameters
    ----------
    lagrangian : Lagrangian
        Of the level with a variable t for each size: s(x, y) + w't with rows y - t <= 0, -y - t <= 0.
    places : array
        Which entry of y each t is the size of.
    lengths : sequence of int
        Of the variables of which t is made up.
    """

    is_smooth = False

    def __init__(self, lagrangian: Lagrangian, places: np.ndarray, lengths: Sequence[int]) -> None:
        self.lagrangian, self.places, self._lengths = lagrangian, places, lengths
        self.n = lagrangian.blocks[1].size
        self.n_y = self.n - len(places)
        self._slope = lagrangian.terms_grad_y
        self._action = jvp(self._slope, ("y",))
        self._mixed = jvp(lagrangian.terms_grad_x, ("y",))
        self.working_set = WorkingSet()
        self._last: np.ndarray | None = None
        self._answered: tuple[tuple[bytes, ...], float, Answer] | None = None

    @property
    def served_by(self) -> str:
        """Who answers."""
        return "proximal steps and Newton's method"

    def is_convex(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> bool:
        """By cvxpy's rules, at every x of X."""
        return bool(weights[0] >= 0)

    def convexity(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> float:
        """Not known: the Hessian is not looked at."""
        return np.nan

    def solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        warm: bool,
        accuracy: float,
        near: np.ndarray | None = None,
        deadline: Deadline = NEVER,
    ) -> Answer:
        """The minimiser, to within ``accuracy`` of 1 + |minimum|; FAILED where none is found in time."""
        key = (x.tobytes(), p.tobytes(), weights.tobytes())
        if warm and self._answered is not None and self._answered[:2] == (key, accuracy):
            return replace(self._answered[2], y=self._answered[2].y.copy())
        start = np.zeros(self.n_y) if near is None else near.copy()
        if warm and self._last is not None:
            start = self._last.copy()
        with one_blas_thread(), np.errstate(all="ignore"):
            found = _Descent(self, x, p, weights, deadline).run(start, accuracy)
        if found is None:
            reason = "the time was over" if deadline.is_over else "proximal steps did not converge"
            return Answer.without_point(InnerStatus.FAILED, self.n, reason)
        count("proximal newton")
        y, value, slope, sizes, steps = found
        self._last = y
        lifted = np.concatenate([y, np.abs(y[self.places])])
        here = slope[self.places]
        # y - t <= 0 and -y - t <= 0, one vector of rows after the other for each variable t.
        both = np.maximum(sizes - here, 0) / 2, np.maximum(sizes + here, 0) / 2
        parts, begin = [], 0
        for size in self._lengths:
            parts += [both[0][begin : begin + size], both[1][begin : begin + size]]
            begin += size
        multipliers = np.concatenate([np.empty(0), *parts])
        duals = self.lagrangian.split(multipliers)
        answer = Answer(
            InnerStatus.OPTIMAL,
            value,
            lifted,
            duals,
            steps,
            multipliers,
            solver="proximal steps, newton",
        )
        self._answered = key, accuracy, answer
        return replace(answer, y=lifted.copy())

    def adjoint(
        self, x: np.ndarray, p: np.ndarray, lifted: np.ndarray, slope: np.ndarray
    ) -> Adjoint | None:
        """The product (dy/dx)' slope at a minimiser, where zeros stay zeros and signs stay signs."""
        y, weights = lifted[: self.n_y], np.ones(1)
        descent = _Descent(self, x, p, weights, NEVER)
        with one_blas_thread(), np.errstate(all="ignore"):
            first = descent.slope(y)
            np.add.at(descent.sizes, self.places, first[self.n_y :])
            held = descent.moving(y)
            move = descent.solved(y, held, slope[: self.n_y][held])
            if move is None or not np.all(np.isfinite(move)):
                return None
            whole = np.zeros(self.n_y)
            whole[held] = move
            direction = np.concatenate([whole, (np.sign(y) * whole)[self.places]])
            gradient = -self._mixed(x, lifted, p, weights, direction)
        pressed = np.abs(first[: self.n_y][~held]) <= (1 - STRICT) * descent.sizes[~held]
        return Adjoint(gradient, bool(pressed.all()))

    def slope_left(self, x: np.ndarray, p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The smallest subgradient at y, and the weight of each entry's size."""
        descent = _Descent(self, x, p, np.ones(1), NEVER)
        slope = descent.slope(y)
        np.add.at(descent.sizes, self.places, slope[self.n_y :])
        return descent.subgradient(y, slope[: self.n_y]), descent.sizes

    def curvatures_of_moves(
        self, x: np.ndarray, p: np.ndarray, lifted: np.ndarray
    ) -> tuple[float, float] | None:
        """Smallest and largest curvature among the entries that are not held at zero."""
        y = lifted[: self.n_y]
        descent = _Descent(self, x, p, np.ones(1), NEVER)
        np.add.at(descent.sizes, self.places, descent.slope(y)[self.n_y :])
        held = descent.moving(y)

        def apply(vector: np.ndarray) -> np.ndarray:
            whole = np.zeros(self.n_y)
            whole[held] = vector
            return descent.product(y, whole)[held]

        with one_blas_thread(), np.errstate(all="ignore"):
            return extreme_curvatures(apply, int(held.sum()))


class _Descent:
    """One solve."""

    def __init__(
        self,
        program: ProximalProgram,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        deadline: Deadline,
    ) -> None:
        self.program, self.at, self.deadline = program, (x, p, weights), deadline
        self.n_y, self.places = program.n_y, program.places
        self.none = np.zeros(len(self.places))
        self.sizes = np.zeros(self.n_y)  # the weights of the entries
        self.held: np.ndarray | None = None  # entries that were not zero, a round ago
        self.steps = 0

    def slope(self, y: np.ndarray) -> np.ndarray:
        x, p, weights = self.at
        return self.program._slope(x, np.concatenate([y, self.none]), p, weights)

    def product(self, y: np.ndarray, vector: np.ndarray) -> np.ndarray:
        x, p, weights = self.at
        direction = np.concatenate([vector, self.none])
        return self.program._action(x, np.concatenate([y, self.none]), p, weights, direction)[: self.n_y]

    def value(self, y: np.ndarray) -> float:
        x, p, weights = self.at
        lifted = np.concatenate([y, np.abs(y[self.places])])
        return float(weights @ self.program.lagrangian.terms(x, lifted, p))

    def shrunk(self, y: np.ndarray, step: float) -> np.ndarray:
        return np.sign(y) * np.maximum(np.abs(y) - step * self.sizes, 0.0)

    def subgradient(self, y: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """The smallest one."""
        off = np.sign(slope) * np.maximum(np.abs(slope) - self.sizes, 0.0)
        return np.where(self.moving(y), slope + self.sizes * np.sign(y), off)

    def run(
        self, y: np.ndarray, accuracy: float
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray, int] | None:
        first = self.slope(y)[self.n_y :]
        again = self.slope(np.ones(self.n_y))[self.n_y :]
        # Weights that depend on y, or are negative, belong to another problem.
        if not np.array_equal(first, again) or np.any(first < 0):
            return None
        np.add.at(self.sizes, self.places, first)
        step = 1.0 / max(MARGIN * self.curvature(y), 1e-12) if len(self.places) else 1.0
        enough = max(SHARE * accuracy, ROUNDING)
        # Products that find the zeros soon are cheaper than columns of the Hessian that are not known.
        kept = self.program.working_set
        if not len(kept.entries):
            y, slope, is_found = self.rounds(y, step, enough, FEW_ROUNDS)
            if is_found:
                return y, self.value(y), slope, first, self.steps
        found = self.on_working_set(y, enough) if len(self.places) else None
        if found is not None:
            return found, self.value(found), self.slope(found)[: self.n_y], first, self.steps
        y, slope, is_found = self.rounds(y, step, enough, MAX_ROUNDS)
        return (y, self.value(y), slope, first, self.steps) if is_found else None

    def on_working_set(self, y: np.ndarray, accuracy: float) -> np.ndarray | None:
        """The minimiser by columns of the Hessian, if few entries differ from zero and there is time."""

        def in_time(vector: np.ndarray) -> np.ndarray:
            if self.deadline.is_over:
                raise TimeoutError
            self.steps += 1
            return self.product(y, vector)

        def slope(point: np.ndarray) -> np.ndarray:
            return self.slope(point)[: self.n_y]

        def is_exact(point: np.ndarray, there: np.ndarray) -> bool:
            return self.worth(point, there) <= accuracy

        try:
            return self.program.working_set.minimise(slope, in_time, self.sizes, y, is_exact)
        except TimeoutError:
            return None

    def rounds(
        self, y: np.ndarray, step: float, accuracy: float, most: int
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """Proximal and Newton steps until what is left of the slope is worth as little as asked."""
        slope = np.zeros(self.n_y)
        for _ in range(most):
            if len(self.places):  # else there are no zeros to find
                y = self.accelerated(y, step)
                self.steps += STEPS
            if self.deadline.is_over or not np.all(np.isfinite(y)):
                return y, slope, False
            y = self.sharpened(y)
            slope = self.slope(y)[: self.n_y]
            if self.worth(y, slope) <= accuracy:
                return y, slope, True
        return y, slope, False

    def worth(self, y: np.ndarray, slope: np.ndarray) -> float:
        """What the slope left is worth, as a share of g: at most left . (y - y*), both of a size."""
        left = float(np.abs(self.subgradient(y, slope)).max(initial=0.0))
        return left * (1 + 2 * float(np.abs(y).sum())) / (1 + abs(self.value(y)))

    def curvature(self, y: np.ndarray) -> float:
        vector, size = np.random.default_rng(0).standard_normal(self.n_y), 0.0
        for _ in range(POWER_STEPS):
            vector = self.product(y, vector / (np.linalg.norm(vector) or 1.0))
            size = float(np.linalg.norm(vector))
            if not size > 0:
                break
        return size

    def moving(self, y: np.ndarray) -> np.ndarray:
        """Which entries are not held at zero by their sizes."""
        return (y != 0) | (self.sizes == 0)

    def accelerated(self, y: np.ndarray, step: float) -> np.ndarray:
        """Proximal gradient steps with momentum, which begins afresh where it points uphill."""
        ahead, momentum = y, 1.0
        for _ in range(STEPS):
            if self.deadline.is_over:
                break
            new = self.shrunk(ahead - step * self.slope(ahead)[: self.n_y], step)
            if (ahead - new) @ (new - y) > 0:
                momentum, ahead = 1.0, y
                new = self.shrunk(y - step * self.slope(y)[: self.n_y], step)
            later = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + (momentum - 1) / later * (new - y)
            y, momentum = new, later
        return y

    def solved(
        self, y: np.ndarray, held: np.ndarray, right: np.ndarray, rtol: float = 1e-8
    ) -> np.ndarray | None:
        """The Hessian in the held entries, divided into a vector; None when the time is over."""
        if not right.size:
            return right

        def apply(vector: np.ndarray) -> np.ndarray:
            if self.deadline.is_over:
                raise TimeoutError
            whole = np.zeros(self.n_y)
            whole[held] = np.ravel(vector)
            return self.product(y, whole)[held]

        hessian = LinearOperator((right.size, right.size), matvec=apply, dtype=float)
        try:
            return np.asarray(cg(hessian, right, rtol=rtol, maxiter=MAX_PRODUCTS)[0])
        except TimeoutError:
            return None

    def sharpened(self, y: np.ndarray) -> np.ndarray:
        """A Newton step among the points with the same zeros and signs, where it improves."""
        held = self.moving(y)
        # While the zeros still change, an accurate step would be wasted.
        is_settled = self.held is not None and np.array_equal(held, self.held)
        self.held = held
        slope = self.slope(y)[: self.n_y]
        left = (slope + self.sizes * np.sign(y))[held]
        move = self.solved(y, held, -left, 1e-8 if is_settled else ROUGH)
        if move is None:
            return y
        new = y.copy()
        new[held] += move
        crossed = (np.sign(new) != np.sign(y)) & (self.sizes > 0)
        if np.all(np.isfinite(new)) and not crossed.any():
            return new
        new[crossed] = 0.0  # those that would change their signs
        return new if self.value(new) < self.value(y) else y


def size_places(definitions: Definitions, y: Block) -> tuple[np.ndarray, list[int]] | None:
    """Which entries of y the new variables are the sizes of; None where one is anything else."""
    found, lengths = [], []
    for variable, parts in definitions:
        if len(parts) != 2 or not isinstance(parts[0], cp.Variable) or parts[0] not in y:
            return None
        if variable.shape != parts[0].shape or str(parts[1]) != str(-parts[0]):
            return None
        place = y.slice_of(parts[0])
        found.append(np.arange(place.start, place.stop))
        lengths.append(parts[0].size)
    places = np.concatenate([np.empty(0, dtype=int), *found])
    return (places, lengths) if len(np.unique(places)) == len(places) else None
