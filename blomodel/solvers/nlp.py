"""Nonlinear programs stated in cvxpy, solved locally by IPOPT or UNO.

Both come with ``pip install "blomodel[nlp]"``; nothing else in the library needs them.
"""

from __future__ import annotations

import importlib.util
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.basics.kept_values import kept_values
from blomodel.errors import MissingPackageError, SolverError, UnknownSettingError

# In order of preference: IPOPT found the better points on the random bilevel QPs it was tried on.
PACKAGES = {"ipopt": "cyipopt", "uno": "unopy"}  # solver: the package that brings it
_INTERRUPTED = cp.settings.INFEASIBLE_OR_UNBOUNDED  # a status that neither solver reports itself
_HOW_TO_INSTALL = 'pip install "blomodel[nlp]"'


def installed_solvers() -> list[str]:
    """Names of the nonlinear solvers that are there."""
    return [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


def choose_solver(name: str | None, asked_by: str) -> str:
    """The solver asked for, or the first that is installed.

    Raises
    ------
    MissingPackageError
        When it is not installed; the message tells how to install it.
    """
    present = installed_solvers()
    if name is None:
        if not present:
            raise MissingPackageError(
                f"{asked_by} needs a nonlinear solver (IPOPT or UNO), and none is installed; run "
                f"{_HOW_TO_INSTALL}. Without one, 'auto' and 'reduced-penalty' solve the same problems."
            )
        return present[0]
    wish = str(name).lower()
    if wish not in PACKAGES:
        raise UnknownSettingError(
            f"{asked_by}: there is no nonlinear solver {name!r}; choose from "
            f"{', '.join(map(repr, PACKAGES))}, or None for the first that is installed."
        )
    if wish not in present:
        raise MissingPackageError(
            f"{asked_by}: the solver {wish!r} (package {PACKAGES[wish]}) is not installed; run "
            f"{_HOW_TO_INSTALL}."
        )
    return wish


@dataclass(frozen=True)
class NonlinearAnswer:
    """What the solver said; the variables hold the point if there is one."""

    status: str  # cvxpy's word
    value: float

    @property
    def has_point(self) -> bool:
        """Whether the variables hold the end of the search."""
        return self.status in cp.settings.SOLUTION_PRESENT


def solve_nonlinear(problem: cp.Problem, solver: str, *, time_limit: float = np.inf) -> NonlinearAnswer:
    """Search from the variables' present values; without success they keep these values."""
    with kept_values(problem.variables()) as kept:
        answer = _search(problem, solver, time_limit)
        if answer.has_point:
            kept.let_go()
    if answer.status == _INTERRUPTED:
        raise KeyboardInterrupt
    return answer


def _search(problem: cp.Problem, solver: str, time_limit: float) -> NonlinearAnswer:
    with warnings.catch_warnings(), _told_of_interrupts(solver), _no_lost_interrupt():
        warnings.simplefilter("ignore")  # cvxpy warns of inaccurate ends, which the status tells
        try:
            problem.solve(nlp=True, solver=solver.upper(), **_options(solver, time_limit))
        except cp.SolverError:
            return NonlinearAnswer(cp.settings.SOLVER_ERROR, np.nan)
        except (NotImplementedError, ValueError, IndexError) as error:
            raise SolverError(
                f"cvxpy could not hand the problem to {solver}: {error}. Rewrite the expression "
                "it names with vectors and matrices of at most two dimensions and common atoms, or use "
                "method 'auto'."
            ) from error
    value = np.nan if problem.value is None else float(problem.value)
    return NonlinearAnswer(str(problem.status), value)


@contextmanager
def _told_of_interrupts(solver: str) -> Iterator[None]:
    """Let UNO's word for a Ctrl-C through, which cvxpy would report as any other failure."""
    if solver != "uno":
        yield
        return
    from cvxpy.reductions.solvers.nlp_solvers.uno_nlpif import UNO

    UNO.STATUS_MAP["USER_INTERRUPTION"] = _INTERRUPTED
    try:
        yield
    finally:
        del UNO.STATUS_MAP["USER_INTERRUPTION"]


@contextmanager
def _no_lost_interrupt() -> Iterator[None]:
    """Raise a Ctrl-C again that a callback of the solver has swallowed."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    seen = []

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            raise KeyboardInterrupt


def _options(solver: str, time_limit: float) -> dict[str, Any]:
    seconds = max(float(time_limit), 1e-3)
    if solver == "ipopt":
        options: dict[str, Any] = {"print_level": 0, "sb": "yes"}
        return options | ({"max_wall_time": seconds} if np.isfinite(seconds) else {})
    options = {"logger": "SILENT"}
    return options | ({"time_limit": seconds} if np.isfinite(seconds) else {})
