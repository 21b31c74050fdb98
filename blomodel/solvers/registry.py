"""Inner solvers by name: each declares on its class what it takes, what it needs, and its options."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, TypeVar

import numpy as np

from blomodel.basics.deadline import end_of_work
from blomodel.basics.registry import Registry, did_you_mean
from blomodel.basics.troubles import count_trouble, is_from_outside
from blomodel.errors import (
    MissingPackageError,
    UnknownSettingError,
    UnknownSolverError,
)
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.question import ProblemClass


class InnerSolver(ABC):
    """Answers questions of the problem classes that it takes.

    An instance belongs to one program, which asks it again and again with other numbers, so that it may
    keep factorisations and the like.

    Parameters
    ----------
    options : mapping, optional
        The solver's own options, already checked; they come before the library's choices.
    """

    options: dict[str, Any]

    name: ClassVar[str]
    classes: ClassVar[frozenset[ProblemClass]]
    module: ClassVar[str]  # what must be installed
    install: ClassVar[str] = ""  # how, where it does not come with this library
    # Whether its own word counts: that there is no minimiser, or a point that could not be made exact.
    # Whatever another solver says is believed only if the optimality conditions hold.
    is_trusted: ClassVar[bool] = False

    # Whether to fail is nothing special for it: it is asked first because it is quick.
    may_fail: ClassVar[bool] = False

    # Its reasons where a time limit has stopped it, which is no trouble.
    out_of_time: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = dict(options or {})

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "solve" in vars(cls):
            cls.solve = surviving(vars(cls)["solve"])  # type: ignore[method-assign,assignment]

    @abstractmethod
    def solve(self, question: Any) -> Answer:
        """Answer one question; without success, with status FAILED."""

    @classmethod
    def known_options(cls) -> frozenset[str] | None:
        """Names of the options; None where the solver does not tell them."""
        return frozenset()

    @classmethod
    def try_options(cls, options: Mapping[str, Any]) -> None:
        """Use the options somewhere, so that impossible values show."""
        cls(options)

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the module is there; it is not imported for that."""
        return importlib.util.find_spec(cls.module) is not None

    @classmethod
    def check_installed(cls, asked_by: str = "") -> None:
        """Raise MissingPackageError, which tells how to install it."""
        if not cls.is_installed():
            raise MissingPackageError(
                f"{asked_by}{': ' if asked_by else ''}the solver {cls.name!r} (package {cls.module}) is "
                f"not installed; run {cls.install or f'pip install {cls.module}'}."
            )

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise UnknownSettingError for an option that the solver does not have or does not take."""
        known = cls.known_options()
        unknown = [] if known is None else [option for option in options if option not in known]
        if unknown and not known:
            raise UnknownSettingError(f"The solver {cls.name!r} has no options, so not {unknown[0]!r}.")
        if unknown and known:
            names = sorted(known)
            raise UnknownSettingError(
                f"The solver {cls.name!r} has no option {unknown[0]!r}"
                f"{did_you_mean(unknown[0], names)} Known ones: {', '.join(names)}."
            )
        try:
            cls.try_options(options)
        except (TypeError, ValueError, OverflowError) as error:
            raise UnknownSettingError(
                f"The solver {cls.name!r} does not take the options {dict(options)!r}: {error}"
            ) from error


def surviving(solve: Callable[[Any, Any], Answer]) -> Callable[[Any, Any], Answer]:
    """A solver's ``solve`` that fails where it would break off, and counts both as trouble.

    What comes from outside goes on: a limit, Ctrl-C, and errors that tell the user of a mistake.
    """

    @wraps(solve)
    def solve_or_fail(self: Any, question: Any) -> Answer:
        try:
            answer = solve(self, question)
        except BaseException as error:
            if is_from_outside(error):
                raise
            answer = _broken_off(self, question, error)
        is_stopped = answer.reason in self.out_of_time or end_of_work().is_over
        if answer.status is InnerStatus.FAILED and not (self.may_fail or is_stopped):
            count_trouble(self.name)
        return answer

    return solve_or_fail


def _broken_off(solver: InnerSolver, question: Any, error: BaseException) -> Answer:
    """The answer of a solver that raised; what it has kept is given up."""
    if solver.may_fail:
        count_trouble(solver.name)
    type(solver).__init__(solver, solver.options)
    reason = f"{type(error).__name__}: {error}"
    answer = Answer.without_point(InnerStatus.FAILED, question.n_unknowns, reason, solver=solver.name)
    rows = getattr(question, "b", None)
    if rows is not None:
        answer.multipliers = answer.slack = np.full(len(rows), np.nan)
    return answer


SOLVERS: Registry[type[InnerSolver]] = Registry(
    "inner solver", ("blomodel.solvers",), UnknownSolverError
)

Solver = TypeVar("Solver", bound=type[InnerSolver])


def inner_solver(cls: Solver) -> Solver:
    """Class decorator: make a solver known under its name.

    Raises
    ------
    UnknownSolverError
        When the class does not declare itself.
    """
    missing = [word for word in ("name", "classes", "module") if not getattr(cls, word, None)]
    if missing:
        raise UnknownSolverError(
            f"The inner solver {cls.__name__} does not declare {' and '.join(missing)}; see InnerSolver."
        )
    if cls.name != cls.name.lower():
        raise UnknownSolverError(f"The inner solver {cls.name!r} needs a name in small letters.")
    SOLVERS.add(cls.name, cls)
    return cls


def find_solver(name: object) -> type[InnerSolver]:
    """The solver of this name, in whichever case it is written.

    Raises
    ------
    UnknownSolverError
        When there is none; the message lists the known ones.
    MissingPackageError
        When its package is not installed; the message tells how to install it.
    """
    found = SOLVERS[str(name).lower()]
    found.check_installed()
    return found
