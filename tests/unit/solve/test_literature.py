"""Problems of the literature with their published solutions, solved without any setting."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def solve(n_x, n_y, build):
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    f, upper, g, below = build(x, y)
    lower = bm.Lower(cp.Minimize(g), below, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), upper, lower)
    problem.solve()
    assert problem.certificate.accepted
    return problem, x.value, y.value


def test_bard_1998_example_5_3_1():
    """Linear at both levels; Bard, Practical Bilevel Optimization, p. 208."""

    def build(x, y):
        f = -8 * x[0] - 4 * x[1] + 4 * y[0] - 40 * y[1] - 4 * y[2]
        g = x[0] + 2 * x[1] + y[0] + y[1] + 2 * y[2]
        below = [
            y >= 0,
            -y[0] + y[1] + y[2] <= 1,
            2 * x[0] - y[0] + 2 * y[1] - 0.5 * y[2] <= 1,
            2 * x[1] + 2 * y[0] - y[1] - 0.5 * y[2] <= 1,
        ]
        return f, [x >= 0], g, below

    problem, x, y = solve(2, 3, build)
    assert problem.value == pytest.approx(-29.2, abs=1e-6)
    np.testing.assert_allclose(x, [0, 0.9], atol=1e-6)
    np.testing.assert_allclose(y, [0, 0.6, 0.4], atol=1e-6)
    assert problem.status == "optimal"


def test_bard_1988_example_2():
    """Two producers; value -6600."""

    def build(x, y):
        first, second = y[0] + y[2], y[1] + y[3]
        f = -(200 - first) * first - (160 - second) * second
        g = (y[0] - 4) ** 2 + (y[1] - 13) ** 2 + (y[2] - 35) ** 2 + (y[3] - 2) ** 2
        upper = [cp.sum(x) <= 40, x <= np.array([10, 5, 15, 20]), x >= 0]
        below = [
            0.4 * y[0] + 0.7 * y[1] <= x[0],
            0.6 * y[0] + 0.3 * y[1] <= x[1],
            0.4 * y[2] + 0.7 * y[3] <= x[2],
            0.6 * y[2] + 0.3 * y[3] <= x[3],
            y >= 0,
            y <= np.array([20, 20, 40, 40]),
        ]
        return f, upper, g, below

    problem, x, _ = solve(4, 4, build)
    assert problem.value == pytest.approx(-6600, abs=1e-3)
    assert problem.status == "optimal"


def test_dempe_1992_without_slater_point():
    """At x = 0 the lower feasible set is a single point, and no multiplier exists."""

    def build(x, y):
        f = (x[0] - 3.5) ** 2 + (y[0] + 4) ** 2
        return f, [], (y[0] - 3) ** 2, [y[0] ** 2 <= x[0]]

    problem, x, _ = solve(1, 1, build)
    assert problem.value == pytest.approx(28.25, abs=1e-3)
    assert x[0] == pytest.approx(0.0, abs=1e-5)


def test_colson_bipa_5():
    """Convex lower level with exponential and fourth power in its constraints."""

    def build(x, y):
        f = (x[0] - y[1]) ** 4 + (y[0] - 1) ** 2 + (y[0] - y[1]) ** 2
        g = 2 * x[0] + cp.exp(y[0]) + y[0] ** 2 + 4 * y[0] + 2 * y[1] ** 2 - 6 * y[1]
        below = [
            6 * x[0] + y[0] ** 2 + cp.exp(y[1]) <= 15,
            5 * x[0] + y[0] ** 4 - y[1] <= 25,
            y <= np.array([4, 2]),
            y >= 0,
        ]
        return f, [x >= 0], g, below

    problem, x, _ = solve(1, 2, build)
    assert problem.value == pytest.approx(2.74977, abs=1e-4)
    assert x[0] == pytest.approx(1.94053, abs=1e-3)


def test_toll_setting():
    """A toll on the cheap road: the driver switches at 3, where the optimistic answer still pays."""

    def build(x, y):
        # Routes: tolled (cost 2 + toll) and free (cost 5); one unit of traffic.
        g = (2 + x[0]) * y[0] + 5 * y[1]
        return -x[0] * y[0], [x >= 0], g, [cp.sum(y) == 1, y >= 0]

    problem, x, _ = solve(1, 2, build)
    assert x[0] == pytest.approx(3.0, abs=1e-5)
    assert problem.status == "optimal"


def test_outrata_1994_quadratic_constraint():
    """Lower level whose Hessian and constraints depend on x; Outrata (1994), example 3.1."""

    def build(x, y):
        f = 0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2)
        g = 0.5 * (1 + 0.2 * x[0]) * y[0] ** 2 + 0.5 * (1 + 0.1 * x[0]) * y[1] ** 2
        g = g - (3 + 1.333 * x[0]) * y[0] - x[0] * y[1]
        below = [
            -0.333 * y[0] + y[1] + 0.1 * x[0] <= 1,
            y[0] ** 2 + y[1] ** 2 - 0.1 * x[0] <= 9,
            y >= 0,
        ]
        return f, [x <= 10, x >= 0], g, below

    problem, x, _ = solve(1, 2, build)
    assert problem.value == pytest.approx(3.2077, abs=1e-3)
    assert x[0] == pytest.approx(4.0604, abs=1e-2)


def test_mitsos_barton_3_8_exponential_in_x():
    """The lower slope x + exp(x) vanishes at one x only, and only there y = 0 is optimal."""

    def build(x, y):
        upper = [x >= -1, x <= 1, y >= -0.1, y <= 0.1]
        return y[0] ** 2, upper, x[0] * y[0] + cp.exp(x[0]) * y[0], [y >= -1, y <= 1]

    problem, x, y = solve(1, 1, build)
    assert x[0] == pytest.approx(-0.567143, abs=1e-4)
    assert y[0] == pytest.approx(0.0, abs=1e-5)


def test_stackelberg_duopoly_with_two_followers_as_one_potential():
    """Leader of a Cournot market; Siddiqui and Gabriel (2013): x = 6, y = (2, 2)."""

    def build(x, y):
        price = 13 - (y[0] + y[1] + x[0])
        f = -(price * x[0] - x[0])
        g = -(price * y[0] - y[0] + price * y[1] - y[1] + y[0] * y[1])
        return f, [x >= 0], g, [y >= 0]

    _, x, y = solve(1, 2, build)
    assert x[0] == pytest.approx(6.0, abs=1e-4)
    np.testing.assert_allclose(y, 2.0, atol=1e-4)
