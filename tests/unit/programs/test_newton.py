"""Newton's method for smooth free lower levels: steps by conjugate gradients and by a factor."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.compiler.passes.entries import jacobian_entries
from blomodel.programs import newton
from blomodel.programs.newton import NewtonMinimiser


def minimiser(weight: float = 0.1) -> tuple[NewtonMinimiser, np.ndarray]:
    draw = np.random.default_rng(3)
    data, x, w = draw.standard_normal((300, 12)), cp.Variable(12, name="x"), cp.Variable(12, name="w")
    g = cp.sum(cp.logistic(data @ w)) + weight * cp.exp(x) @ cp.square(w) + x @ w
    lower = bm.Lower(cp.Minimize(g), variables=[w])
    model = bm.BilevelProblem(cp.Minimize(cp.sum_squares(w - 1)), [x >= -1, x <= 1], lower).model
    lagrangian = model.lower_program.lagrangian
    return NewtonMinimiser(lagrangian.terms, lagrangian.terms_grad_y), data


def test_both_kinds_of_step_come_to_the_same_answer(monkeypatch):
    x, nothing, one = np.linspace(-1, 1, 12), np.zeros(0), np.ones(1)
    by_products, _ = minimiser()
    monkeypatch.setattr(newton.scipy.linalg.lapack, "dpotrf", None)  # no factor is asked for yet
    first = by_products.solve(x, nothing, one, False, 1e-10)
    monkeypatch.undo()

    by_factor, _ = minimiser()
    slope = by_factor._slope
    slope.derivatives["entries", ("y",)] = jacobian_entries(slope, ("y",))
    monkeypatch.setattr(newton, "cg", None)  # nor a single product
    second = by_factor.solve(x, nothing, one, False, 1e-10)
    assert second.value == pytest.approx(first.value, rel=1e-12)
    assert second.y == pytest.approx(first.y, abs=1e-7)
    assert np.abs(slope(x, second.y, nothing, one)).max() < 1e-8


def test_a_singular_hessian_is_left_to_conjugate_gradients(monkeypatch):
    """Where a matrix has no factor the step is found all the same."""
    x, nothing, one = np.zeros(12), np.zeros(0), np.ones(1)
    program, _ = minimiser()
    slope = program._slope
    slope.derivatives["entries", ("y",)] = jacobian_entries(slope, ("y",))
    wanted = program.solve(x, nothing, one, False, 1e-10)
    monkeypatch.setattr(newton.scipy.linalg.lapack, "dpotrf", lambda matrix, lower: (matrix, 1))
    found = program.solve(x + 0.0, nothing, one, False, 1e-10)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
