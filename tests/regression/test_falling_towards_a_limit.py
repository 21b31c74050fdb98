"""A loss that falls for ever towards a limit is not without limit."""

import cvxpy as cp
import numpy as np

import blomodel as bm


def test_a_loss_above_zero_is_never_unbounded():
    draw = np.random.default_rng(0)
    features, target = draw.normal(size=(6, 2)), draw.normal(size=6)
    x, w = cp.Variable(6, name="x"), cp.Variable(2, name="w")
    weights = cp.multiply(cp.logistic(x), cp.square(features @ w - target))
    lower = bm.Lower(cp.Minimize(cp.sum(weights) + 0.1 * cp.sum_squares(w)), variables=[w])
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum_squares(features[:3] @ w - target[:3] - 1)), [], lower
    )
    problem.solve("implicit-cg", max_steps=200)
    assert problem.status != "unbounded"
    assert problem.certificate.bound >= 0
