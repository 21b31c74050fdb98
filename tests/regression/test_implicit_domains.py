"""Atoms that mean "infinite elsewhere", denominators that vanish, and answers at the edge of a range.

Each of these had a false claim, a wrong value, an exception or no answer.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import blomodel as bm


def followed(f, g, above, below, n_y=None):
    x = cp.Variable(name="x")
    y = cp.Variable(name="y") if n_y is None else cp.Variable(n_y, name="y")
    lower = bm.Lower(cp.Minimize(g(x, y)), below(x, y), variables=[y])
    return bm.BilevelProblem(cp.Minimize(f(x, y)), [x >= above[0], x <= above[1]], lower)


def tracked(f):
    return followed(f, lambda x, y: (y - x) ** 2, (-5, 5), lambda x, y: [y >= -1, y <= 4])


def least(phi, low, high):
    """By SciPy around the best point of a fine grid."""
    grid = np.geomspace(low, high, 4001)
    k = int(np.argmin([phi(x) for x in grid]))
    ends = grid[max(k - 1, 0)], grid[min(k + 1, 4000)]
    return minimize_scalar(phi, bounds=ends, method="bounded", options={"xatol": 1e-12}).fun


ABOVE = {
    "inv_pos": (lambda x, y: cp.inv_pos(y) + 0.5 * x, lambda t: 1 / t + 0.5 * t),
    "cube": (lambda x, y: y**-3 + 0.5 * x, lambda t: t**-3 + 0.5 * t),
    "square": (lambda x, y: y**-2 + 0.5 * x, lambda t: t**-2 + 0.5 * t),
    "quad_over_lin": (lambda x, y: cp.quad_over_lin(x - 1, y) + y, lambda t: (t - 1) ** 2 / t + t),
}


@pytest.mark.parametrize("name", ABOVE)
def test_no_value_beyond_a_pole_of_f(name):
    """The answer y = x passes through zero, beyond which cvxpy has these atoms infinite."""
    f, phi = ABOVE[name]
    problem = tracked(f)
    assert problem.solve() == pytest.approx(least(phi, 1e-3, 4), abs=1e-6)
    assert problem.status in ("optimal", "locally_optimal")
    refused = bm.certify(problem, x=-0.5, y=-0.5)
    assert not refused.accepted and "not defined" in refused.reasons[0]


BELOW = {
    "inv_pos": (lambda x, y: cp.inv_pos(y) + x * y, lambda x: x**-0.5),
    "quad_over_lin": (lambda x, y: cp.quad_over_lin(1, y) + x * y, lambda x: x**-0.5),
    "square": (lambda x, y: y**-2 + x * y, lambda x: (2 / x) ** (1 / 3)),
    "weighted": (lambda x, y: x * cp.inv_pos(y) + y, lambda x: x**0.5),
}


@pytest.mark.parametrize("name", BELOW)
def test_no_answer_beyond_a_pole_of_g(name):
    g, answer = BELOW[name]
    problem = followed(lambda x, y: (y - 1) ** 2 + 0.1 * x, g, (0.1, 20), lambda x, y: [y <= 6])
    truth = least(lambda x: (min(answer(x), 6.0) - 1) ** 2 + 0.1 * x, 0.1, 20)
    assert problem.solve() == pytest.approx(truth, abs=1e-6)
    assert problem.status in ("optimal", "locally_optimal")


def test_two_goods_that_need_each_other():
    def utility(x, y):
        return cp.inv_pos(y[0]) + 2 * cp.inv_pos(y[1])

    problem = followed(
        lambda x, y: -((x - 0.5) * y[0] + 0.2 * y[1]),
        utility,
        (0.1, 20),
        lambda x, y: [x * y[0] + y[1] <= 6],
        n_y=2,
    )

    def phi(x):  # y0 = 6 / (x + root(2 x)), y1 = root(2 x) y0
        first = 6 / (x + np.sqrt(2 * x))
        return -((x - 0.5) * first + 0.2 * np.sqrt(2 * x) * first)

    assert problem.solve() == pytest.approx(least(phi, 0.1, 20), abs=1e-5)


@pytest.mark.parametrize("rows", [lambda x, y: [], lambda x, y: [y >= 0]], ids=["free", "nonnegative"])
def test_harmonic_mean(rows):
    problem = followed(
        lambda x, y: -(x * y[0] - 0.1 * y[1]),
        lambda x, y: -cp.harmonic_mean(y),
        (0.2, 5),
        lambda x, y: [x * y[0] + y[1] <= 6, *rows(x, y)],
        n_y=2,
    )

    def phi(x):
        first = 6 / (x + np.sqrt(x))
        return -(x * first - 0.1 * np.sqrt(x) * first)

    assert problem.solve() == pytest.approx(least(phi, 0.2, 5), abs=1e-5)


def test_towards_a_pole_f_has_no_optimum():
    """x / y with y = x - 1 falls without limit; what a tolerance allows there is no optimum."""
    problem = followed(
        lambda x, y: x / y + 0.3 * y,
        lambda x, y: (y - x + 1) ** 2,
        (0.5, 5),
        lambda x, y: [y >= -1, y <= 4],
    )
    problem.solve()
    assert problem.status not in ("optimal", "locally_optimal", "stationary")
    assert problem.certificate is None or problem.certificate.bound is None


def test_answers_only_from_zero_on():
    """The lower level is unbounded for x < 0, and zero may be found as -1e-19."""
    problem = followed(lambda x, y: x + (y - 1) ** 2, lambda x, y: x * y, (-1, 1), lambda x, y: [y >= 0])
    assert problem.solve() == pytest.approx(0.0, abs=1e-9)
    assert problem.status == "optimal"


def test_a_value_that_the_tolerance_buys_is_exchanged_for_an_attainable_one():
    """A millionth of a lower gap hides 3e-4 of f; from the exact answer the search goes on."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Maximize(50 * cp.log(1 + y) - x * y), [y >= 0, y <= 1e4], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize((x - 0.01) * y), [x >= 1e-4, x <= 1e4], lower)
    truth = -least(lambda t: -(t - 0.01) * (50 / t - 1), 1e-2, 49)
    assert problem.solve() == pytest.approx(truth, rel=1e-7)
    assert y.value == pytest.approx(50 / x.value - 1, rel=1e-6)
    assert problem.status in ("optimal", "locally_optimal")


def test_nothing_is_said_of_how_cvxpy_states_powers(recwarn):
    problem = followed(
        lambda x, y: 0.1 * y[0] ** 2 - (x - 0.5) * y[0],
        lambda x, y: -2 * y[0] ** 0.3 - y[1] ** 0.3,
        (0.1, 20),
        lambda x, y: [x * y[0] + y[1] <= 6, y >= 0],
        n_y=2,
    )
    problem.solve(effort="quick")
    assert not [warning for warning in recwarn if "approximated" in str(warning.message)]
