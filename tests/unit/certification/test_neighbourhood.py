"""The tests of a neighbourhood, in all unknowns and in few of them, against brute force."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.factor import Factor


def kinked(n: int, weight: float, price: float) -> bm.BilevelProblem:
    """y = max(x, 0): at x = 0 every row is weakly active."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= 0], variables=[y])
    upper = cp.Minimize(cp.sum_squares(x) + weight * cp.sum(x) + price * cp.sum(y))
    return bm.BilevelProblem(upper, [x >= -1, x <= 1], lower)


@pytest.mark.parametrize("is_reduced", [True, False])
@pytest.mark.parametrize(("weight", "price"), [(2.0, -3.0), (4.0, -3.0), (-1.0, 0.5), (-1.0, 3.0)])
def test_both_forms_see_the_same_decrease(
    weight: float, price: float, is_reduced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 3
    problem, zero = kinked(n, weight, price), np.zeros(n)
    if not is_reduced:
        monkeypatch.setattr(Factor, "of", classmethod(lambda cls, matrix: None))
    certificate = bm.certify(problem, zero, zero)
    # Along dx = 1 f changes by weight + price for each entry, along dx = -1 by -weight.
    decrease = n * max(0.0, -weight - price, weight)
    steepness = 1 + max(abs(weight), abs(price))
    assert certificate.stationarity == pytest.approx(decrease / steepness, abs=1e-9)
    assert certificate.claim == ("feasible" if decrease else "locally_optimal")


def test_many_kinks_that_are_minima_together() -> None:
    """y = max(x, 0), f = |y - x/2| in effect: a minimum at the kink in each of 40 directions."""
    problem = kinked(40, -0.5, 1.0)
    assert bm.certify(problem, np.zeros(40), np.zeros(40)).claim == "locally_optimal"


def _random(seed: int) -> tuple[bm.BilevelProblem, int]:
    """A QP or logistic follower in two variables, an upper objective of any curvature."""
    r = np.random.default_rng(seed)
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    M, A, b = r.standard_normal((2, 2)), r.standard_normal((2, 2)), r.uniform(0.2, 1, 2)
    coupling = r.standard_normal((2, 2))
    if seed % 2:
        g = cp.sum_squares(M @ y - coupling @ x) + 0.3 * cp.sum_squares(y)
    else:
        g = cp.sum(cp.logistic(M @ y)) - (coupling @ x) @ y + 0.5 * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(g), [A @ y <= b, y >= -1], variables=[y])
    Q = r.standard_normal((4, 4))
    z = cp.hstack([x, y])
    f = 0.5 * cp.quad_form(z, cp.Constant((Q + Q.T) / 2), assume_PSD=False) + r.standard_normal(4) @ z
    return bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1], lower), 2


def _phi(problem: bm.BilevelProblem, x: np.ndarray) -> float:
    model = problem.plain_model
    answer = model.lower_program.solve(x, np.zeros(0), accuracy=1e-10)
    return float(model.f(x, answer.y, np.zeros(0))[0])


@pytest.mark.parametrize("seed", range(6))
def test_what_is_claimed_holds_around_the_point(seed: int) -> None:
    """The claim about a point that a search on phi ends at must fit its sampled neighbourhood."""
    problem, n = _random(seed)
    r = np.random.default_rng(seed)
    x, step = r.uniform(-0.8, 0.8, n), 0.5
    value = _phi(problem, x)
    while step > 1e-7:
        moves = [*np.eye(n), *-np.eye(n), *r.standard_normal((4, n))]
        trials = [np.clip(x + step * move, -1, 1) for move in moves]
        values = [_phi(problem, trial) for trial in trials]
        best = int(np.argmin(values))
        if values[best] < value - 1e-13:
            x, value = trials[best], values[best]
        else:
            step *= 0.5
    y = problem.plain_model.lower_program.solve(x, np.zeros(0), accuracy=1e-10).y
    right = bm.certify(problem, x, y)
    assert right.accepted
    away = np.clip(x + 0.2 * r.standard_normal(n), -1, 1)
    elsewhere = bm.certify(problem, away, problem.plain_model.lower_program.solve(away, np.zeros(0)).y)
    for certificate, at in ((right, x), (elsewhere, away)):
        if certificate.claim in ("locally_optimal", "optimal"):
            here = _phi(problem, at)
            for radius in (1e-1, 1e-2, 1e-3):
                near = [np.clip(at + radius * m, -1, 1) for m in r.uniform(-1, 1, (40, n))]
                lowest = min(_phi(problem, point) for point in near)
                if radius <= 1e-2:
                    assert lowest >= here - 2e-6 * (1 + abs(here))
