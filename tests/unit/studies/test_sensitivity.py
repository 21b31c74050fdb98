"""Derivatives of the optimal value, against finite differences of fresh solves."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from tests.support.slow_cases import first_few


def differences(problem, parameter, step=1e-4, **settings):
    """Central differences of the optimal value, each from a solve of its own."""
    base = np.array(parameter.value, dtype=float)
    result = np.zeros(base.shape)
    for index in np.ndindex(base.shape):
        values = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * step
            parameter.value = moved
            values.append(problem.solve(**settings))
        result[index] = (values[0] - values[1]) / (2 * step)
    parameter.value = base
    return result


def check(problem, *parameters, tolerance=1e-6, **settings):
    problem.solve(**settings)
    sensitivity = problem.sensitivity()
    for parameter in parameters:
        assert parameter not in sensitivity.reasons, sensitivity.reasons[parameter]
        found = sensitivity[parameter]
        assert found.shape == parameter.shape
        assert found == pytest.approx(differences(problem, parameter, **settings), abs=tolerance)


@pytest.mark.parametrize("seed", first_few(range(3), 1))
def test_data_anywhere_in_a_bilevel_quadratic_program(seed):
    rng = np.random.default_rng(seed)
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    wish = cp.Parameter(2, name="wish", value=rng.normal(size=2))
    right = cp.Parameter(2, name="right", value=rng.uniform(0.5, 1.5, 2))
    cost = cp.Parameter(3, name="cost", value=rng.normal(size=3))
    budget = cp.Parameter(name="budget", value=0.7)
    rows, in_x, mixed = rng.normal(size=(2, 3)), rng.normal(size=(2, 2)), rng.normal(size=(3, 2))
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(y) + (mixed @ x + cost) @ y),
        [rows @ y <= right + in_x @ x],
        variables=[y],
    )
    objective = cp.sum_squares(x - wish) + cp.sum_squares(y - 1)
    problem = bm.BilevelProblem(cp.Minimize(objective), [cp.sum(x) <= budget], lower)
    check(problem, wish, right, cost, budget)


def test_maximising_upper_level():
    """The leader sells x at the price a - x - y to which the follower answers y = (a - x) / 2."""
    x, y, a = cp.Variable(name="x"), cp.Variable(name="y"), cp.Parameter(name="a", value=4.0)
    lower = bm.Lower(cp.Maximize((a - x - y) * y), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize((a - x - y) * x), [x >= 0], lower)
    assert problem.solve() == pytest.approx(4.0**2 / 8, abs=1e-6)
    assert float(problem.sensitivity()[a]) == pytest.approx(4.0 / 4, abs=1e-5)


def test_answer_where_two_pieces_meet():
    """With y = max(x - p, 0), -x + 3 y is least at the kink x = p, where it is -p."""
    x, y, p = cp.Variable(name="x"), cp.Variable(name="y"), cp.Parameter(name="p", value=0.4)
    lower = bm.Lower(cp.Minimize((y - (x - p)) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-x + 3 * y), [-5 <= x, x <= 5], lower)
    problem.solve()
    assert x.value == pytest.approx(0.4, abs=1e-6)
    assert float(problem.sensitivity()[p]) == pytest.approx(-1, abs=1e-6)


def test_functions_that_are_not_quadratic():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    rate = cp.Parameter(name="rate", value=0.6)
    lower = bm.Lower(
        cp.Minimize(cp.exp(rate * y[0]) + cp.exp(-y[0]) + (y[1] - x) ** 2 - x * y[0]),
        [cp.sum_squares(y) <= 1.5 * rate],
        variables=[y],
    )
    objective = (x - 1.5) ** 2 + (y[0] - 0.1) ** 2 + y[1]
    problem = bm.BilevelProblem(cp.Minimize(objective), [0 <= x, x <= 3], lower)
    check(problem, rate, tolerance=2e-4, n_starts=1)


def test_price_of_a_market_that_a_producer_moves():
    """The rivals serve 3 units below cost 7, so the profit is (7 - c) (d - 3)."""
    bid, sold = cp.Variable(name="bid"), cp.Variable(3, name="sold")
    demand = cp.Parameter(name="demand", value=8.0)
    cost = cp.Parameter(name="cost", value=2.0)
    balance = demand - cp.sum(sold) == 0
    market = bm.Lower(
        cp.Minimize(bid * sold[0] + 4 * sold[1] + 7 * sold[2]),
        [balance, sold >= 0, sold[1] <= 3],
        variables=[sold],
    )
    profit = (market.multiplier(balance) - cost) * sold[0]
    problem = bm.BilevelProblem(cp.Maximize(profit), [0 <= bid, bid <= 20], market)
    assert problem.solve() == pytest.approx(25, abs=1e-6)
    sensitivity = problem.sensitivity()
    assert float(sensitivity[demand]) == pytest.approx(5, abs=1e-6), sensitivity.reasons
    assert float(sensitivity[cost]) == pytest.approx(-5, abs=1e-6)


def test_parameter_that_does_not_matter_has_derivative_zero():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    loose = cp.Parameter(name="loose", value=50.0)
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= loose], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + y**2), [], lower)
    problem.solve()
    assert float(problem.sensitivity()[loose]) == 0.0


class TestNoDerivative:
    """Where the value has a kink, or nothing is known, there is a reason instead of a number."""

    def reason(self, problem, parameter, **settings):
        problem.solve(**settings)
        sensitivity = problem.sensitivity()
        assert sensitivity[parameter] is None
        assert parameter.name() in str(sensitivity)
        return sensitivity.reasons[parameter]

    def test_kink_in_the_upper_level(self):
        """The value is abs(p) at p = 0, while q enters without a kink."""
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        p, q = cp.Parameter(name="p", value=0.0), cp.Parameter(name="q", value=3.0)
        lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize(y + q), [x >= p, x >= -p], lower)
        assert "kink" in self.reason(problem, p)
        assert float(problem.sensitivity()[q]) == pytest.approx(1, abs=1e-9)

    def test_kink_in_the_lower_level(self):
        x, y, p = cp.Variable(name="x"), cp.Variable(name="y"), cp.Parameter(name="p", value=0.0)
        lower = bm.Lower(cp.Minimize(y), [y >= p, y >= -p, y >= x - 5], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [], lower)
        assert "multipliers are not unique" in self.reason(problem, p)

    def test_answer_that_is_not_isolated(self):
        x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
        p = cp.Parameter(name="p", value=1.0)
        lower = bm.Lower(cp.Minimize((y - x[0]) ** 2), [], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize((y + x[1] - p) ** 2), [-5 <= x, x <= 5], lower)
        assert "not isolated" in self.reason(problem, p)

    def test_matrix_constraint(self):
        x, y = cp.Variable(name="x"), cp.Variable((2, 2), symmetric=True, name="Y")
        p = cp.Parameter(name="p", value=1.0)
        lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x * np.eye(2))), [y >> p * np.eye(2)], [y])
        problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + cp.trace(y)), [0 <= x, x <= 3], lower)
        assert "matrix constraint" in self.reason(problem, p, n_starts=1)

    def test_no_answer(self):
        x, y, p = cp.Variable(name="x"), cp.Variable(name="y"), cp.Parameter(name="p", value=1.0)
        lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize(x**2), [y >= p, x <= 0], lower)
        assert "not known to be stationary" in self.reason(problem, p)
