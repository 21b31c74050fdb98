"""An inner solver from outside the library: quadratic programs by their dual."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.question import ProblemClass, QuadraticQuestion
from blomodel.solvers.registry import InnerSolver


class DualLeastSquares(InnerSolver):
    """For positive definite P and inequality rows, fewer than variables."""

    name: ClassVar[str] = "dual-least-squares"
    classes: ClassVar[frozenset[ProblemClass]] = frozenset({ProblemClass.QP})
    module: ClassVar[str] = "scipy"

    def solve(self, question: QuadraticQuestion) -> Answer:
        q, b = question.q, question.b
        try:
            R = np.linalg.cholesky(question.P.toarray())
        except np.linalg.LinAlgError:
            return Answer.without_point(InnerStatus.FAILED, len(q), "P is not positive definite")
        if question.equality.any() or not np.isfinite(b).all():
            return Answer.without_point(InnerStatus.FAILED, len(q), "only rows Ay <= b are taken")
        slopes, offset = np.linalg.solve(R, question.A.toarray().T), np.linalg.solve(R, q)
        shift = np.linalg.lstsq(slopes.T, b, rcond=None)[0]
        multipliers, _ = nnls(slopes, -offset - shift)
        y = -np.linalg.solve(R.T, slopes @ multipliers + offset)
        return Answer(InnerStatus.OPTIMAL, np.nan, y, multipliers=multipliers, solver=self.name)


class Liar(DualLeastSquares):
    """Says what is wrong, with confidence."""

    name: ClassVar[str] = "liar"

    def solve(self, question: QuadraticQuestion) -> Answer:
        n, m = len(question.q), len(question.b)
        if m % 2:
            return Answer.without_point(InnerStatus.INFEASIBLE, n, "trust me", solver=self.name)
        everything = np.ones(m, bool)
        return Answer(InnerStatus.OPTIMAL, 0.0, np.ones(n), multipliers=np.ones(m), active=everything)
