"""A large lower level that is smooth, convex and free: Newton's method with conjugate gradients.

It works on tapes, which the solvers of ``solvers/`` do not know. An interior-point solver would have to
factor a matrix with one row for each term of a loss; here only products with the Hessian are needed, so
that thousands of samples and variables are no obstacle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, cg, eigsh

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.passes.derivatives import cost_of_a_run, jvp, known_jacobian
from blomodel.compiler.tape import Tape
from blomodel.kernels import machine
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.choice import count
from blomodel.solvers.threads import one_blas_thread

MAX_STEPS = 100
MAX_PRODUCTS = 500  # with the Hessian, in one step
FEW_PRODUCTS = 10  # a step by conjugate gradients takes more of them as a rule
MAX_HALVINGS = 40
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring
NEAR = 1e-4  # of the accuracy asked for: what f sees of y is the root of what the value sees
ROUNDING = 1e-14  # relative changes of the value below this are not seen
FAR = 1e10  # a minimiser that lies farther away than this counts as none


class NewtonMinimiser:
    """Minimises weights . terms(x, y) over y, for terms that are smooth and convex in y.

    Parameters
    ----------
    terms : Tape
        Of the blocks x, y, p.
    slope : Tape
        Gradient in y of the weighted terms, the weights its last input.
    """

    def __init__(self, terms: Tape, slope: Tape) -> None:
        self._terms, self._slope = terms, slope
        self._last: np.ndarray | None = None
        self._asked: tuple[bytes, bytes, bytes, float] | None = None
        self._answer: Answer | None = None

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
        """The minimiser, to within ``accuracy`` of 1 + |minimum|; FAILED where there is none in time.

        A cold solve starts from ``near``: that its end is a minimiser is shown there, wherever it began.
        """
        n, question = self._slope.n_outputs, (x.tobytes(), p.tobytes(), weights.tobytes(), accuracy)
        if warm and self._asked == question and self._answer is not None:
            return replace(self._answer, y=self._answer.y.copy())  # a point is measured again and again
        start = near if near is not None and np.all(np.isfinite(near)) else np.zeros(n)
        start = self._last if warm and self._last is not None else start
        with one_blas_thread(), np.errstate(all="ignore"):
            found = self._descend(start.copy(), x, p, weights, accuracy, deadline)
        if found is None:
            reason = "the time was over" if deadline.is_over else "Newton's method did not converge"
            return Answer.without_point(InnerStatus.FAILED, n, reason)
        y, value, steps = found
        count("newton")
        self._last = y
        self._asked = question
        self._answer = Answer(
            InnerStatus.OPTIMAL, value, y, [], steps, np.zeros(0), solver="newton, conjugate gradients"
        )
        return replace(self._answer, y=y.copy())

    def _descend(
        self,
        y: np.ndarray,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        accuracy: float,
        deadline: Deadline,
    ) -> tuple[np.ndarray, float, int] | None:
        def value_at(point: np.ndarray) -> float:
            return float(weights @ self._terms(x, point, p))

        value, first = value_at(y), 1.0
        for step in range(MAX_STEPS):
            slope = self._slope(x, y, p, weights)
            size = float(np.linalg.norm(slope))
            if not (np.isfinite(value) and np.isfinite(size)):
                return None
            if size == 0.0:
                return y, value, step
            # Far from the minimiser an accurate step is wasted; near it, it squares the error.
            first = size if step == 0 else first
            forcing = float(np.clip(np.sqrt(size / first), 1e-3, 0.1))
            move = self._newton_step(x, y, p, weights, slope, forcing, deadline)
            if move is None:
                return None
            decrement = -float(slope @ move)  # twice the decrease that the quadratic model predicts
            if not decrement >= 0.0:
                return None
            smallest = ROUNDING * (1 + abs(value))
            if 0.5 * decrement <= max(NEAR * accuracy * (1 + abs(value)), smallest):
                final = y + move
                last = value_at(final)
                return (final, last, step + 1) if last <= value + smallest else (y, value, step)
            length = 1.0
            for _ in range(MAX_HALVINGS):
                trial = y + length * move
                changed = value_at(trial)
                if changed <= value - SUFFICIENT * length * decrement + smallest:
                    break
                length *= 0.5
            else:
                return None
            y, value = trial, changed
            if np.abs(y).max(initial=0.0) > FAR:
                return None
        return None

    def _newton_step(
        self,
        x: np.ndarray,
        y: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        slope: np.ndarray,
        forcing: float,
        deadline: Deadline,
    ) -> np.ndarray | None:
        """The step; None when the time is over."""
        exact = self._exact_step(x, y, p, weights, slope)
        if exact is not None:
            return exact
        apply = last_input_only(jvp(self._slope, ("y",)), (x, y, p, weights))

        def in_time(vector: np.ndarray) -> np.ndarray:
            if deadline.is_over:
                raise _TimeIsOver
            return apply(vector)

        hessian = LinearOperator((y.size, y.size), matvec=in_time, dtype=float)
        try:
            move, _ = cg(hessian, -slope, rtol=forcing, maxiter=MAX_PRODUCTS)
        except _TimeIsOver:
            return None
        return np.asarray(move)

    def _exact_step(
        self, x: np.ndarray, y: np.ndarray, p: np.ndarray, weights: np.ndarray, slope: np.ndarray
    ) -> np.ndarray | None:
        """The step by a factor of the Hessian, where that costs no more than a few products with it."""
        most = FEW_PRODUCTS * cost_of_a_run(self._slope) - y.size**3 / 3
        if most < 0:
            return None
        hessian = known_jacobian(self._slope, ("y",), (x, y, p, weights), most)
        if hessian is None or not np.isfinite(hessian).all():
            return None
        factor, info = scipy.linalg.lapack.dpotrf(hessian, lower=1)
        if info != 0:
            return None
        return np.asarray(scipy.linalg.lapack.dpotrs(factor, -slope, lower=1)[0])


class _TimeIsOver(Exception):
    """Leaves the conjugate gradients."""


def last_input_only(tape: Tape, point: tuple[np.ndarray, ...]) -> Callable[[np.ndarray], np.ndarray]:
    """The tape as a function of its last input: what depends on the others is computed once."""
    if tape.pieces is not None:
        return lambda vector: tape(*point, np.ravel(vector))
    m = tape.machinery
    n_last, n_out = tape.input_sizes[-1], tape.n_outputs
    tape(*point, np.zeros(n_last))
    place = m.workspace[m.inputs[-1] : m.inputs[-1] + n_last]
    result = m.workspace[m.output : m.output + n_out]

    def apply(vector: np.ndarray) -> np.ndarray:
        place[:] = np.ravel(vector)
        machine.run(m.code, m.integers, m.workspace, m.prefix, len(m.code))
        return result.copy()

    return apply


def extreme_curvatures(apply: Callable[[np.ndarray], np.ndarray], n: int) -> tuple[float, float] | None:
    """The smallest and the largest eigenvalue of a Hessian, roughly, by products; None: not found."""
    if limits.PLAIN_SYSTEM.allows(n):
        values = np.linalg.eigvalsh(np.array([apply(column) for column in np.eye(n)]))
        return (float(values[0]), float(values[-1])) if n else (1.0, 1.0)
    hessian = LinearOperator((n, n), matvec=lambda v: apply(np.ravel(v)), dtype=float)
    start = np.random.default_rng(0).standard_normal(n)
    kept = {"v0": start, "tol": 1e-2, "return_eigenvectors": False}
    try:
        largest = eigsh(hessian, 1, which="LA", **kept)[0]
        smallest = eigsh(hessian, 1, which="SA", maxiter=60, ncv=40, **kept)[0]
    except ArpackError:
        return None
    return float(smallest), float(largest)
