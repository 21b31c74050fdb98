"""The lower level's multipliers in the upper level: prices, against grids and cvxpy's own duals."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors
from blomodel.reformulations.forms.cancelling import cancel_products

RIVAL_COSTS, CAPACITIES = np.array([4.0, 7.0, 9.0]), np.array([6.0, 3.0, 5.0, 5.0])


def bidding(demand):
    """A producer with cost 2 bids against three rivals; the market clears at least cost."""
    bid, sold = cp.Variable(name="bid"), cp.Variable(4, name="sold")
    balance = demand - cp.sum(sold) == 0
    market = bm.Lower(
        cp.Minimize(bid * sold[0] + RIVAL_COSTS @ sold[1:]),
        [balance, sold >= 0, sold <= CAPACITIES],
        variables=[sold],
    )
    price = market.multiplier(balance)
    problem = bm.BilevelProblem(cp.Maximize((price - 2) * sold[0]), [0 <= bid, bid <= 20], market)
    return problem, bid, sold, balance, price


@pytest.mark.parametrize(
    ("demand", "value"),
    # Just below a rival's cost the price is that cost, and the rivals below sell all they have.
    [
        (2.0, (4 - 2) * 2),
        (8.0, (7 - 2) * 5),
        (10.0, (7 - 2) * 6),
        (15.0, (9 - 2) * 6),
        (18.0, (20 - 2) * 5),  # the rivals cannot serve five units, so the highest bid is the price
    ],
)
def test_strategic_bidding_is_solved_to_proven_optimality(demand, value):
    problem, bid, sold, balance, price = bidding(demand)
    assert problem.solve() == pytest.approx(value, abs=1e-6)
    assert problem.status == bm.Status.OPTIMAL
    assert float(price.value) == pytest.approx(float(balance.dual_value), abs=1e-9)
    assert sold.value.sum() == pytest.approx(demand, abs=1e-7)
    assert (price.value - 2) * sold.value[0] == pytest.approx(value, abs=1e-6)


def test_bidding_against_a_grid_of_market_clearings():
    demand = 8.0
    problem, *_ = bidding(demand)
    value = problem.solve()
    sold, bid = cp.Variable(4), cp.Parameter(nonneg=True)
    balance = demand - cp.sum(sold) == 0
    clearing = cp.Problem(
        cp.Minimize(bid * sold[0] + RIVAL_COSTS @ sold[1:]), [balance, sold >= 0, sold <= CAPACITIES]
    )
    profits = []
    for bid.value in np.arange(0.05, 20, 0.5):  # away from ties, so that the price is unique
        clearing.solve(solver=cp.CLARABEL)
        profits.append((balance.dual_value - 2) * sold.value[0])
    assert max(profits) <= value + 1e-6
    assert max(profits) >= value - 5 * 0.5  # five units are sold at a price within one grid step


def test_quadratic_costs_against_a_grid():
    bid, sold = cp.Variable(name="bid"), cp.Variable(3, name="sold")

    def cost(sold, bid):
        own = bid * sold[0] + 0.5 * sold[0] ** 2
        return own + 3 * sold[1] + sold[1] ** 2 + 4 * sold[2] + 0.5 * sold[2] ** 2

    balance = 10 - cp.sum(sold) == 0
    market = bm.Lower(cp.Minimize(cost(sold, bid)), [balance, sold >= 0, sold <= 8], variables=[sold])
    price = market.multiplier(balance)
    profit = (price - 2) * sold[0] - 0.5 * sold[0] ** 2
    problem = bm.BilevelProblem(cp.Maximize(profit), [0 <= bid, bid <= 20], market)
    value = problem.solve()
    assert problem.status == bm.Status.OPTIMAL

    parameter, again = cp.Parameter(), cp.Variable(3)
    row = 10 - cp.sum(again) == 0
    clearing = cp.Problem(cp.Minimize(cost(again, parameter)), [row, again >= 0, again <= 8])
    profits = []
    for parameter.value in np.linspace(0, 20, 81):
        clearing.solve(solver=cp.CLARABEL)
        profits.append((row.dual_value - 2) * again.value[0] - 0.5 * again.value[0] ** 2)
    assert max(profits) <= value + 1e-6
    assert value - max(profits) < 0.05


def test_toll_on_one_of_two_roads():
    """Drivers split until both roads cost the same, which is the multiplier of the demand.

    With cost 1 + 2 y_1 + t on the first road and 3 + y_2 on the second, y_1 = (12 - t) / 3 for ten
    drivers, so the toll's revenue t (12 - t) / 3 is largest at t = 6, where each driver pays 11.
    """
    toll, drivers = cp.Variable(name="toll"), cp.Variable(2, name="drivers")
    everyone = 10 - cp.sum(drivers) == 0
    roads = bm.Lower(
        cp.Minimize((1 + toll) * drivers[0] + drivers[0] ** 2 + 3 * drivers[1] + 0.5 * drivers[1] ** 2),
        [everyone, drivers >= 0],
        variables=[drivers],
    )
    each_pays = roads.multiplier(everyone)
    free = bm.BilevelProblem(cp.Maximize(toll * drivers[0]), [0 <= toll, each_pays <= 100], roads)
    assert free.solve() == pytest.approx(12, abs=1e-6)
    assert toll.value == pytest.approx(6, abs=1e-4)
    assert each_pays.value == pytest.approx(11, abs=1e-4)
    # Nobody may pay more than 10: then 3 + y_2 = 10, y_1 = 3, t = 3.
    limited = bm.BilevelProblem(cp.Maximize(toll * drivers[0]), [0 <= toll, each_pays <= 10], roads)
    assert limited.solve() == pytest.approx(9, abs=1e-5)
    assert toll.value == pytest.approx(3, abs=1e-5)


def test_maximising_lower_level_has_a_nonnegative_shadow_price():
    """A consumer's 6a - a^2 + 4b - b^2 with a + b <= x has the shadow price 5 - x for 1 <= x <= 5."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    room = cp.sum(y) <= x
    consumer = bm.Lower(
        cp.Maximize(6 * y[0] - y[0] ** 2 + 4 * y[1] - y[1] ** 2), [room, y >= 0], variables=[y]
    )
    shadow = consumer.multiplier(room)
    problem = bm.BilevelProblem(cp.Maximize(shadow * x - x**2 / 2), [0 <= x, x <= 10], consumer)
    assert problem.solve() == pytest.approx(25 / 6, abs=1e-6)
    assert problem.status == bm.Status.OPTIMAL
    assert x.value == pytest.approx(5 / 3, abs=1e-5)
    assert shadow.value == pytest.approx(10 / 3, abs=1e-5)
    # The lower value is the consumer's own, not that of a level that holds multipliers too.
    a, b = y.value
    assert problem.certificate.lower_value == pytest.approx(6 * a - a**2 + 4 * b - b**2, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_multipliers_are_those_that_cvxpy_finds_at_the_same_x(seed):
    rng = np.random.default_rng(seed)
    n, m = 4, 3
    x, y = cp.Variable(2, name="x"), cp.Variable(n, nonneg=True, name="y")
    matrix, cross = rng.uniform(0.2, 1, (m, n)), rng.normal(size=(n, 2))
    root = rng.normal(size=(n, n))
    curvature = root @ root.T + np.eye(n)

    def level(x, y):
        objective = 0.5 * cp.quad_form(y, curvature) + (cross @ x - 3) @ y
        return objective, [matrix @ y <= 2 + x[0], y[0] + y[1] == x[1]]

    objective, constraints = level(x, y)
    lower = bm.Lower(cp.Minimize(objective), constraints, variables=[y])
    multipliers = [lower.multiplier(constraint) for constraint in constraints]
    wish = cp.sum_squares(multipliers[0] - 0.5) + (multipliers[1] + 1) ** 2 + 0.01 * cp.sum_squares(x)
    problem = bm.BilevelProblem(cp.Minimize(wish), [0 <= x, x <= 1], lower)
    problem.solve()
    assert problem.certificate.accepted
    again = cp.Variable(n, nonneg=True)
    objective, rows = level(x.value, again)
    cp.Problem(cp.Minimize(objective), rows).solve(solver=cp.CLARABEL)
    assert y.value == pytest.approx(again.value, abs=1e-4)
    for multiplier, row, constraint in zip(multipliers, rows, constraints, strict=True):
        assert multiplier.value == pytest.approx(row.dual_value, abs=1e-4)
        assert constraint.dual_value == pytest.approx(multiplier.value, abs=1e-9)


def test_upper_level_chooses_among_several_multipliers():
    """At x = 1 both rows of y >= 1, y >= x hold, and their multipliers only add up to 1."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    fixed, moving = y >= 1, y >= x
    lower = bm.Lower(cp.Minimize(y), [fixed, moving], variables=[y])
    wish = (lower.multiplier(fixed) - 0.3) ** 2 + (lower.multiplier(moving) - 0.7) ** 2
    problem = bm.BilevelProblem(cp.Minimize(wish), [0 <= x, x <= 2], lower)
    assert problem.solve() == pytest.approx(0, abs=1e-9)
    assert x.value == pytest.approx(1, abs=1e-6)


def test_coefficients_that_depend_on_x():
    """With x y_0 + y_1 >= 1 and costs 2 and 3 the price is min(2 / x, 3)."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    row = x * y[0] + y[1] >= 1
    lower = bm.Lower(cp.Minimize(2 * y[0] + 3 * y[1]), [row, y >= 0], variables=[y])
    price = lower.multiplier(row)
    objective = (price - 2.5) ** 2 + 0.1 * (x - 1) ** 2
    problem = bm.BilevelProblem(cp.Minimize(objective), [0.5 <= x, x <= 3], lower)
    grid = np.linspace(0.5, 3, 250001)
    best = np.min((np.minimum(2 / grid, 3) - 2.5) ** 2 + 0.1 * (grid - 1) ** 2)
    assert problem.solve() == pytest.approx(best, abs=1e-7)
    assert price.value == pytest.approx(2 / x.value, abs=1e-6)


def test_parameters_may_change_between_solves():
    demand = cp.Parameter(name="demand", value=8.0)
    problem, *_ = bidding(demand)
    assert problem.solve() == pytest.approx(25, abs=1e-6)
    demand.value = 2.0
    assert problem.solve() == pytest.approx(4, abs=1e-6)


def test_multipliers_of_several_followers():
    x = cp.Variable(name="x")
    followers, prices = [], []
    for cost in (1.0, 2.0):
        made = cp.Variable(name=f"made_{cost:g}")
        enough = made >= x
        follower = bm.Lower(cp.Minimize(cost * made + made**2), [enough], variables=[made])
        followers.append(follower)
        prices.append(follower.multiplier(enough))
    # Each price is cost + 2 x.
    problem = bm.BilevelProblem(cp.Minimize((sum(prices) - 9) ** 2), [0 <= x], followers)
    assert problem.solve() == pytest.approx(0, abs=1e-8)
    assert x.value == pytest.approx(1.5, abs=1e-5)
    assert [float(price.value) for price in prices] == pytest.approx([4, 5], abs=1e-4)


def test_what_is_added_to_cancel_products_vanishes_at_every_lower_answer():
    problem, *_ = bidding(8.0)
    model, p = problem.model, problem.parameter_values()
    zeros = np.zeros(model.x.size), np.zeros(model.y.size)
    hessian = model.f_hessian(*zeros, p)
    quadratic, linear = cancel_products(model, p, hessian)
    assert np.abs(hessian + quadratic).max() < 1e-12  # revenue has become linear
    assert np.abs(linear).max() > 1
    for bid in (0.5, 5.0, 7.5, 12.0):
        answer = model.lower_program.solve(np.array([bid]), p)
        z = np.append(bid, answer.y)
        assert 0.5 * z @ quadratic @ z + linear @ z == pytest.approx(0, abs=1e-6)


def test_rounding_leaves_no_curvature_where_products_cancel():
    draw = np.random.default_rng(2)
    bid, sold = cp.Variable(3, name="bid"), cp.Variable(8, name="sold")
    angle, ends = cp.Variable(6, name="angle"), draw.normal(size=(6, 9))
    stiffness = draw.uniform(1, 1e4, 9)
    balance = draw.uniform(1, 2, 6) + ends @ cp.multiply(stiffness, ends.T @ angle) == sold[:6]
    cost = bid @ sold[:3] + draw.uniform(1, 2, 5) @ sold[3:]
    market = bm.Lower(cp.Minimize(cost), [balance, sold >= 0, sold <= 9], variables=[sold, angle])
    price = market.multiplier(balance)
    profit = (price[:3] - 0.1) @ sold[:3]
    problem = bm.BilevelProblem(cp.Maximize(profit), [0 <= bid, bid <= 20], market)
    model, p = problem.model, problem.parameter_values()
    hessian = model.f_hessian(np.zeros(model.x.size), np.zeros(model.y.size), p)
    quadratic, _ = cancel_products(model, p, hessian)
    assert np.count_nonzero(hessian + quadratic) == 0


def test_a_wrong_multiplier_is_refused():
    problem, bid, sold, balance, price = bidding(8.0)
    problem.solve()
    values = {leaf: np.array(leaf.value) for leaf in problem.levels.lower}
    values[price] = values[price] + 1.0
    assert not bm.certify(problem, {bid: bid.value}, values).accepted


def test_a_point_of_ones_own_needs_only_the_prices_that_count():
    problem, bid, sold, balance, price = bidding(8.0)
    # At a bid of 5 the producer serves what the first rival leaves, and the bid is the price.
    right = {sold: [5.0, 3.0, 0.0, 0.0], price: 5.0}
    certificate = bm.certify(problem, {bid: 5.0}, right)
    assert certificate.accepted and certificate.objective == pytest.approx(15)
    assert bm.certify(problem, {bid: 5.0}, {sold: right[sold]}).objective == pytest.approx(15)
    assert not bm.certify(problem, {bid: 5.0}, {**right, price: 6.0}).accepted
    assert not bm.certify(problem, {bid: 5.0}, {sold: [6.0, 2.0, 0.0, 0.0], price: 5.0}).accepted


def test_the_level_is_left_alone_when_nobody_uses_the_multiplier():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    row = y >= x
    lower = bm.Lower(cp.Minimize(y), [row], variables=[y])
    lower.multiplier(row)
    assert bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [], lower).lower is lower


