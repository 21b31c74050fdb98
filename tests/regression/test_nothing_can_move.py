"""Without upper variables, and with one lower answer, no direction is left to be tested."""

from __future__ import annotations

import cvxpy as cp
import pytest

import blomodel as bm


def test_a_linear_lower_level_without_x() -> None:
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(-y), [y >= -1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [], lower)
    assert problem.solve() == pytest.approx(1.0)
    assert problem.certificate.accepted
