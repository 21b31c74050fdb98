"""Opposed levels whose lower one is not convex, against robust counterparts by hand."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def adversary(n: int, seed: int = 0) -> tuple[bm.BilevelProblem, cp.Variable, np.ndarray]:
    """A regression of one sample whose features an adversary moves within a box."""
    features = np.random.default_rng(seed).normal(size=n)
    w, d = cp.Variable(n, name="w"), cp.Variable(n, name="d")
    loss = cp.square(w @ (features + d) - 1) + 0.1 * cp.sum_squares(w)
    lower = bm.Lower(cp.Maximize(loss), [cp.abs(d) <= 0.2], variables=[d])
    return bm.BilevelProblem(cp.Minimize(loss), [], lower), w, features


@pytest.mark.parametrize("n", [3, 8])
def test_an_adversary_in_a_box_is_a_norm(n: int) -> None:
    problem, w, features = adversary(n)
    problem.solve()
    worst = cp.square(cp.abs(w @ features - 1) + 0.2 * cp.norm1(w)) + 0.1 * cp.sum_squares(w)
    truth = cp.Problem(cp.Minimize(worst)).solve(solver=cp.CLARABEL)
    assert problem.value == pytest.approx(truth, rel=1e-5)
    assert str(problem.status) == "optimal"
    assert "worst of the lower answers" in problem.certificate.bound_source
    assert problem.solution.bound <= truth + 1e-9


def test_each_sample_may_have_its_adversary() -> None:
    draw = np.random.default_rng(1)
    samples, w, followers, total = draw.normal(size=(4, 2)), cp.Variable(2, name="w"), [], 0
    target = samples @ np.array([1.0, -0.5])
    for i, sample in enumerate(samples):
        d = cp.Variable(2, name=f"d{i}")
        loss = cp.square(w @ (sample + d) - target[i])
        followers.append(bm.Lower(cp.Maximize(loss), [cp.abs(d) <= 0.1], variables=[d]))
        total += loss
    problem = bm.BilevelProblem(cp.Minimize(total), [], followers)
    problem.solve()
    worst = cp.sum(cp.square(cp.abs(samples @ w - target) + 0.1 * cp.norm1(w)))
    assert problem.value == pytest.approx(
        cp.Problem(cp.Minimize(worst)).solve(solver=cp.CLARABEL), rel=1e-5
    )
    assert str(problem.status) == "optimal"


def test_answers_that_x_may_forbid_are_no_cuts() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    loss = cp.square(y - 0.3) + x**2
    lower = bm.Lower(cp.Maximize(loss), [y <= 1 + x, y >= -1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(loss), [-1.5 <= x, x <= 1], lower)
    assert all(step.name != "worst cases" for step in problem.plan().steps)
    assert any("may be forbidden at another" in str(each) for each in problem.plan().omitted)
    problem.solve()
    # The follower goes to -1 or to 1 + x, whichever is farther from 0.3.
    at = np.linspace(-1.5, 1, 250_001)
    assert problem.value == pytest.approx(np.min(np.maximum(1.69, (0.7 + at) ** 2) + at**2), abs=1e-5)
