"""An answer at which f takes the least value that it has anywhere is optimal, whoever found it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def tracking(f, sense=cp.Minimize) -> bm.BilevelProblem:
    """The lower level answers y = x."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    x.value = y.value = 1.0
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    return bm.BilevelProblem(sense(f(x, y)), [x >= -2, x <= 2], lower)


@pytest.mark.parametrize("method", ["alt-pbgd", "implicit-cg", "auto"])
@pytest.mark.parametrize("sense", [cp.Minimize, cp.Maximize])
def test_least_value_of_a_square_is_proved(method: str, sense: type) -> None:
    sign = 1.0 if sense is cp.Minimize else -1.0
    problem = tracking(lambda x, y: sign * (5 + cp.square(x - 2 * cp.nlp.sin(y))), sense)
    problem.solve(method)
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(sign * 5.0, abs=1e-5)
    assert problem.certificate.bound == pytest.approx(sign * 5.0)
    assert "formula" in problem.certificate.bound_source


def test_a_value_above_the_range_proves_nothing() -> None:
    problem = tracking(lambda x, y: cp.square(x - 2 * cp.nlp.sin(y)) + cp.square(y - 1))
    problem.solve("alt-pbgd")
    assert problem.value > 0.1
    assert problem.certificate.bound == 0 and problem.status != "optimal"


def test_a_point_that_the_lower_level_would_leave_proves_nothing() -> None:
    problem = tracking(lambda x, y: cp.square(y - 7) + cp.square(x))  # f = 0 only at y = 7
    problem.solve("jnt-pbgd", gamma=1e-6, max_steps=50)
    assert problem.certificate.bound == 0
    assert problem.status == "feasible"
    assert problem.value >= np.square(5) - 1e-3
