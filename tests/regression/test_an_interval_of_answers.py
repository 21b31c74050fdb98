"""Indifferent followers under a curved row: its multiplier is zero, up to a solver's rest."""

import cvxpy as cp
import pytest

import blomodel as bm


def test_the_leader_may_choose_from_an_interval():
    # At x = (-1/3, -2) the follower is indifferent about y[0], and the disc leaves it up to 2.53.
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = (0.6 * x[0] - 0.5 * x[1] - 0.8) * y[0] + (0.4 * x[0] - 1.2 * x[1] + 0.5) * y[1]
    middle = [1.75, 0.25]
    rows = [
        y >= [0, -1], y <= [3.5, 1.5], 0.6 * x[0] - 0.6 * x[1] - 2.2 * y[0] + 1.3 * y[1] <= -1,
        cp.sum_squares(y - middle) <= 1.3 + (0.2 * x[0] - 0.5 * x[1]) ** 2,
    ]  # fmt: skip
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    upper = cp.Minimize((0.8 * y[1] - 0.3 * y[0]) * x[0] + (1.1 * y[0] - 0.4 * y[1]) * x[1])
    problem = bm.BilevelProblem(upper, [x == [-1 / 3, -2]], lower)
    reach = 1.75 + (1.3 + (-0.2 / 3 + 1) ** 2 - 1.25**2) ** 0.5
    best = (-0.8 - 0.3 * reach) * (-1 / 3) + (1.1 * reach + 0.4) * -2
    certificate = bm.certify(problem, x=[-1 / 3, -2], y=[reach, -1])
    assert certificate.accepted
    assert problem.solve() == pytest.approx(best, abs=1e-4)
    assert problem.certificate.accepted
