"""phi-descent against SciPy with implicit gradients by hand, and against known answers."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize, nnls

import blomodel as bm
from blomodel.errors import ModelError

DRAW = np.random.default_rng(3)
A, B = DRAW.standard_normal((30, 6)), DRAW.standard_normal((20, 6))
TRUTH = np.array([2.0, -1, 0, 0, 0.5, 0])
C, D = A @ TRUTH + DRAW.standard_normal(30), B @ TRUTH + DRAW.standard_normal(20)


def test_weights_of_a_ridge_regression_are_those_of_scipy():
    x, w = cp.Variable(6, name="x"), cp.Variable(6, name="w")
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(A @ w - C) / 2 + cp.exp(x) @ cp.square(w) / 2), variables=[w]
    )
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ w - D)), [x >= -5, x <= 5], lower)
    x.value = np.zeros(6)
    problem.solve(method="phi-descent")

    def by_hand(x):
        hessian = A.T @ A + np.diag(np.exp(x))
        w = np.linalg.solve(hessian, A.T @ C)
        u = np.linalg.solve(hessian, 2 * B.T @ (B @ w - D))
        return np.sum((B @ w - D) ** 2), -np.exp(x) * w * u

    found = minimize(by_hand, np.zeros(6), jac=True, method="L-BFGS-B", bounds=[(-5, 5)] * 6, tol=1e-12)
    assert problem.value == pytest.approx(found.fun, rel=1e-7)
    assert problem.certificate.accepted


def test_prices_for_customers_with_kinks_are_those_of_a_grid():
    worth, weight = DRAW.uniform(1, 10, (6, 2)), DRAW.uniform(1, 5, 6)
    roots = [np.linalg.cholesky(m @ m.T + np.eye(2)) for m in DRAW.standard_normal((6, 2, 2))]
    p, revenue, followers = cp.Variable(2, name="p"), 0, []
    for k, root in enumerate(roots):
        z = cp.Variable(2, name=f"z{k}", nonneg=True)
        gain = (worth[k] - p) @ z - cp.sum_squares(root.T @ z) / 2
        followers.append(bm.Lower(cp.Maximize(gain), variables=[z]))
        revenue += weight[k] * (p @ z)
    problem = bm.BilevelProblem(cp.Maximize(revenue), [p >= 0, p <= 10], followers)
    problem.solve(method="phi-descent", n_starts=4)

    def at(price):
        bought = [
            nnls(root.T, np.linalg.solve(root, worth[k] - price))[0] for k, root in enumerate(roots)
        ]
        return sum(w * (price @ z) for w, z in zip(weight, bought, strict=True))

    best = max(at(np.array(pair)) for pair in np.ndindex(21, 21) for pair in [np.array(pair) / 2])
    assert problem.value >= best
    assert problem.value == pytest.approx(at(p.value), rel=1e-7)


def test_a_minimum_on_a_kink_is_found_exactly():
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    # y = max(x, 0): f = |x1 - x2|-like kinks meet at the origin of the optimum.
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= 0], variables=[y])
    upper = cp.Minimize(3 * cp.sum(y) - x[0] - 2 * x[1] + 0.01 * cp.sum_squares(x))
    problem = bm.BilevelProblem(upper, [x >= -4, x <= 4], lower)
    x.value = np.array([1.7, -2.9])
    problem.solve(method="phi-descent")
    assert problem.value == pytest.approx(0.0, abs=1e-7)  # 2 x - 3 max(x, 0) peaks at zero
    assert x.value == pytest.approx([0.0, 0.0], abs=1e-5)


def test_y_is_the_lower_answer_itself():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.exp(y) - x * y), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + 0.1 * x), [x >= 0.5, x <= 10], lower)
    problem.solve(method="phi-descent")
    assert y.value == pytest.approx(np.log(x.value), abs=1e-9)


@pytest.mark.parametrize("what", ["coupled above", "multipliers above"])
def test_what_it_cannot_take_is_refused_with_a_reason(what):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    row = y >= 1
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [row], variables=[y])
    rows, upper = [x >= 0, x <= 3], y**2
    if what == "coupled above":
        rows.append(x + y <= 2)
    else:
        upper = upper + lower.multiplier(row)
    problem = bm.BilevelProblem(cp.Minimize(upper), rows, lower)
    with pytest.raises(ModelError, match="phi-descent"):
        problem.solve(method="phi-descent")
