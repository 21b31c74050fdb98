"""Quadratic programs by OSQP: cheap iterations from the last point, to a moderate accuracy.

Its answers are good enough to see which rows are active; whoever needs digits makes them exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import osqp
import scipy.sparse as sp

from blomodel.basics.alarm import ctrl_c_came
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.question import ProblemClass, QuadraticQuestion
from blomodel.solvers.registry import InnerSolver, inner_solver

_IDENTIFY = 1e-5  # the accuracy at which OSQP's multipliers tell active rows from inactive ones
_MAX_ITERATIONS = 500  # beyond them the interior point method is faster


@inner_solver
class OSQP(InnerSolver):
    """Operator splitting with a kept factorisation."""

    name: ClassVar[str] = "osqp"
    classes: ClassVar[frozenset[ProblemClass]] = frozenset({ProblemClass.LP, ProblemClass.QP})
    module: ClassVar[str] = "osqp"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._solver: Any = None
        self._given: tuple[Any, Any] | None = None  # P and A that it was set up with

    def solve(self, question: QuadraticQuestion) -> Answer:
        """Minimise from the start of the question; FAILED where the iterations do not suffice."""
        q, b = question.q, question.b
        lower = np.where(question.equality, b, -np.inf)
        self._set_up(question, lower)
        if question.start is not None:
            self._solver.warm_start(x=question.start)
        else:
            self._solver.warm_start(x=np.zeros(len(q)), y=np.zeros(len(b)))
        result = self._solver.solve(raise_error=False)
        while result.info.status_val == osqp.SolverStatus.OSQP_SIGINT:
            ctrl_c_came()  # OSQP keeps it to itself
            result = self._solver.solve(raise_error=False)
        iterations = int(result.info.iter)
        if result.info.status_val != osqp.SolverStatus.OSQP_SOLVED:
            return Answer.without_point(InnerStatus.FAILED, len(q), result.info.status, iterations)
        return Answer(
            InnerStatus.INACCURATE,
            float(result.info.obj_val),
            result.x,
            [],
            iterations,
            result.y,
            result.info.status,
            self.name,
            slack=b - question.A @ result.x,
        )

    def _set_up(self, question: QuadraticQuestion, lower: np.ndarray) -> None:
        P, A, given = question.P, question.A, self._given
        if given is not None and given[0] is P and given[1] is A:
            self._solver.update(q=question.q, l=lower, u=question.b)
            return
        self._given = (P, A)
        self._solver = osqp.OSQP()
        settings = {
            "eps_abs": _IDENTIFY,
            "eps_rel": _IDENTIFY,
            "max_iter": _MAX_ITERATIONS,
            "check_termination": 5,
            "polishing": False,
            "verbose": False,
        }
        self._solver.setup(
            P=sp.csc_matrix(sp.triu(P)),
            q=question.q,
            A=sp.csc_matrix(A),
            l=lower,
            u=question.b,
            **(settings | self.options),
        )

    @classmethod
    def known_options(cls) -> frozenset[str]:
        """The fields of OSQP's settings."""
        settings = osqp.OSQP().ext.OSQPSettings
        return frozenset(name for name in dir(settings) if not name.startswith("_"))

    @classmethod
    def try_options(cls, options: Mapping[str, Any]) -> None:
        """Set up the smallest program with them."""
        one, zero = sp.csc_matrix(np.ones((1, 1))), np.zeros(1)
        settings = {"verbose": False} | dict(options)
        try:
            osqp.OSQP().setup(P=one, q=zero, A=one, l=zero, u=zero, **settings)
        except osqp.OSQPException as error:
            raise ValueError("OSQP says above which value is impossible") from error
