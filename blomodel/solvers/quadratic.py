"""Convex quadratic and linear programs, solved again and again with new numbers.

The solvers of the cascade are asked in turn, each only when the one before did not settle the matter; a
solver that the user prefers is asked first. All answers end in an exact solve on the active rows, so an
answer is either accurate to rounding or the interior point method's own, which also has the last
word on infeasible and unbounded problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from blomodel.basics.deadline import end_of_work
from blomodel.basics.troubles import count_trouble
from blomodel.solvers.active_set import ActiveSet
from blomodel.solvers.answer import Answer, InnerStatus, OptimalitySystem
from blomodel.solvers.blocks import BlockActiveSet, Part
from blomodel.solvers.cascade import Stage, stages
from blomodel.solvers.choice import Preferred, count
from blomodel.solvers.question import ProblemClass, QuadraticQuestion, is_convincing
from blomodel.solvers.registry import SOLVERS, InnerSolver

PREFERRED = Stage("", "the user prefers it", corrections=10)
USELESS = 1e-5  # residual of an answer that is not believed, whoever gives it
HARDLY = 1e-6  # slack, relative to the size of the point, of a row that may be active


class QuadraticSolver:
    """min .5 y'Py + q'y s.t. Ay <= b, with = on the rows marked in ``equality``.

    Parameters
    ----------
    P, A : scipy.sparse.csc_array
        The whole symmetric P, not a triangle of it.
    equality : array of bool
    lasting : bool
        Whether many calls with these P and A are to come, so that preparation pays.
    parts : sequence of Part
        Independent parts of the program, now and after every ``set_matrices``.
    """

    n: Any
    m: Any
    is_strongly_convex: bool

    def __init__(
        self,
        P: sp.csc_array,
        A: sp.csc_array,
        equality: np.ndarray,
        lasting: bool = True,
        parts: Sequence[Part] = (),
    ) -> None:
        self.equality = equality
        self.n, self.m = P.shape[0], A.shape[0]
        self.lasting = lasting
        self._active: np.ndarray | None = None  # rows that were active in the last answer
        self._y: np.ndarray | None = None
        self._preferred = Preferred()
        self._exact = ActiveSet()
        self.problem_class: ProblemClass | None = None
        # One block with rows is left to the active set method for it, which keeps its factors.
        is_apart = len(parts) > 1 or (len(parts) == 1 and not self.m)
        is_apart = is_apart and BlockActiveSet.takes(parts, P)
        self._blocks = BlockActiveSet(parts, equality) if is_apart else None
        self.A: sp.csc_array | None = None
        self._active_rows: tuple[np.ndarray, sp.csr_array] | None = None  # the last active rows of A
        self.set_matrices(P, A)

    def set_matrices(self, P: sp.csc_array, A: sp.csc_array) -> None:
        """Replace P and A, keeping what is known of the last answer."""
        if self._blocks is not None and A is not self.A:
            self._rows, self._active_rows = sp.csr_array(A), None
        self.P, self.A = P, A
        blocks, self.is_strongly_convex = self._blocks, False
        if blocks is not None and P.nnz:
            self.is_strongly_convex = blocks.set_matrices(P, A)
        before, is_linear = self.problem_class, P.nnz == 0 or not P.data.any()
        self.problem_class = ProblemClass.LP if is_linear else ProblemClass.QP
        if self.problem_class is not before:
            # The one that makes other answers exact is also a stage of its own.
            self._cascade: list[tuple[Stage, InnerSolver]] = [
                (stage, self._exact if isinstance(solver, ActiveSet) else solver)
                for stage, solver in stages(self.problem_class, self.n, self.m)
            ]

    def solve(self, q: np.ndarray, b: np.ndarray, warm: bool = True, accuracy: float = 1e-9) -> Answer:
        """Minimise for these vectors; a row whose b is infinite does not constrain."""
        # Not-a-number anywhere, or an impossible bound, would be passed on silently by the solvers.
        if not np.isfinite(q).all() or np.isnan(b).any():
            return self._without_point(InnerStatus.FAILED, "the data at this point is not finite")
        if self.m and (b.min() == -np.inf or np.isinf(b[self.equality]).any()):
            return self._without_point(InnerStatus.INFEASIBLE, "a bound is infinite the wrong way")
        if not warm:
            self._active = self._y = None
        question = QuadraticQuestion(
            self.P, q, self.A, b, self.equality, accuracy, self._y, self._active, self.lasting
        )
        cascade = self._cascade
        assert self.problem_class is not None
        preferred = self._preferred.solver(self.problem_class)
        if preferred is not None:
            cascade = [(PREFERRED, preferred), *cascade]
        elif self.is_strongly_convex:
            answer = self._solve_blocks(question)
            if answer is not None:
                return answer
        spent, reason = 0, ""
        for stage, solver in cascade:
            answer = solver.solve(question)
            spent += answer.iterations
            settled = self._settle(question, stage, solver, answer)
            if settled is not None:
                settled.iterations = spent
                count(solver.name)
                return settled
            reason = f"{solver.name}: {answer.reason}"
            if end_of_work().is_over:
                self._active = self._y = None
                return self._without_point(InnerStatus.FAILED, reason, spent)
        self._active = self._y = None
        return self._without_point(self._decide(q, b), reason, spent)

    def _solve_blocks(self, question: QuadraticQuestion) -> Answer | None:
        """The minimiser of each block for itself; None where one of them does not end."""
        assert self._blocks is not None
        found = self._blocks.solve(question.q, question.b, question.active, question.accuracy)
        if found is None:
            return None
        count("active-set")
        self._active, self._y = found.active, found.y
        if self._active_rows is None or not np.array_equal(self._active_rows[0], found.active):
            self._active_rows = found.active, self._rows[np.flatnonzero(found.active)]
        solve = self._blocks.optimality_solver(found.active)
        return Answer(
            InnerStatus.OPTIMAL,
            np.nan,
            found.y,
            [],
            found.corrections,
            found.multipliers,
            solver="active-set",
            active=found.active,
            system=OptimalitySystem(self.P, self._active_rows[1], solve),
        )

    def _settle(
        self, question: QuadraticQuestion, stage: Stage, solver: InnerSolver, answer: Answer
    ) -> Answer | None:
        """The answer made exact where possible; None where the next solver is to be asked."""
        if not answer.has_point:
            if answer.status is InnerStatus.FAILED or not solver.is_trusted:
                return None
            self._active = self._y = None
            return self._without_point(answer.status, f"{solver.name}: {answer.reason}")
        exact: Answer | None = answer
        if answer.active is None or not solver.is_trusted:
            guess = _likely_active(question, answer)
            exact = self._made_exact(question, guess, answer.y, stage.corrections)
        if exact is not None:
            exact.solver = solver.name
            self._active, self._y = exact.active, exact.y
            return exact
        if not solver.is_trusted:
            if not is_convincing(question, answer):
                count_trouble(solver.name)
                return None
            answer.status = InnerStatus.OPTIMAL
        elif not is_convincing(question, answer, USELESS):
            count_trouble(solver.name)
            return None
        self._active, self._y = None, answer.y
        return answer

    def _made_exact(
        self, question: QuadraticQuestion, guess: np.ndarray, y: np.ndarray, corrections: int
    ) -> Answer | None:
        """The minimiser on rows that may be active; None where that leads nowhere."""
        try:
            return self._exact.correct(question, guess, y, corrections)
        except (ArithmeticError, ValueError, RuntimeError):  # of linear algebra
            count_trouble(self._exact.name)
            return None

    def _decide(self, q: np.ndarray, b: np.ndarray) -> InnerStatus:
        """Tell infeasible from unbounded by the simplex method, when the others saw neither.

        A convex quadratic program that has feasible points is unbounded exactly when some direction
        d that keeps them feasible has Pd = 0 and q'd < 0.
        """
        simplex, nothing = SOLVERS["highs"](), sp.csc_array((self.n, self.n))
        feasible = simplex.solve(QuadraticQuestion(nothing, np.zeros(self.n), self.A, b, self.equality))
        if feasible.status is not InnerStatus.OPTIMAL:
            return feasible.status
        unit = sp.eye_array(self.n)
        rows = sp.csc_array(sp.vstack([self.A, self.P, unit, -unit]))
        still = np.concatenate([self.equality, np.ones(self.n, bool), np.zeros(2 * self.n, bool)])
        away = np.where(np.isfinite(b), 0.0, np.inf)
        limits = np.concatenate([away, np.zeros(self.n), np.ones(2 * self.n)])
        direction = simplex.solve(QuadraticQuestion(nothing, q, rows, limits, still))
        falls = direction.status is InnerStatus.OPTIMAL and q @ direction.y < -1e-7 * np.abs(q).max()
        return InnerStatus.UNBOUNDED if falls else InnerStatus.FAILED

    def _without_point(self, status: InnerStatus, reason: str, iterations: int = 0) -> Answer:
        return Answer.without_point(status, self.n, reason, iterations)


def _likely_active(question: QuadraticQuestion, answer: Answer) -> np.ndarray:
    """Rows whose multiplier exceeds their slack; without multipliers, rows with hardly any slack."""
    slack = question.b - question.A @ answer.y if answer.slack is None else answer.slack
    if answer.multipliers is None:
        return slack <= HARDLY * (1 + np.abs(answer.y).max(initial=0.0))
    return answer.multipliers > slack
