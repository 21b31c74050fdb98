"""Nonlinear programs stated in cvxpy, which hands them to IPOPT or UNO for a local search.

For single-level reformulations. Smooth functions given as Python callables go to SciPy (``smooth.py``);
a smooth convex lower level without constraints to Newton's method (``programs/newton.py``), and one that
is not convex to many local searches (``model/local_search.py``). IPOPT comes with the library where
it has wheels, UNO with ``pip install "blomodel[nlp]"``. Tapes go to IPOPT directly (``direct.py``).
"""

from __future__ import annotations

import signal
import threading
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from blomodel.basics.alarm import ctrl_c_came
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.basics.kept_values import kept_values
from blomodel.errors import MissingPackageError, SolverError, UnknownSettingError
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.cascade import CASCADES
from blomodel.solvers.choice import Preferred, count
from blomodel.solvers.question import NonlinearQuestion, ProblemClass
from blomodel.solvers.registry import SOLVERS, InnerSolver

INTERRUPTED = cp.settings.INFEASIBLE_OR_UNBOUNDED  # a status that neither solver reports itself
_HOW_TO_INSTALL = 'pip install "blomodel[nlp]"'
_STATUS = {
    cp.OPTIMAL: InnerStatus.OPTIMAL,
    cp.OPTIMAL_INACCURATE: InnerStatus.INACCURATE,
    cp.USER_LIMIT: InnerStatus.INACCURATE,
    cp.INFEASIBLE: InnerStatus.INFEASIBLE,
    cp.INFEASIBLE_INACCURATE: InnerStatus.INFEASIBLE,
    cp.UNBOUNDED: InnerStatus.UNBOUNDED,
    cp.UNBOUNDED_INACCURATE: InnerStatus.UNBOUNDED,
}


def nonlinear_modules() -> tuple[str, ...]:
    """The modules that bring nonlinear solvers, in order of preference."""
    return tuple(SOLVERS[stage.solver].module for stage in CASCADES[ProblemClass.NLP])


def installed_solvers() -> list[str]:
    """Names of the nonlinear solvers that are there, in order of preference."""
    names = [stage.solver for stage in CASCADES[ProblemClass.NLP]]
    return [name for name in names if SOLVERS[name].is_installed()]


def nonlinear_solver(asked_by: str) -> InnerSolver:
    """The solver that the user prefers, or the first that is installed.

    Raises
    ------
    MissingPackageError
        When none is installed; the message tells how to install one.
    """
    preferred = Preferred().solver(ProblemClass.NLP)
    if preferred is not None:
        return preferred
    present = installed_solvers()
    if not present:
        raise MissingPackageError(
            f"{asked_by} needs a nonlinear solver (IPOPT or UNO), and none is installed; run "
            f"{_HOW_TO_INSTALL}. Without one, 'auto' and 'reduced-penalty' solve the same problems."
        )
    return SOLVERS[present[0]]()


def solve_nonlinear(problem: cp.Problem, solver: InnerSolver, deadline: Deadline = NEVER) -> Answer:
    """Search from the variables' present values; without success they keep these values."""
    answer = solver.solve(NonlinearQuestion(problem, deadline))
    count(solver.name)
    return answer


class NonlinearSolver(InnerSolver):
    """What IPOPT and UNO have in common: cvxpy states the problem to them."""

    classes: ClassVar[frozenset[ProblemClass]] = frozenset({ProblemClass.NLP})
    install: ClassVar[str] = _HOW_TO_INSTALL
    is_trusted: ClassVar[bool] = True

    @abstractmethod
    def quiet_options(self, seconds: float) -> dict[str, Any]:
        """Options for a search without output of at most this many seconds."""

    def told_of_interrupts(self) -> AbstractContextManager[None]:
        """A context in which the solver reports a Ctrl-C as the status INTERRUPTED."""
        return nullcontext()

    @classmethod
    def known_options(cls) -> frozenset[str] | None:
        """Not told before a search."""
        return None

    def solve(self, question: NonlinearQuestion) -> Answer:
        """Search; ``y`` is what the variables hold then, one after another."""
        problem = question.problem
        leaves = problem.variables()
        remaining = min(question.deadline, end_of_work()).remaining
        options = self.quiet_options(max(remaining, 1e-3)) | self.options
        with kept_values(leaves) as kept:
            with self.told_of_interrupts(), _no_lost_interrupt():
                status = self._search(problem, options)
            if status == INTERRUPTED:
                ctrl_c_came()
            meaning = _STATUS.get(status, InnerStatus.FAILED)
            if not meaning.has_point:
                size = sum(leaf.size for leaf in leaves)
                return Answer.without_point(meaning, size, status, solver=self.name)
            kept.let_go()
        y = np.concatenate([np.zeros(0), *(np.ravel(leaf.value, order="F") for leaf in leaves)])
        value = np.nan if problem.value is None else float(problem.value)
        return Answer(meaning, value, y, reason=status, solver=self.name)

    def _search(self, problem: cp.Problem, options: dict[str, Any]) -> str:
        """Let cvxpy call the solver; its word for the outcome."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy warns of inaccurate ends, which the status tells
            try:
                problem.solve(nlp=True, solver=self.name.upper(), **options)
            except cp.SolverError:
                return str(cp.settings.SOLVER_ERROR)
            except (TypeError, KeyError) as error:
                if not self.options:
                    raise
                raise UnknownSettingError(
                    f"The solver {self.name!r} does not take the options {self.options!r}: {error}. See "
                    "its manual for their names and values."
                ) from error
            except (NotImplementedError, ValueError, IndexError) as error:
                raise SolverError(
                    f"cvxpy could not hand the problem to {self.name}: {error}. Rewrite the expression "
                    "it names with vectors and matrices of at most two dimensions and common atoms, or "
                    "use method 'auto'."
                ) from error
        return str(problem.status)


@contextmanager
def _no_lost_interrupt() -> Iterator[None]:
    """Raise a Ctrl-C again that a callback of the solver has swallowed."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    seen = []

    def note(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except KeyboardInterrupt:
            seen.append(number)
            raise

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            raise KeyboardInterrupt
