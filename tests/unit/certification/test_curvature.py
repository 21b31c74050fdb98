"""Large followers: the same claims as at small size, by a few sparse solves."""

from __future__ import annotations

import time
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import blomodel as bm
from blomodel.basics import limits
from blomodel.certification import curvature


def pricing(n: int) -> tuple[bm.BilevelProblem, np.ndarray, np.ndarray]:
    """One price, n customers that buy max(worth - price, 0), and the price at which all of them buy."""
    worth = np.linspace(2.0, 4.0, n)
    price, buy = cp.Variable(name="price"), cp.Variable(n, name="buy")
    gain = (worth - price * np.ones(n)) @ buy - cp.sum_squares(buy) / 2
    lower = bm.Lower(cp.Maximize(gain), [buy >= 0], variables=[buy])
    problem = bm.BilevelProblem(cp.Maximize(price * cp.sum(buy) / n), [price >= 0, price <= 4], lower)
    best = np.array([worth.mean() / 2])  # all buy at this price
    return problem, best, worth


@pytest.mark.parametrize("n", [3, 3000])
def test_one_price_for_many(n: int) -> None:
    problem, best, worth = pricing(n)
    began = time.process_time()
    right = bm.certify(problem, best, worth - best)
    assert time.process_time() - began < 10
    assert right.claim == "locally_optimal" and right.lower_is_unique
    wrong = bm.certify(problem, best + 0.1, worth - best - 0.1)
    assert wrong.claim == "feasible" and wrong.descent is not None and wrong.descent[0] < 0


@pytest.mark.parametrize("n", [2, 500])
def test_a_saddle_is_no_local_optimum(n: int) -> None:
    """f = |x|^2 - 2 y_1^2 with y = x curves downwards along x_1."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
    upper = cp.Minimize(cp.sum_squares(x) - 2 * cp.square(y[0]))
    problem = bm.BilevelProblem(upper, [x >= -1, x <= 1], lower)
    certificate = bm.certify(problem, np.zeros(n), np.zeros(n))
    assert certificate.claim == "stationary"
    assert certificate.descent is not None and np.argmax(np.abs(certificate.descent)) == 0


def test_equal_columns_at_their_bounds() -> None:
    """f = 1e-8 (x_1 + x_2) - 1e-8 x_1 x_2 rises from the origin in every direction that bounds leave."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
    f = 1e-8 * cp.sum(y) + (cp.square(y[0] - y[1]) - cp.square(y[0] + y[1])) * 2.5e-9
    problem = bm.BilevelProblem(cp.Minimize(1 + f * 100), [x >= 0, x <= 1], lower)
    assert bm.certify(problem, np.zeros(2), np.zeros(2)).claim == "locally_optimal"


def test_variables_without_effect_at_a_vertex() -> None:
    """The lower answer is y = x_2 at any weight exp(x_1), so that f is flat along x_1."""
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.exp(x[0]) * y), [y >= x[1]], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(y + 3)), [x >= -1, x <= 1], lower)
    assert bm.certify(problem, np.array([0.3, -1.0]), -1.0).stationarity < 1e-9
    assert bm.certify(problem, np.array([0.3, 0.0]), 0.0).claim == "feasible"


def test_one_matrix_holds_what_products_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many directions at once, and the same directions one by one, of a ridge regression."""
    draw = np.random.default_rng(0)
    n = 40
    A, B = draw.standard_normal((2, 90, n))
    a, b = A[:, 0] + draw.standard_normal(90), B[:, 0] + draw.standard_normal(90)
    x, w = cp.Variable(n, name="x"), cp.Variable(n, name="w")
    fit = cp.sum_squares(A @ w - a) / 180 + cp.exp(x) @ cp.square(w) / 2
    lower = bm.Lower(cp.Minimize(fit), variables=[w])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ w - b) / 90), [x >= -9, x <= 2], lower)
    seen = []
    judge = curvature._judge

    def keep(matrix: np.ndarray, *rest: object) -> curvature.Growth:
        seen.append(matrix)
        return judge(matrix, *rest)

    monkeypatch.setattr(curvature, "_judge", keep)
    monkeypatch.setattr(curvature, "IN_TURN", 0)
    problem.solve(method="phi-descent")
    assert problem.status == "locally_optimal"
    monkeypatch.setattr(curvature.Curvature, "within", lambda self, basis: None)
    bm.certify(problem, x.value, w.value)
    np.testing.assert_allclose(seen[0], seen[-1], atol=1e-7 * np.abs(seen[0]).max())


@pytest.mark.parametrize("largest", [3000, 20])
def test_a_basis_leaves_what_the_rows_leave(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds, rows that tie unknowns, and unknowns alone: SciPy's null space has the same size."""
    monkeypatch.setattr(curvature.limits, "CURVED_UNKNOWNS", limits.Limit(largest, "", ""))
    draw = np.random.default_rng(0)
    n = 40
    equal, rows = np.zeros((2, n)), np.zeros((9, n))
    equal[:, :6] = draw.standard_normal((2, 6))
    rows[:6, 4:10] = 2 * np.eye(6)  # bounds
    rows[6:, 8:14] = draw.standard_normal((3, 6))
    is_pressing = np.arange(9) != 1
    directions = SimpleNamespace(slope=np.zeros(n), equal=sp.csr_array(equal), rows=sp.csr_array(rows))
    basis = curvature._left(directions, is_pressing)
    assert sp.issparse(basis) == (n > largest)
    plain = basis.toarray() if sp.issparse(basis) else basis
    held = np.vstack([equal, rows[is_pressing]])
    assert plain.shape == scipy.linalg.null_space(held).shape
    assert np.abs(held @ plain).max() < 1e-12 and np.allclose(plain.T @ plain, np.eye(plain.shape[1]))
