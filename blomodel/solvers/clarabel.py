"""Cone and quadratic programs by Clarabel, called directly: interior point, accurate, no warm start."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import clarabel
import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.alarm import Disturbance, enter_shelter, leave_shelter
from blomodel.basics.deadline import Deadline, end_of_work
from blomodel.errors import SolverError
from blomodel.solvers.answer import Answer, InnerStatus, no_value
from blomodel.solvers.question import Cone, ConeKind, ConicQuestion, ProblemClass, QuadraticQuestion
from blomodel.solvers.registry import InnerSolver, inner_solver

STATUS = {
    "Solved": InnerStatus.OPTIMAL,
    "AlmostSolved": InnerStatus.INACCURATE,
    "PrimalInfeasible": InnerStatus.INFEASIBLE,
    "AlmostPrimalInfeasible": InnerStatus.INFEASIBLE,
    "DualInfeasible": InnerStatus.UNBOUNDED,
    "AlmostDualInfeasible": InnerStatus.UNBOUNDED,
}
# Tolerances tried in turn. The last iterations are few and gain much, but asking for more than the
# problem's conditioning allows can lose a good point on the way, or the sight of infeasibility.
_TOLERANCES = (1e-11, 1e-9, 1e-7)
_USELESS = 1e-5  # residuals above this make a point worthless here
_PROVISIONAL = ("AlmostPrimalInfeasible", "AlmostDualInfeasible")

# An almost-solved answer is still useful here when it is much better than Clarabel's default.
_LENIENT = dict.fromkeys(("reduced_tol_gap_abs", "reduced_tol_gap_rel", "reduced_tol_feas"), 1e-6)
# What allows new data in the place of the old.
_UPDATABLE = {"presolve_enable": False, "chordal_decomposition_enable": False}
# A second attempt where the first one broke down: shorter steps, more regularisation and refinement.
CAREFUL = {
    "max_step_fraction": 0.9,
    "static_regularization_constant": 1e-7,
    "equilibrate_max_iter": 50,
    "iterative_refinement_max_iter": 50,
}
_CONES = {
    ConeKind.ZERO: clarabel.ZeroConeT,
    ConeKind.NONNEGATIVE: clarabel.NonnegativeConeT,
    ConeKind.SECOND_ORDER: clarabel.SecondOrderConeT,
    ConeKind.SEMIDEFINITE: clarabel.PSDTriangleConeT,
}

Result = TypeVar("Result")


def tolerance_options(tolerance: float) -> dict[str, float]:
    """Clarabel's names for one tolerance on gap and residuals."""
    return dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)


def settings(tolerance: float, *further: Mapping[str, Any]) -> clarabel.DefaultSettings:
    """Settings for a tolerance, and further options; the last word counts."""
    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    chosen.max_threads = 1
    for options in (tolerance_options(tolerance), *further):
        for name, value in options.items():
            setattr(chosen, name, value)
    return chosen


class ClarabelPanic(SolverError):
    """Clarabel gave up in the middle of its work."""


def without_panic(work: Callable[[], Result]) -> Result:
    """Do work in Clarabel; raises ClarabelPanic for whatever goes wrong there.

    A panic of Rust code reaches Python as ``pyo3_runtime.PanicException``, which derives from
    BaseException and cannot be imported; impossible data raise a plain Exception.
    """
    try:
        return work()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError | Disturbance):
            raise
        raise ClarabelPanic(str(error) or type(error).__name__) from error


def native_cones(cones: Sequence[Cone]) -> list[Any]:
    """Cones as Clarabel's own objects."""
    return [_native_cone(cone) for cone in cones]


def _native_cone(cone: Cone) -> Any:
    if cone.kind is ConeKind.EXPONENTIAL:
        return clarabel.ExponentialConeT()
    if cone.kind is ConeKind.POWER:
        return clarabel.PowerConeT(cone.exponents[0])
    if cone.kind is ConeKind.GENERAL_POWER:
        return clarabel.GenPowerConeT(list(cone.exponents), 1)
    return _CONES[cone.kind](cone.size)


