"""Which solver a user prefers during one solve, and who answered how often.

Both belong to the solve and not to the model: they are a value of the context in which it runs, so that
nothing of them stays on what is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from blomodel.basics.troubles import count, counting
from blomodel.errors import UnknownSettingError
from blomodel.solvers.question import ProblemClass
from blomodel.solvers.registry import SOLVERS, InnerSolver, find_solver


@dataclass(frozen=True)
class SolverChoice:
    """A preferred solver and its options; without a name, the cascade decides."""

    name: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def create(self) -> InnerSolver | None:
        """An instance of the preferred solver; None where there is no preference."""
        return None if self.name is None else SOLVERS[self.name](dict(self.options))


__all__ = [
    "NO_PREFERENCE",
    "Preferred",
    "SolverChoice",
    "asking",
    "choose_solver",
    "count",
    "current_choice",
]

NO_PREFERENCE = SolverChoice()


def choose_solver(solver: object, options: Mapping[str, Any] | None) -> SolverChoice:
    """The preference that ``solve(solver=..., solver_opts=...)`` states, checked.

    Raises
    ------
    UnknownSolverError, MissingPackageError
        When there is no such solver, or it is not installed.
    UnknownSettingError
        When it does not have one of the options, or they come without a solver.
    """
    if solver is None:
        if options:
            raise UnknownSettingError(
                f"solver_opts = {dict(options)!r} are options of one solver, and none is named; say "
                f"solver=... as well, one of {', '.join(SOLVERS)}."
            )
        return NO_PREFERENCE
    found = find_solver(solver)
    found.check_options(options or {})
    return SolverChoice(found.name, tuple((options or {}).items()))


_ASKING: ContextVar[SolverChoice | None] = ContextVar("blomodel_asking", default=None)


@contextmanager
def asking(choice: SolverChoice, counts: MutableMapping[str, int]) -> Iterator[None]:
    """Prefer a solver for what is asked inside, and count in ``counts`` who answers."""
    token = _ASKING.set(choice)
    try:
        with counting(counts):
            yield
    finally:
        _ASKING.reset(token)


def current_choice() -> SolverChoice:
    """The preference of the solve that is going on."""
    present = _ASKING.get()
    return NO_PREFERENCE if present is None else present


class Preferred:
    """The preferred solver as one program keeps it: made anew whenever the preference is another."""

    __slots__ = ("_choice", "_solver")

    def __init__(self) -> None:
        self._choice, self._solver = NO_PREFERENCE, NO_PREFERENCE.create()

    def solver(self, problem_class: ProblemClass) -> InnerSolver | None:
        """The preferred solver, if there is one and it takes this class of problems."""
        present = _ASKING.get()
        if present is None or present.name is None:
            return None
        if present is not self._choice:
            self._choice, self._solver = present, present.create()
        solver = self._solver
        return solver if solver is not None and problem_class in solver.classes else None
