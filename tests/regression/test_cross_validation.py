"""Cross-validation of a logistic regression: the value is one that exact lower answers have."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import blomodel as bm

FOLDS, SAMPLES, FEATURES = 4, 400, 6


def _data():
    draw = np.random.default_rng(0)
    X = draw.standard_normal((SAMPLES, FEATURES))
    side = np.where(
        X @ draw.standard_normal(FEATURES) + 2 * draw.standard_normal(SAMPLES) > 0, 1.0, -1.0
    )
    return X, side, draw.permutation(SAMPLES) % FOLDS


def _problem(X, side, fold):
    log_weight, followers, error = cp.Variable(name="log_weight"), [], 0
    for k in range(FOLDS):
        w, own, other = cp.Variable(FEATURES, name=f"w{k}"), fold != k, fold == k
        loss = cp.sum(cp.logistic(-cp.multiply(side[own], X[own] @ w))) / own.sum()
        fit = cp.Minimize(loss + cp.exp(log_weight) * cp.sum_squares(w) / 2)
        followers.append(bm.Lower(fit, variables=[w], name=f"fold {k}"))
        error += cp.sum(cp.logistic(-cp.multiply(side[other], X[other] @ w))) / SAMPLES
    return bm.BilevelProblem(cp.Minimize(error), [log_weight >= -9, log_weight <= 3], followers)


def _by_hand(X, side, fold, log_weight):
    total = 0.0
    for k in range(FOLDS):
        own, other = fold != k, fold == k

        def loss(w, own=own):
            margin = -side[own] * (X[own] @ w)
            slope = -(X[own].T @ (side[own] / (1 + np.exp(-margin)))) / own.sum()
            return (
                np.logaddexp(0, margin).mean() + np.exp(log_weight) * w @ w / 2,
                slope + np.exp(log_weight) * w,
            )

        w = minimize(loss, np.zeros(FEATURES), jac=True, method="BFGS", options={"gtol": 1e-10}).x
        total += np.logaddexp(0, -side[other] * (X[other] @ w)).sum() / SAMPLES
    return total


@pytest.mark.slow
def test_value_is_attained_and_best():
    data = _data()
    problem = _problem(*data)
    value = problem.solve(method="phi-descent")
    (log_weight,) = (v.value for v in problem.variables if v.name() == "log_weight")
    assert problem.status == "locally_optimal"
    assert abs(value - _by_hand(*data, float(log_weight))) <= 1e-8
    best = minimize_scalar(lambda at: _by_hand(*data, at), bounds=(-9, 3), method="bounded")
    assert value <= best.fun + 1e-7


def test_no_point_uses_up_the_tolerance(monkeypatch):
    """One start of the penalty: its end is the exact answer, not a y that the tolerance allows."""
    for name, value in {"FOLDS": 2, "SAMPLES": 40, "FEATURES": 2}.items():
        monkeypatch.setitem(globals(), name, value)
    data = _data()
    problem = _problem(*data)
    value = problem.solve(method="reduced-penalty")
    (log_weight,) = (v.value for v in problem.variables() if v.name() == "log_weight")
    assert abs(value - _by_hand(*data, float(log_weight))) <= 1e-8