def test_explanation_tells_that_multipliers_are_used():
    problem, *_, price = bidding(8.0)
    assert any(variable is price for variable in problem.lower.variables)
    assert "multipliers in the answer" in str(problem.chain)
    assert "sold" in problem.structure["multipliers"].evidence


class TestMistakes:
    """What cannot be a multiplier says why."""

    def problem(self, objective, constraints, y, x, row):
        lower = bm.Lower(cp.Minimize(objective), constraints, variables=[y])
        return bm.BilevelProblem(cp.Minimize(x**2 + cp.sum(lower.multiplier(row))), [], lower)

    def test_constraint_of_another_level(self):
        y = cp.Variable(name="y")
        lower = bm.Lower(cp.Minimize(y**2), [y >= 1], variables=[y])
        with pytest.raises(errors.ModelError, match="no constraint of the lower level"):
            lower.multiplier(y >= 1)

    def test_multiplier_of_a_level_that_is_not_in_the_problem(self):
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        row = y >= x
        other = bm.Lower(cp.Minimize(y**2), [row], variables=[y])
        lower = bm.Lower(cp.Minimize(y**2), [row], variables=[y])
        with pytest.raises(errors.LevelError, match="not part of this problem"):
            bm.BilevelProblem(cp.Minimize(other.multiplier(row)), [], lower)

    def test_multiplier_inside_the_lower_level(self):
        x, y, z = cp.Variable(name="x"), cp.Variable(name="y"), cp.Variable(name="z")
        row = y >= x
        first = bm.Lower(cp.Minimize(y**2), [row], variables=[y])
        second = bm.Lower(cp.Minimize((z - first.multiplier(row)) ** 2), [], variables=[z])
        with pytest.raises(errors.LevelError, match="only the upper level can use"):
            bm.BilevelProblem(cp.Minimize(x**2 + z), [], [first, second])

    def test_curved_constraint(self):
        x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
        row = cp.sum_squares(y) <= x
        with pytest.raises(errors.ModelError, match="not affine in the lower variables"):
            self.problem(cp.sum(y), [row], y, x, row)

    def test_cone(self):
        y = cp.Variable((2, 2), symmetric=True, name="Y")
        row = y >> 0
        lower = bm.Lower(cp.Minimize(cp.trace(y)), [row], variables=[y])
        with pytest.raises(errors.ModelError, match="cone constraint"):
            lower.multiplier(row)

    def test_nonconvex_and_not_quadratic_objectives(self):
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        row = y >= x
        with pytest.raises(errors.ModelError, match="eigenvalue -2"):
            self.problem(-(y**2), [row, y <= 3], y, x, row)
        with pytest.raises(errors.ModelError, match="not quadratic"):
            self.problem(cp.exp(y), [row], y, x, row)
        with pytest.raises(errors.ModelError, match="quadratic part"):
            self.problem(cp.exp(x) * y**2, [row], y, x, row)


def test_names_of_multipliers_can_be_read() -> None:
    """By label, by what a short row says, by place and follower, or by how a long row begins."""
    y, matrix = cp.Variable(9, name="supply"), np.arange(81.0).reshape(9, 9)
    labelled, short, long = (
        matrix @ y == 0,
        y[0] <= 1,
        np.arange(9.0) + matrix @ y - matrix @ (2 * y) == 0,
    )
    labelled.set_label("balance")
    for name, last in (("lower level", "multiplier of '"), ("hour 3", "multiplier 3 of 'hour 3'")):
        level = bm.Lower(cp.Minimize(cp.sum(y)), [labelled, short, long], variables=[y], name=name)
        assert level.multiplier(labelled).name() == "multiplier of 'balance'"
        assert level.multiplier(short).name() == "multiplier of supply[0] <= 1"
        assert level.multiplier(long).name().startswith(last)
        assert len(level.multiplier(long).name()) < 60
