"""Nonlinear programs given as a tape, handed to IPOPT with exact sparse derivatives.

min F_0(z)  s.t.  low <= F_i(z) <= high,  z within bounds, where one tape gives all of F. Jacobian and
Hessian of the Lagrangian are tapes too, with positions fixed once, so that a call of IPOPT costs one run
of a tape. Problems that cvxpy states go through ``nlp.py``.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.compiler.passes.derivatives import vjp
from blomodel.compiler.passes.entries import JacobianEntries, jacobian_entries
from blomodel.compiler.passes.slopes import TooManyEntriesError
from blomodel.compiler.tape import Tape
from blomodel.solvers.choice import count
from blomodel.solvers.registry import SOLVERS

Array = np.ndarray
UNKNOWNS = "z"  # the input block over which the program is minimised
_FAR = 1e19  # what IPOPT takes for infinite
_QUIET: dict[str, Any] = {"print_level": 0, "sb": "yes"}
_CONVERGED, _ACCEPTABLE = 0, 1  # IPOPT's words for an end with and without full accuracy


class TooLargeError(Exception):
    """The derivatives of a program would not fit into memory."""


def is_available() -> bool:
    """Whether IPOPT is installed; it is not imported for that."""
    return SOLVERS["ipopt"].is_installed()


@dataclass(eq=False)
class End:
    """Where a local search has ended.

    Attributes
    ----------
    z : array
    value : float
        Of the objective.
    is_converged : bool
        Whether the first-order conditions hold there, if only to IPOPT's acceptable accuracy.
    multipliers : tuple of arrays
        Of rows, lower and upper bounds; a further search begins with them.
    iterations : int
    reason : str
        IPOPT's own word.
    """

    z: Array
    value: float
    is_converged: bool
    multipliers: tuple[Array, Array, Array]
    iterations: int
    reason: str


class Entries:
    """The entries of a matrix that may differ from zero, row by row.

    Attributes
    ----------
    rows, columns : arrays
        Their places.
    """

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    def __init__(self, found: JacobianEntries, only_lower_triangle: bool = False) -> None:
        rows = np.asarray(found.indices, dtype=np.int64)
        columns = np.repeat(np.arange(found.shape[1]), np.diff(found.indptr))
        kept = np.lexsort((columns, rows))
        if only_lower_triangle:
            kept = kept[rows[kept] >= columns[kept]]
        if isinstance(found.values, np.ndarray):
            kept = kept[found.values[kept] != 0]
        self.rows, self.columns, self.shape = rows[kept], columns[kept], found.shape
        self._kept, self._values = kept, found.values

    def values(self, *point: Array) -> Array:
        """The numbers at a point."""
        found = self._values(*point) if isinstance(self._values, Tape) else self._values
        return found[self._kept]


@dataclass(eq=False)
class TapeProgram:
    """A nonlinear program whose functions are one tape.

    Parameters
    ----------
    functions : Tape
        The objective, then the rows. Its first input is ``z``; values of the others are given with
        each search.
    bounds : tuple of arrays
        Of z.
    low, high : arrays
        Of the rows; equal for equations.

    Raises
    ------
    TooLargeError
        Where the derivatives would not fit into memory.
    """

    functions: Tape
    bounds: tuple[Array, Array]
    low: Array
    high: Array
    jacobian: Entries = field(init=False)
    hessian: Entries = field(init=False)

    def __post_init__(self) -> None:
        by_z, most = (UNKNOWNS,), limits.SPARSE_DERIVATIVE_WORK
        try:
            self.jacobian = Entries(jacobian_entries(self.functions, by_z, most.value))
            second = jacobian_entries(vjp(self.functions, by_z), by_z, most.value)
        except TooManyEntriesError:
            raise TooLargeError(f"the derivatives need more than {most}") from None
        self.hessian = Entries(second, only_lower_triangle=True)

    def search(
        self,
        start: Array,
        others: Sequence[Array],
        *,
        bounds: tuple[Array, Array] | None = None,
        high: Array | None = None,
        multipliers: tuple[Array, Array, Array] | None = None,
        deadline: Deadline = NEVER,
        options: Mapping[str, Any] | None = None,
    ) -> End:
        """Search from a point until the first-order conditions hold, or the deadline.

        Parameters
        ----------
        start : array
        others : sequence of arrays
            The tape's inputs after z.
        bounds, high : arrays, optional
            Bounds of z and upper limits of the rows in this search, instead of the program's own.
        multipliers : tuple of arrays, optional
            Those of an earlier end from which this search goes on.
        deadline : Deadline
        options : mapping, optional
            IPOPT's own.
        """
        import cyipopt  # on first use: it takes a moment to load

        callbacks = _Callbacks(self, others, min(deadline, end_of_work()))
        high = self.high if high is None else high
        least, most = self.bounds if bounds is None else bounds
        problem = cyipopt.Problem(
            n=len(start),
            m=len(self.low),
            problem_obj=callbacks,
            lb=np.maximum(least, -2 * _FAR),
            ub=np.minimum(most, 2 * _FAR),
            cl=np.maximum(self.low, -2 * _FAR),
            cu=np.minimum(high, 2 * _FAR),
        )
        for name, value in {**_QUIET, **(options or {})}.items():
            problem.add_option(name, value)
        if multipliers is not None:
            problem.add_option("warm_start_init_point", "yes")
        lagrange, zl, zu = multipliers or ([], [], [])
        with callbacks.told_of_interrupts():
            z, told = problem.solve(start, lagrange=list(lagrange), zl=list(zl), zu=list(zu))
        problem.close()
        if callbacks.error is not None:
            raise callbacks.error
        count("ipopt")
        status = int(told["status"])
        return End(
            np.asarray(z),
            float(told["obj_val"]),
            status in (_CONVERGED, _ACCEPTABLE),
            (told["mult_g"], told["mult_x_L"], told["mult_x_U"]),
            callbacks.iterations,
            bytes(told["status_msg"]).decode(),
        )


class _Callbacks:
    """What IPOPT asks. Nothing here raises: an exception inside a callback is lost, or worse."""

    def __init__(self, program: TapeProgram, others: Sequence[Array], deadline: Deadline) -> None:
        self.program, self.others, self.deadline = program, tuple(others), deadline
        self.is_interrupted = False
        self.error: BaseException | None = None
        self.iterations = 0
        rows = program.jacobian.rows
        self._split = int(np.searchsorted(rows, 1))  # the objective's entries come first
        self._slope_at = program.jacobian.columns[: self._split]
        self._z: bytes | None = None
        self._values = np.empty(0)
        self._slopes_z: bytes | None = None
        self._slopes = np.empty(0)

    def _guarded(self, compute: Callable[..., Array], size: int, *point: Array) -> Array:
        """What ``compute`` gives; an exception meanwhile, such as an alarm, waits for the end."""
        try:
            return compute(*point)
        except BaseException as error:
            self.error = error
            return np.full(size, np.nan)

    def _evaluate(self, z: Array) -> Array:
        key = z.tobytes()
        if key != self._z:
            found = self._guarded(self.program.functions, len(self.program.low) + 1, z, *self.others)
            self._values, self._z = found, key
        return self._values

    def _differentiate(self, z: Array) -> Array:
        key = z.tobytes()
        if key != self._slopes_z:
            entries = self.program.jacobian
            found = self._guarded(entries.values, len(entries.rows), z, *self.others)
            self._slopes, self._slopes_z = found, key
        return self._slopes

    def objective(self, z: Array) -> float:
        return float(self._evaluate(z)[0])

    def constraints(self, z: Array) -> Array:
        return self._evaluate(z)[1:]

    def gradient(self, z: Array) -> Array:
        slope = np.zeros(len(z))
        slope[self._slope_at] = self._differentiate(z)[: self._split]
        return slope

    def jacobianstructure(self) -> tuple[Array, Array]:
        where = self.program.jacobian
        return where.rows[self._split :] - 1, where.columns[self._split :]

    def jacobian(self, z: Array) -> Array:
        return self._differentiate(z)[self._split :]

    def hessianstructure(self) -> tuple[Array, Array]:
        where = self.program.hessian
        return where.rows, where.columns

    def hessian(self, z: Array, multipliers: Array, factor: float) -> Array:
        weights = np.concatenate(([factor], multipliers))
        entries = self.program.hessian
        return self._guarded(entries.values, len(entries.rows), z, *self.others, weights)

    def intermediate(self, *figures: Any) -> bool:
        self.iterations = int(figures[1])
        return not (self.is_interrupted or self.error is not None or self.deadline.is_over)

    @contextlib.contextmanager
    def told_of_interrupts(self) -> Iterator[None]:
        """A context in which Ctrl-C ends the search after its present iteration, and is raised then."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def note(number: int, frame: Any) -> None:
            try:
                before(number, frame)
            except KeyboardInterrupt:
                self.is_interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        if self.is_interrupted:
            raise KeyboardInterrupt
