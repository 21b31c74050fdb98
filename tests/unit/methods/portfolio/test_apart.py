"""Independent problems solved apart: the same answer as by hand, proven, in parallel too."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from tests.unit.transformations.test_independent import TARGETS, market, rows_apart


def test_the_answer_is_that_of_the_parts() -> None:
    problem = rows_apart()
    value, total = problem.solve(), 0.0
    for target in TARGETS:
        x, y = cp.Variable(2, name="x"), cp.Variable(2, nonneg=True, name="y")
        lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [cp.sum(y) <= 2], variables=[y])
        f = cp.sum_squares(y - target) + 0.1 * cp.sum_squares(x)
        total += bm.BilevelProblem(cp.Minimize(f), [-4 <= x, x <= 4], lower).solve()
    assert value == pytest.approx(total, rel=1e-6)
    assert str(problem.status) == "optimal"
    assert problem.certificate.bound == pytest.approx(value, abs=1e-5)
    assert "3 independent problems" in problem.certificate.bound_source


def test_multipliers_come_back_at_their_constraints() -> None:
    problem = market(3)
    problem.solve()
    assert str(problem.status) == "optimal"
    # The firm sells as long as its offer is not above 3: markup 2, price 3, 8 + h units, 10 at most.
    assert problem.value == pytest.approx(2 * (8 + 9 + 10), rel=1e-6)
    prices = [follower.constraints[0].dual_value for follower in problem.followers]
    assert prices == pytest.approx([3.0] * 3, abs=1e-5)


def test_an_infeasible_part_makes_the_problem_infeasible() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
    rows = [x >= 0, x <= 1, y[1] >= 2]
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), rows, lower)
    assert problem.solve() == np.inf
    assert str(problem.status) == "infeasible"


def test_explain_says_it() -> None:
    assert "3 groups that never meet" in rows_apart().explain()


def test_a_time_limit_keeps_what_was_found() -> None:
    problem = rows_apart()
    problem.solve(time_limit=0.05)
    assert problem.certificate is not None and problem.certificate.accepted


@pytest.mark.slow
def test_processes_give_the_same_answer() -> None:
    pytest.importorskip("joblib")
    problem = market(3)
    assert problem.solve(n_jobs=2) == pytest.approx(2 * (8 + 9 + 10), rel=1e-6)


def test_kkt_mip_takes_as_many_hours_as_it_takes_one() -> None:
    problem = market(3)
    assert problem.solve(method="kkt-mip") == pytest.approx(2 * (8 + 9 + 10), rel=1e-6)
    assert str(problem.status) == "optimal"
