"""Linear programs by HiGHS's simplex method: large ones, and many over one feasible set."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.clarabel import ConicResult

_STATUS = {0: InnerStatus.OPTIMAL, 2: InnerStatus.INFEASIBLE, 3: InnerStatus.UNBOUNDED}


def solve_linear(q: np.ndarray, A: sp.csc_array, b: np.ndarray, equality: np.ndarray) -> ConicResult:
    """Solve min q'y s.t. Ay <= b, with = on the rows marked in ``equality``."""
    rows: Any = sp.csr_array(A)
    unequal = ~equality & np.isfinite(b)
    raw: Any = linprog(
        q,
        A_ub=rows[np.flatnonzero(unequal)],
        b_ub=b[unequal],
        A_eq=rows[np.flatnonzero(equality)],
        b_eq=b[equality],
        bounds=(None, None),
        method="highs-ds",
    )
    status = _STATUS.get(raw.status, InnerStatus.FAILED)
    multipliers, slack = np.full(len(b), np.nan), np.full(len(b), np.nan)
    if status is InnerStatus.OPTIMAL:
        # SciPy's marginals are derivatives of the optimal value in b.
        multipliers[:] = 0.0
        multipliers[unequal], multipliers[equality] = -raw.ineqlin.marginals, -raw.eqlin.marginals
        slack = b - A @ raw.x
    x = raw.x if raw.x is not None else np.full(len(q), np.nan)
    return ConicResult(status, x, multipliers, slack, int(raw.nit), raw.message)


class BoundedProgram:
    """One linear feasible set, over which many linear functions are minimised in turn.

    ``A_eq z = b_eq``, ``A_in z <= b_in``, ``low <= z <= high``. Each solve starts from the basis of
    the one before.
    """

    def __init__(
        self,
        A_eq: np.ndarray,
        b_eq: np.ndarray,
        A_in: np.ndarray,
        b_in: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> None:
        matrix = sp.csc_array(np.vstack([A_eq, A_in]))
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = matrix.shape
        lp.col_cost_ = np.zeros(lp.num_col_)
        lp.col_lower_, lp.col_upper_ = low, high
        lp.row_lower_ = np.concatenate([b_eq, np.full(len(b_in), -np.inf)])
        lp.row_upper_ = np.concatenate([b_eq, b_in])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
        lp.a_matrix_.value_ = matrix.data
        self.n = lp.num_col_
        self.highs: Any = highspy.Highs()
        for name, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self.highs.setOptionValue(name, setting)
        self.highs.passModel(lp)

    def minimise(self, cost: np.ndarray) -> tuple[InnerStatus, float, np.ndarray | None]:
        """Least value of ``cost . z`` and a point that has it."""
        self.highs.changeColsCost(self.n, np.arange(self.n, dtype=np.int32), cost)
        for _ in range(2):
            self.highs.run()
            status = self.highs.getModelStatus()
            if status == highspy.HighsModelStatus.kInfeasible:
                return InnerStatus.INFEASIBLE, np.inf, None
            if status == highspy.HighsModelStatus.kUnbounded:
                return InnerStatus.UNBOUNDED, -np.inf, None
            if status == highspy.HighsModelStatus.kOptimal:
                z = np.array(self.highs.getSolution().col_value)
                return InnerStatus.OPTIMAL, float(cost @ z), z
            self.highs.clearSolver()  # a stale basis is the usual cause of trouble
        return InnerStatus.FAILED, -np.inf, None
