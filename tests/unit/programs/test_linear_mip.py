"""Mixed-integer linear programs against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from blomodel.basics.deadline import Deadline
from blomodel.programs.linear_mip import LinearMip, solve_linear_mip
from blomodel.solvers.answer import InnerStatus


def program(seed, n=6, m=4):
    draw = np.random.default_rng(seed)
    return LinearMip(
        draw.normal(size=n),
        sp.csr_array(draw.normal(size=(m, n))),
        np.full(m, -np.inf),
        draw.uniform(0.5, 3, m),
        np.zeros(n),
        np.full(n, 4.0),
        draw.random(n) < 0.6,
    )


@pytest.mark.parametrize("seed", range(8))
def test_values(seed):
    mip = program(seed)
    answer = solve_linear_mip(mip)
    rows = LinearConstraint(mip.matrix.toarray(), mip.row_low, mip.row_high)
    other = milp(
        mip.cost, constraints=rows, bounds=Bounds(mip.low, mip.high), integrality=mip.is_integer
    )
    assert answer.status is InnerStatus.OPTIMAL
    assert answer.value == pytest.approx(other.fun, abs=1e-7)
    assert answer.bound <= answer.value <= answer.bound + 1e-6
    whole = answer.point[mip.is_integer]
    assert np.array_equal(whole, np.round(whole))
    assert np.all(mip.matrix @ answer.point <= mip.row_high + 1e-7)


def test_no_point_and_no_bottom():
    mip = program(0)
    nothing = LinearMip(
        mip.cost, mip.matrix, np.full(4, 50.0), np.full(4, np.inf), mip.low, 0 * mip.high, mip.is_integer
    )
    assert solve_linear_mip(nothing).status is InnerStatus.INFEASIBLE
    free = LinearMip(
        np.array([-1.0, 0.0]),
        sp.csr_array(np.array([[-1.0, 1.0]])),
        np.array([-np.inf]),
        np.array([2.0]),
        np.zeros(2),
        np.full(2, np.inf),
        np.array([True, False]),
    )
    assert solve_linear_mip(free).status is InnerStatus.UNBOUNDED


def test_a_limit_is_kept():
    answer = solve_linear_mip(program(1, n=60, m=40), Deadline.after(1e-3))
    assert answer.status in (InnerStatus.OPTIMAL, InnerStatus.INACCURATE, InnerStatus.FAILED)
    assert answer.bound <= answer.value
