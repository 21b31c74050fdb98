"""The reserve of a time limit covers what a certificate takes, and not a multiple of the limit."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.certification.below.lower_check import check_lower
from blomodel.certification.reserve import certificate_reserve, local_seconds, lower_reserve


@pytest.mark.parametrize("n", [2, 300])
def test_the_reserve_is_about_what_the_check_takes(n: int) -> None:
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= 0, cp.sum(y) <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x >= 0, x <= 1], lower)
    model, at = problem.model, np.full(n, 0.5)
    began = time.perf_counter()
    answer = model.lower_program.solve(at, np.zeros(0), warm=False)
    lower_seconds = time.perf_counter() - began
    reserve = certificate_reserve(model, lower_seconds)
    began = time.process_time()
    check_lower(model, np.zeros(0), at, answer.y)
    needed = time.process_time() - began
    assert needed / 10 <= reserve <= 10 * needed + 1.0


def test_hundreds_of_norms_cost_more_than_their_size_tells() -> None:
    n_groups = 150
    x, y = cp.Variable(n_groups, name="x", nonneg=True), cp.Variable(2 * n_groups, name="y")
    norms = sum(x[j] * cp.norm(y[2 * j : 2 * j + 2], 2) for j in range(n_groups))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - 1) + norms), variables=[y])
    model = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x <= 1], lower).model
    stated = model.lower_program.seconds_of_stating
    assert stated > 0.05
    assert lower_reserve(model, 0.0) >= stated


def test_more_is_kept_on_a_busy_machine() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    model = bm.BilevelProblem(cp.Minimize(x**2 + y), [], lower).model
    assert certificate_reserve(model, 0.0, load=3.0) > certificate_reserve(model, 0.0)
    assert certificate_reserve(model, 1.0) > certificate_reserve(model, 0.1) + 0.5


def test_nothing_is_kept_for_tests_that_are_left_out(monkeypatch) -> None:
    x, y = cp.Variable(name="x"), cp.Variable(50, name="y")
    A = np.random.default_rng(0).standard_normal((60, 50))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(A @ y - x)), variables=[y])

    def model():
        return bm.BilevelProblem(cp.Minimize(x**2 + cp.sum(y)), [], lower).model

    with_tests = certificate_reserve(model(), 0.0)
    monkeypatch.setattr(limits, "STUDIED_CURVATURES", limits.Limit(10, "", ""))
    assert local_seconds(model()) == 0.0
    assert certificate_reserve(model(), 0.0) < with_tests
