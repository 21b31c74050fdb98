"""What a large lower answer can lose, by the slope left: never less than what it does lose."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import blomodel as bm
from blomodel.certification.below.lower_check import check_lower
from blomodel.certification.below.slope_check import largest_loss, own_curvatures

M, N = 300, 700
NO_P = np.empty(0)


def training(kind: str) -> tuple[bm.BilevelProblem, cp.Variable]:
    """Losses with more features than samples, so that only what is added makes y unique."""
    random = np.random.default_rng(0)
    A = sp.random_array((M, N), density=0.4, format="csr", rng=random, data_sampler=random.normal)
    b = random.standard_normal(M)
    x, y = cp.Variable(name="x"), cp.Variable(N, name="y")
    added = {
        "lasso": x * cp.norm1(y),
        "elastic net": x * cp.norm1(y) + 0.01 * cp.sum_squares(y),
        "weighted ridge": cp.sum(cp.multiply(np.linspace(0.1, 1, N), cp.square(y))) * cp.exp(x),
        "free entry": cp.sum(cp.multiply(np.minimum(np.arange(N), 1.0), cp.abs(y))) * x,
    }[kind]
    g = cp.sum_squares(A @ y - b) / M + added
    if kind == "weighted ridge":
        g = cp.sum(cp.logistic(A @ y)) / M - cp.sum(y) / N + added
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= 0.01, x <= 1], lower), y


@pytest.mark.parametrize("kind", ["lasso", "elastic net", "weighted ridge"])
def test_the_loss_of_answers_that_are_off(kind: str) -> None:
    problem, _ = training(kind)
    model, x = problem.plain_model, np.array([0.02])
    answer, _ = model.solve_lower(x, NO_P, np.zeros(N), accuracy=1e-12)
    assert model.lower_program.is_for_products
    exact = largest_loss(model, NO_P, x, answer)
    assert exact is not None and 0 <= exact <= 1e-9
    random = np.random.default_rng(1)
    for size in (1e-1, 1e-3, 1e-5):
        y = answer.y + size * random.standard_normal(N) * (answer.y != 0)
        value = float(model.g(x, y, NO_P)[0])
        loss = largest_loss(model, NO_P, x, replace(answer, y=y, value=value))
        assert loss is not None and loss >= value - answer.value > 0


def test_squares_of_single_entries_are_read_off() -> None:
    problem, y = training("weighted ridge")
    model, x = problem.plain_model, np.array([0.02])
    weights = np.linspace(0.1, 1, N)
    part = cp.sum(cp.multiply(weights, cp.square(y))) * 2.0
    assert own_curvatures(model, NO_P, x, np.ones(N), part) == pytest.approx(4 * weights)
    meet = cp.square(y[0] - y[1]) + cp.square(y[2])
    assert not own_curvatures(model, NO_P, x, np.ones(N), meet).any()


@pytest.mark.parametrize("kind", ["lasso", "elastic net", "weighted ridge"])
def test_the_certificate_says_that_the_accuracy_is_proven(kind: str) -> None:
    problem, _ = training(kind)
    model, x = problem.plain_model, np.array([0.02])
    checked = check_lower(model, NO_P, x, np.zeros(N))
    assert checked.is_proven and "accuracy proven" in checked.checked_by


def test_an_entry_that_nothing_holds_leaves_an_estimate() -> None:
    problem, _ = training("free entry")
    model, x = problem.plain_model, np.array([0.02])
    assert model.lower_program.is_for_products
    checked = check_lower(model, NO_P, x, np.zeros(N))
    assert "estimated" in checked.checked_by
