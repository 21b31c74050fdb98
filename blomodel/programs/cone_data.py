"""cvxpy's canonical form of a cone program, kept as maps from parameters to Clarabel's data."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy import settings as names
from cvxpy.constraints.constraint import Constraint
from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL

from blomodel.programs.by_cvxpy import without_advice_on_cones
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.cascade import stages
from blomodel.solvers.choice import count
from blomodel.solvers.question import Cone, ConeKind, ConicQuestion, ProblemClass
from blomodel.solvers.registry import InnerSolver

USELESS = 1e-5  # residuals above this make the point of a solver that is not trusted worthless


# P, q, A, b, the cones and d: see ``ConeData.numbers``.
Numbers = tuple[sp.csc_array, np.ndarray, sp.csc_array, np.ndarray, list[Cone], float]


class _ClarabelInterface(CLARABEL):
    """cvxpy's interface to Clarabel, which puts the rows of all cones in order by one product.

    cvxpy takes one product for each constraint, and each costs as much as the tensor has columns:
    variables times parameters. With hundreds of norms that takes minutes and gigabytes.
    """

    def name(self) -> str:
        """A name of its own, as cvxpy wants it."""
        return "CLARABEL_IN_ONE_PRODUCT"

    @classmethod
    def format_constraints(cls, problem: Any, exp_cone_order: Any) -> Any:
        """The cone program with its rows in Clarabel's order."""
        if not problem.constraints:
            return super().format_constraints(problem, exp_cone_order)
        n_rows = problem.A.shape[0] // (problem.x.size + 1)
        # What cvxpy does to the rows of the unit matrix is the matrix of what it does to any.
        unit = copy.copy(problem)
        unit.A, unit.x = sp.eye_array(n_rows, format="csc"), SimpleNamespace(size=0)
        order = sp.csr_array(super().format_constraints(unit, exp_cone_order).A)
        wide = problem.A.reshape(n_rows, -1, order="F").tocsr()
        rows = sp.coo_array(order @ wide)
        shape = (order.shape[0] * (problem.x.size + 1), problem.A.shape[1])
        place = rows.row + order.shape[0] * rows.col.astype(np.int64)
        where = (place % shape[0], place // shape[0])
        return ParamConeProg(
            problem.q,
            problem.x,
            sp.csc_array((rows.data, where), shape=shape),
            problem.variables,
            problem.var_id_to_col,
            problem.constraints,
            problem.parameters,
            problem.param_id_to_col,
            P=problem.P,
            formatted=True,
            lower_bounds=problem.lower_bounds,
            upper_bounds=problem.upper_bounds,
            lb_tensor=problem.lb_tensor,
            ub_tensor=problem.ub_tensor,
            dir_cones=problem.dir_cones,
        )


class _Selection:
    """A linear map each of whose outputs is one input times a number."""

    positions: np.ndarray
    factors: np.ndarray

    def __init__(self, positions: np.ndarray, factors: np.ndarray) -> None:
        self.positions, self.factors = positions, factors

    def apply(self, vector: np.ndarray) -> np.ndarray:
        return self.factors * vector[self.positions]


class ConeData:
    """cvxpy's constant maps from parameters to Clarabel's data, and from its answer back."""

    blank: np.ndarray
    cones: list[Cone]
    seconds: float
    y: _Selection
    duals: _Selection

    def __init__(
        self,
        problem: cp.Problem,
        constraints: Sequence[Constraint],
        variables: Sequence[cp.Variable],
        ignore_dpp: bool = False,
    ) -> None:
        began = time.perf_counter()
        with without_advice_on_cones():
            data, chain, inverse = problem.get_problem_data(
                _ClarabelInterface(), ignore_dpp=ignore_dpp, solver_opts={}
            )
        self.seconds = time.perf_counter() - began  # of cvxpy's: whoever asks it again may count on them
        program = data[names.PARAM_PROB]
        self.n: int = program.x.size
        self.m: int = data[names.A].shape[0]
        self.columns: dict[Any, slice] = {
            key: slice(column, column + program.param_id_to_size[key])
            for key, column in program.param_id_to_col.items()
            if key in program.param_id_to_size
        }
        # The last entry multiplies the constant part.
        self.blank = np.zeros(program.total_param_size + 1)
        self.blank[-1] = 1.0
        self._q = sp.csr_array(program.q)
        program.reduced_A.cache()
        self._A, (rows, starts, _) = (
            program.reduced_A.reduced_mat,
            program.reduced_A.problem_data_index,
        )
        self._A_end = int(starts[self.n])
        self._b_rows = rows[self._A_end :]
        self._A_index = (rows[: self._A_end], starts[: self.n + 1])
        self._P: Any = None
        if program.P is not None and program.P.nnz:
            program.reduced_P.cache()
            rows, starts, _ = program.reduced_P.problem_data_index
            columns = np.repeat(np.arange(self.n), np.diff(starts))
            upper = rows <= columns
            counts = np.bincount(columns[upper], minlength=self.n)
            self._P = sp.csr_array(program.reduced_P.reduced_mat)[np.flatnonzero(upper)]
            self._P_index = (rows[upper], np.concatenate([[0], np.cumsum(counts)]))
        self.cones = _cones(data["dims"])
        self._stages = stages(ProblemClass.CONIC, self.n, self.m)
        self.y, self.duals = self._read_inverse(chain, inverse, constraints, variables)

    def _read_inverse(
        self,
        chain: Any,
        inverse: Any,
        constraints: Sequence[Constraint],
        variables: Sequence[cp.Variable],
    ) -> tuple[_Selection, _Selection]:
        """Find the map back by sending known vectors through cvxpy's own inverse."""

        def send(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            raw = SimpleNamespace(
                status="Solved", x=x, z=z, s=z, obj_val=0.0, solve_time=0.0, iterations=0
            )
            solution = chain.invert(raw, inverse)
            primal = [
                np.ravel(solution.primal_vars.get(v.id, np.zeros(v.shape)), order="F") for v in variables
            ]
            dual = []
            for constraint in constraints:
                constraint.save_dual_value(solution.dual_vars[constraint.id])
                dual += [np.ravel(v.value, order="F") for v in constraint.dual_variables]
            return np.concatenate(primal), np.concatenate(dual) if dual else np.zeros(0)

        ones = send(np.ones(self.n), np.ones(self.m))
        counted = send(np.arange(1.0, self.n + 1), np.arange(1.0, self.m + 1))
        random = np.random.default_rng(3)
        x, z = random.standard_normal(self.n), random.standard_normal(self.m)
        selections = []
        for factors, weighted, check, source in zip(ones, counted, send(x, z), (x, z), strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.rint(np.where(factors == 0, 1.0, weighted / factors)).astype(int) - 1
            found = np.clip(found, 0, max(len(source) - 1, 0))
            selection = _Selection(found, factors)
            if found.size and not np.allclose(selection.apply(source), check, rtol=1e-9, atol=1e-12):
                raise RuntimeError("cvxpy's inverse is not a selection of the solver's answer")
            selections.append(selection)
        return selections[0], selections[1]

    def solve(
        self,
        vector: np.ndarray,
        linear: np.ndarray,
        accuracy: float,
        preferred: InnerSolver | None = None,
    ) -> Answer:
        """Solve for the given parameter vector, with ``linear`` times y added to the objective.

        The preferred solver is asked before those of the cascade. The answer is that of the canonical
        form: ``self.y`` and ``self.duals`` lead back from there.
        """
        P, q, A, b, _, _ = self.numbers(vector)
        q[self.y.positions] += linear
        question = ConicQuestion(P, q, A, b, self.cones, accuracy, keeps_sparsity=True)
        asked = [] if preferred is None else [preferred]
        for solver in [*asked, *(solver for _, solver in self._stages)]:
            answer = solver.solve(question)
            if answer.status is not InnerStatus.FAILED and _is_believed(question, solver, answer):
                break
        count(solver.name)
        return answer

    def numbers(self, vector: np.ndarray | None = None) -> Numbers:
        """The canonical form for a parameter vector; without one, of a problem without parameters.

        It minimises 1/2 z'Pz + q'z + d over Az + s = b with s in the cones; P is the upper triangle.
        """
        vector = self.blank if vector is None else vector
        costs = self._q @ vector
        entries = self._A @ vector
        A = sp.csc_array((-entries[: self._A_end], *self._A_index), shape=(self.m, self.n))
        b = np.zeros(self.m)
        b[self._b_rows] = entries[self._A_end :]
        if self._P is None:
            P = sp.csc_array((self.n, self.n))
        else:
            P = sp.csc_array((self._P @ vector, *self._P_index), shape=(self.n, self.n))
        return P, costs[: self.n], A, b, self.cones, float(costs[self.n])


def _is_believed(question: ConicQuestion, solver: InnerSolver, answer: Answer) -> bool:
    """Whether an answer is taken: from a solver that is not trusted only with small residuals."""
    if solver.is_trusted:
        return True
    if not answer.has_point or answer.multipliers is None:
        return False
    slack = question.b - question.A @ answer.y if answer.slack is None else answer.slack
    return question.residual(answer.y, answer.multipliers, slack) <= USELESS


def _cones(dims: Any) -> list[Cone]:
    """cvxpy's sizes of the cones, in the order in which its interface to Clarabel lays the rows."""
    cones = [Cone(ConeKind.ZERO, dims.zero)] if dims.zero else []
    if dims.nonneg:
        cones.append(Cone(ConeKind.NONNEGATIVE, dims.nonneg))
    cones += [Cone(ConeKind.SECOND_ORDER, size) for size in dims.soc]
    cones += [Cone(ConeKind.SEMIDEFINITE, size) for size in dims.psd]
    cones += [Cone(ConeKind.EXPONENTIAL, 3)] * dims.exp
    cones += [Cone(ConeKind.POWER, 3, (exponent,)) for exponent in dims.p3d]
    return cones + [Cone(ConeKind.GENERAL_POWER, len(e) + 1, tuple(e)) for e in dims.pnd]
