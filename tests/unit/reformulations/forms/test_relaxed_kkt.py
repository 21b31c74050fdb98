"""Derivatives of the relaxed conditions against finite differences, and their rows at known answers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import blomodel as bm
from blomodel.reformulations.forms.relaxed_kkt import RelaxedKKT


def coupled(seed: int) -> bm.BilevelProblem:
    """Nonconvex above, smooth and convex below, with coupled rows, bounds and an equation."""
    r = np.random.default_rng(seed)
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    A = r.standard_normal((4, 3))
    g = cp.sum(cp.logistic(A @ y)) + cp.exp(x[0]) * cp.sum_squares(y) + x[1] * y[0]
    rows = [cp.sum_squares(y) <= 4 + x[1], y >= -1, cp.sum(y) == x[0]]
    f = cp.nlp.sin(x[0]) * y[0] + x[1] * y[1] + cp.sum_squares(x)
    return bm.BilevelProblem(
        cp.Minimize(f),
        [x >= -1, x <= 1, x[0] + y[2] <= 3],
        bm.Lower(cp.Minimize(g), rows, variables=[y]),
    )


def market() -> bm.BilevelProblem:
    """The upper level earns at the price, a multiplier of the lower level."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    balance = cp.sum(y) == 3
    lower = bm.Lower(
        cp.Minimize(x * y[0] + 2 * y[1] + cp.square(y[1])), [balance, y >= 0], variables=[y]
    )
    price = lower.multiplier(balance)
    return bm.BilevelProblem(cp.Minimize(price * y[0]), [x >= 0, x <= 9], lower)


def matrix(entries, *point):
    return sp.csr_array((entries.values(*point), (entries.rows, entries.columns)), shape=entries.shape)


@pytest.mark.parametrize("make", [lambda: coupled(0), lambda: coupled(1), market])
def test_derivatives_are_those_of_finite_differences(make):
    model = make().model
    form = RelaxedKKT(model, np.zeros(0))
    tape, program = form.program.functions, form.program
    r = np.random.default_rng(3)
    z, p = r.uniform(0.1, 0.9, form.size), np.zeros(0)
    weights = r.standard_normal(tape.n_outputs)
    jacobian = matrix(program.jacobian, z, p).toarray()
    triangle = matrix(program.hessian, z, p, weights).toarray()
    hessian = triangle + np.tril(triangle, -1).T
    for k, step in enumerate(1e-6 * np.eye(form.size)):
        slope = (tape(z + step, p) - tape(z - step, p)) / 2e-6
        assert slope == pytest.approx(jacobian[:, k], abs=1e-6)
        ahead, behind = matrix(program.jacobian, z + step, p), matrix(program.jacobian, z - step, p)
        assert weights @ (ahead - behind) / 2e-6 == pytest.approx(hessian[:, k], abs=1e-5)


def test_a_lower_answer_satisfies_all_rows():
    model = coupled(0).model
    form = RelaxedKKT(model, np.zeros(0))
    x, p = np.array([0.3, -0.2]), np.zeros(0)
    answer = model.lower_program.solve(x, p)
    z = form.join(x, answer.y, model.split_duals(answer.duals))
    rows = form.program.functions(z, p)[1:]
    assert np.all(rows <= form.program.high + 1e-6)
    assert np.all(rows >= form.program.low - 1e-6)
    assert form.split(z)[1] == pytest.approx(answer.y)
