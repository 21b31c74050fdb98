"""Smooth functions under smooth rows, given as Python callables, searched locally by SciPy's SLSQP.

For small programs that a method states itself. Those stated in cvxpy go to IPOPT or UNO (``nlp.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from blomodel.basics.deadline import end_of_work
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.cascade import stages
from blomodel.solvers.choice import Preferred, count
from blomodel.solvers.question import Function, ProblemClass, SmoothProgram, SmoothQuestion
from blomodel.solvers.registry import InnerSolver, inner_solver

CUBED = 5e-9  # seconds of a step for each cube of an unknown: its least squares are dense
TOO_LATE = "a step would not end in time"
__all__ = ["SLSQP", "SmoothProgram", "minimise_smooth"]


def minimise_smooth(
    program: SmoothProgram,
    start: np.ndarray,
    *,
    max_iterations: int = 60,
    check: Callable[[], object] = lambda: None,
) -> np.ndarray:
    """The end of a local search; the start itself where the search meets undefined values.

    ``check`` is called before every evaluation and ends the search by an exception.
    """
    question = SmoothQuestion(program, start, max_iterations, check)
    preferred = Preferred().solver(ProblemClass.SMOOTH)
    asked = [] if preferred is None else [preferred]
    asked += [solver for _, solver in stages(ProblemClass.SMOOTH, start.size, 0)]
    for solver in asked:
        answer = solver.solve(question)
        if answer.has_point:
            count(solver.name)
            return answer.y
    return start


@inner_solver
class SLSQP(InnerSolver):
    """Kraft's sequential least squares, from SciPy."""

    name: ClassVar[str] = "slsqp"
    classes: ClassVar[frozenset[ProblemClass]] = frozenset({ProblemClass.SMOOTH})
    module: ClassVar[str] = "scipy"
    is_trusted: ClassVar[bool] = True
    out_of_time: ClassVar[tuple[str, ...]] = (TOO_LATE,)

    def solve(self, question: SmoothQuestion) -> Answer:
        """Search from the start; the end need not be a minimiser, so it counts as inaccurate."""
        from scipy.optimize import minimize

        program, start = question.program, question.start
        low, high = program.bounds
        rows = [row for row in _rows(program) if len(row["fun"](start))]
        step = _Step(start.size)

        def value(z: np.ndarray) -> float:
            question.check()
            step.begin()
            found = program.value(z)
            return found if math.isfinite(found) else float(np.nan_to_num(found, nan=1e20, posinf=1e20))

        try:
            found = minimize(
                value,
                np.clip(start, low, high),
                jac=_finite(program.gradient),
                method="SLSQP",
                bounds=list(zip(low, high, strict=True)),
                constraints=rows,
                options={"maxiter": question.max_iterations, "ftol": 1e-11} | self.options,
            )
        except _TooLateError:
            return Answer.without_point(InnerStatus.FAILED, start.size, TOO_LATE)
        point = np.clip(np.asarray(found.x, dtype=float), low, high)
        if not np.all(np.isfinite(point)):
            return Answer.without_point(InnerStatus.FAILED, start.size, str(found.message))
        return Answer(
            InnerStatus.INACCURATE,
            float(found.fun),
            point,
            iterations=int(found.get("nit", 0)),
            reason=str(found.message),
            solver=self.name,
        )

    @classmethod
    def known_options(cls) -> frozenset[str]:
        """What SciPy documents."""
        return frozenset({"ftol", "maxiter", "eps", "disp", "finite_diff_rel_step"})


class _TooLateError(Exception):
    """Raised before a step that would go on beyond the end of the work."""


class _Step:
    """What a step takes, which nothing can stop: guessed by the unknowns first, then as measured."""

    def __init__(self, n_unknowns: int) -> None:
        self.seconds = CUBED * n_unknowns**3
        self._began: float | None = None

    def begin(self) -> None:
        now = time.perf_counter()
        if self._began is not None:
            self.seconds = max(now - self._began, self.seconds)
        self._began = now
        if end_of_work().remaining < self.seconds:
            raise _TooLateError


def _rows(program: SmoothProgram) -> list[dict[str, Any]]:
    return [
        {
            "type": "ineq",
            "fun": _finite(lambda z: -program.inequalities(z)),
            "jac": _finite(lambda z: -program.inequalities_jacobian(z)),
        },
        {
            "type": "eq",
            "fun": _finite(program.equalities),
            "jac": _finite(program.equalities_jacobian),
        },
    ]


def _finite(function: Function) -> Function:
    """SLSQP has no way to step back from NaN, but does so from a large number."""

    def replaced(z: np.ndarray) -> np.ndarray:
        found = function(z)
        if np.isfinite(found).all():
            return found
        return np.nan_to_num(found, nan=1e10, posinf=1e10, neginf=-1e10)

    return replaced
