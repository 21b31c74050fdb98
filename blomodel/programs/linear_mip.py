"""Mixed-integer linear programs by HiGHS: a minimum with its bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp

from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.basics.troubles import count_trouble, is_from_outside
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.choice import count

_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


@dataclass(frozen=True, eq=False)
class LinearMip:
    """cost'z over row_low <= matrix z <= row_high and low <= z <= high, some entries of z whole."""

    cost: np.ndarray
    matrix: sp.csr_array
    row_low: np.ndarray
    row_high: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_integer: np.ndarray


@dataclass(frozen=True)
class MipAnswer:
    """What HiGHS says.

    Attributes
    ----------
    status : InnerStatus
        INACCURATE where a limit came before the proof.
    point : array or None
        Whole entries are exactly whole, and the others are the best ones for these.
    value, bound : float
        Of the point, and below which no point lies.
    """

    status: InnerStatus
    point: np.ndarray | None
    value: float
    bound: float


def solve_linear_mip(program: LinearMip, deadline: Deadline = NEVER) -> MipAnswer:
    """Minimise; an answer is exact in its whole entries."""
    highs = _highs(program)
    deadline = min(deadline, end_of_work())
    if not deadline.is_never:
        highs.setOptionValue("time_limit", max(deadline.remaining, 0.01))
    try:
        highs.run()
    except BaseException as error:
        if is_from_outside(error):
            raise
        count_trouble("highs")
        return MipAnswer(InnerStatus.FAILED, None, np.inf, -np.inf)
    count("highs")
    status = highs.getModelStatus()
    kinds = highspy.HighsModelStatus
    if status == kinds.kUnboundedOrInfeasible:
        highs.setOptionValue("presolve", "off")
        highs.run()
        status = highs.getModelStatus()
    if status == kinds.kInfeasible:
        return MipAnswer(InnerStatus.INFEASIBLE, None, np.inf, np.inf)
    if status in (kinds.kUnbounded, kinds.kUnboundedOrInfeasible):
        return MipAnswer(InnerStatus.UNBOUNDED, None, -np.inf, -np.inf)
    info = highs.getInfo()
    has_point = info.primal_solution_status == 2
    bound = float(info.mip_dual_bound) if program.is_integer.any() else -np.inf
    if not has_point:
        count_trouble("highs")
        return MipAnswer(InnerStatus.FAILED, None, np.inf, bound)
    z = _exact(program, np.array(highs.getSolution().col_value, dtype=float))
    value = float(program.cost @ z)
    if status == kinds.kOptimal:
        return MipAnswer(
            InnerStatus.OPTIMAL, z, value, min(value, bound) if np.isfinite(bound) else value
        )
    return MipAnswer(InnerStatus.INACCURATE, z, value, bound)


def _exact(program: LinearMip, z: np.ndarray) -> np.ndarray:
    """The point with whole entries rounded, and the others best for these."""
    whole = program.is_integer
    rounded = np.clip(np.where(whole, np.round(z), z), program.low, program.high)
    if not whole.any() or whole.all():
        return rounded
    fixed = LinearMip(
        program.cost,
        program.matrix,
        program.row_low,
        program.row_high,
        np.where(whole, rounded, program.low),
        np.where(whole, rounded, program.high),
        np.zeros(whole.size, dtype=bool),
    )
    highs = _highs(fixed)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return rounded
    return np.where(whole, rounded, np.array(highs.getSolution().col_value, dtype=float))


def _highs(program: LinearMip) -> Any:
    matrix = sp.csc_array(program.matrix)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = program.cost
    lp.row_lower_, lp.row_upper_ = program.row_low, program.row_high
    lp.col_lower_, lp.col_upper_ = program.low, program.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    if program.is_integer.any():
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if k else kinds.kContinuous for k in program.is_integer]
    highs: Any = highspy.Highs()
    for name, value in _OPTIONS.items():
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    return highs
