"""Large linear programs by HiGHS's simplex method, as SciPy ships it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from blomodel.inner.answer import InnerStatus
from blomodel.inner.clarabel import ConicResult

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