def rows_in_cones(n_equal: int, n_rows: int) -> list[Cone]:
    """Equalities first, then inequalities."""
    cones = [Cone(ConeKind.ZERO, n_equal)] if n_equal else []
    if n_rows > n_equal:
        cones.append(Cone(ConeKind.NONNEGATIVE, n_rows - n_equal))
    return cones


@inner_solver
class Clarabel(InnerSolver):
    """Interior point method; its numbers may change while its sparsity does not."""

    name: ClassVar[str] = "clarabel"
    classes: ClassVar[frozenset[ProblemClass]] = frozenset(
        {ProblemClass.LP, ProblemClass.QP, ProblemClass.CONIC}
    )
    module: ClassVar[str] = "clarabel"
    is_trusted: ClassVar[bool] = True
    out_of_time: ClassVar[tuple[str, ...]] = ("MaxTime", "CallbackTerminated")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._solver: Any = None
        self._least = 0.0  # seconds that it took to begin, and for a first iteration

    def solve(self, question: ConicQuestion | QuadraticQuestion) -> Answer:
        """Minimise, at several tolerances if need be."""
        if isinstance(question, QuadraticQuestion):
            return self._solve_rows(question)
        q, b = question.q, question.b
        entries = (q, question.P.data, question.A.data)
        if not all(np.isfinite(part).all() for part in entries) or np.isnan(b).any():
            return _failure(question, "NotFinite")
        best: Answer | None = None
        spent = 0
        for tolerance in _TOLERANCES:
            reuse = question.keeps_sparsity and tolerance == _TOLERANCES[0]
            answer = self._attempt(question, tolerance, reuse)
            spent += answer.iterations
            if answer.status is InnerStatus.OPTIMAL and answer.error > question.accuracy:
                answer.status = InnerStatus.INACCURATE
            if best is None or _rank(answer) < _rank(best):
                best = answer
            if _is_settled(best, question.accuracy) or answer.reason in self.out_of_time:
                break
        assert best is not None
        best.iterations = spent
        return best

    def _solve_rows(self, question: QuadraticQuestion) -> Answer:
        """Bring the equalities to the front, which makes it a cone program."""
        equality, b = question.equality, question.b
        order = np.argsort(~equality, kind="stable")
        rows = sp.csc_array(sp.csr_array(question.A)[order])
        answer = self.solve(
            ConicQuestion(
                sp.csc_array(sp.triu(question.P)),
                question.q,
                rows,
                b[order],
                rows_in_cones(int(equality.sum()), len(b)),
                question.accuracy,
                deadline=question.deadline,
            )
        )
        for name in ("multipliers", "slack"):
            in_place = np.empty(len(b))
            in_place[order] = getattr(answer, name)
            setattr(answer, name, in_place)
        return answer

    def _attempt(self, question: ConicQuestion, tolerance: float, reuse: bool) -> Answer:
        if min(question.deadline, end_of_work()).remaining <= self._least:
            return _failure(question, self.out_of_time[0])
        # Presolve removes rows without a bound (b infinite), which an update could not bring back.
        updatable = reuse and bool(np.isfinite(question.b).all())
        try:
            raw = without_panic(lambda: self._run(question, tolerance, updatable))
        except ClarabelPanic as panic:
            self._solver = None
            return _failure(question, str(panic))
        native = str(raw.status)
        status = STATUS.get(native, InnerStatus.FAILED)
        gap = abs(raw.obj_val - raw.obj_val_dual) / max(1.0, abs(raw.obj_val))
        worst = float(np.max([gap, raw.r_prim, raw.r_dual]))
        if status in (InnerStatus.FAILED, InnerStatus.INACCURATE):
            status = InnerStatus.INACCURATE if worst <= _USELESS else InnerStatus.FAILED
        y, multipliers, slack = np.array(raw.x), np.array(raw.z), np.array(raw.s)
        if status.has_point and not question.residual(y, multipliers, slack) <= _USELESS:
            status = InnerStatus.FAILED
        return Answer(
            status,
            no_value(status) if not status.has_point else float(raw.obj_val),
            y,
            [],
            int(raw.iterations),
            multipliers,
            native,
            self.name,
            slack=slack,
            error=worst,
        )

    def _run(self, question: ConicQuestion, tolerance: float, updatable: bool) -> Any:
        solver, P, q, A, b = self._solver, question.P, question.q, question.A, question.b
        chosen = settings(tolerance, _LENIENT, _UPDATABLE if updatable else {}, self.options)
        end, began = min(question.deadline, end_of_work()), time.perf_counter()
        chosen.time_limit = max(min(chosen.time_limit, end.remaining), 0.0)
        if updatable and solver is not None and solver.is_data_update_allowed():
            solver.update(P=P, q=q, A=A, b=b, settings=chosen)  # it was made with another end, or none
        else:
            solver = clarabel.DefaultSolver(P, q, A, b, native_cones(question.cones), chosen)
        if updatable:
            self._solver = solver
        if end.is_never or limits.UNWATCHED_ITERATIONS.allows(_numbers_in_a_factor(question)):
            return solver.solve()
        pace = Pace(end, began)
        try:
            return pace.solve(solver)
        finally:
            self._least = pace.to_first

    @classmethod
    def known_options(cls) -> frozenset[str]:
        """The fields of Clarabel's settings."""
        names = dir(clarabel.DefaultSettings)
        return frozenset(name for name in names if not name.startswith("_") and name != "default")

    @classmethod
    def try_options(cls, options: Mapping[str, Any]) -> None:
        """Set them."""
        settings(_TOLERANCES[0], options)


