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
from blomodel.compiler.tape import Tape
from blomodel.model.model import Model


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


def regression(rows: int) -> bm.BilevelProblem:
    """Rows of data that a look at both objectives goes through."""
    A = np.random.default_rng(0).standard_normal((rows, 10))
    x, y = cp.Variable(name="x"), cp.Variable(10, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(cp.logistic(A @ y)) / rows + x * cp.sum_squares(y)), [], [y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(A @ y - 1) / rows), [x >= 0.1, x <= 1], lower)


def slow_slopes(monkeypatch: pytest.MonkeyPatch, model: Model, seconds: float) -> list[Tape]:
    """Let slopes of g take so long, as on a machine with a slow memory; returns what was run."""
    run, runs = Tape.__call__, []

    def slowly(self: Tape, *at: np.ndarray) -> np.ndarray:
        runs.append(self)
        if self is model.g_grad:
            time.sleep(seconds)
        return run(self, *at)

    monkeypatch.setattr(Tape, "__call__", slowly)
    return runs


def test_what_a_look_at_large_data_takes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    model = regression(200_000).model
    fast = certificate_reserve(model, 0.1)
    model = regression(200_000).model
    slow_slopes(monkeypatch, model, 0.2)
    slow = certificate_reserve(model, 0.1)
    assert slow > fast + 0.2 * 2 * model.y.size  # a Hessian in two places
    runs = slow_slopes(monkeypatch, model, 0.2)
    assert certificate_reserve(model, 0.1) == slow and not runs  # measured once


def test_a_small_model_is_not_run_to_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    model = regression(100).model
    runs = slow_slopes(monkeypatch, model, 0.0)
    certificate_reserve(model, 0.1)
    assert model.g_grad not in runs