def _numbers_in_a_factor(question: ConicQuestion) -> int:
    """Roughly, what an iteration has to factorise: nonzeros, and a full block for each matrix."""
    blocks = (
        cone.size * (cone.size + 1) // 2 for cone in question.cones if cone.kind is ConeKind.SEMIDEFINITE
    )
    return int(question.P.nnz + question.A.nnz + sum(size**2 for size in blocks))


class Pace:
    """How long iterations take: none is begun that would end too late if it took as long as the last.

    Clarabel itself looks at the clock between two iterations, which may take a second each.
    """

    def __init__(self, end: Deadline, began: float) -> None:
        self._end, self._began = end, began
        self.to_first = 0.0  # seconds from the beginning to the end of the first iteration
        self._last = began

    def solve(self, solver: Any) -> Any:
        """Solve, and end in time."""
        enter_shelter()  # an exception must not come up in what Clarabel calls
        try:
            self._last = time.perf_counter()
            solver.set_termination_callback(self._is_enough)
            return solver.solve()
        finally:
            solver.unset_termination_callback()
            leave_shelter()

    def _is_enough(self, _: object) -> bool:
        now = time.perf_counter()
        taken, self._last = now - self._last, now
        self.to_first = self.to_first or now - self._began
        return now + taken > self._end.at


def _is_settled(answer: Answer, accuracy: float) -> bool:
    if answer.status is InnerStatus.INACCURATE and answer.error <= accuracy:
        answer.status = InnerStatus.OPTIMAL
    unsettled = answer.status in (InnerStatus.FAILED, InnerStatus.INACCURATE)
    return not unsettled and answer.reason not in _PROVISIONAL


def _rank(answer: Answer) -> tuple[int, float]:
    """Best first: certain outcomes, then points by residual, then suspicions, then nothing."""
    if answer.has_point:
        return 1, answer.error
    if answer.status is InnerStatus.FAILED:
        return 3, 0.0
    return (2 if answer.reason in _PROVISIONAL else 0), 0.0


def _failure(question: ConicQuestion, reason: str) -> Answer:
    answer = Answer.without_point(InnerStatus.FAILED, len(question.q), reason, solver=Clarabel.name)
    answer.multipliers = answer.slack = np.full(len(question.b), np.nan)
    return answer
