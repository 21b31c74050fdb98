"""Many equal followers are compiled as one, and nothing of the answer changes."""

import cProfile
import time

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits

PRODUCTS = 3


def pricing(customers, quadratic=True):
    """One price a product; each customer is a follower."""
    random = np.random.default_rng(3)
    worth, factor = random.uniform(1, 10, (customers, PRODUCTS)), random.uniform(0.5, 2, customers)
    price, followers, revenue = cp.Variable(PRODUCTS, name="price"), [], 0
    for k in range(customers):
        buy = cp.Variable(PRODUCTS, name=f"buy{k}", nonneg=True)
        gain = (worth[k] - price) @ buy
        if quadratic:
            gain -= factor[k] * cp.sum_squares(buy)
        rows = [cp.sum(buy) <= 1 + k % 3]
        followers.append(bm.Lower(cp.Maximize(gain), rows, variables=[buy], name=f"customer {k}"))
        revenue += price @ buy
    return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 10], followers)


def _work(problem):
    """Instructions of the compiled functions, and constraints."""
    model = problem.model
    tapes = (model.f, model.g, model.f_grad, model.lagrangian_gradient, model.lower_in.tape)
    return sum(len(tape.nodes) for tape in tapes), len(model.lower_constraints)


def test_more_followers_are_no_more_instructions():
    assert _work(pricing(50)) == _work(pricing(20))


def test_few_followers_stay_apart():
    problem = pricing(5)
    assert "equal parts together" not in str(problem.chain)
    assert len(problem.model.lower_constraints) == 2 * 5


def test_the_functions_are_the_same(monkeypatch):
    together = pricing(20)
    together.plain_chain  # noqa: B018 - made before the limit moves
    monkeypatch.setattr(limits, "SEPARATE_PARTS", limits.Limit(10**9, "", ""))
    apart = pricing(20)
    assert len(apart.plain_model.lower_constraints) > len(together.plain_model.lower_constraints)
    random = np.random.default_rng(0)
    x, y, p = random.uniform(0, 10, PRODUCTS), random.uniform(0, 1, 20 * PRODUCTS), np.empty(0)
    models = [together.plain_model, apart.plain_model]
    for tapes in ([m.f for m in models], [m.g for m in models], [m.f_grad for m in models]):
        np.testing.assert_allclose(tapes[0](x, y, p), tapes[1](x, y, p), rtol=1e-12)
    rows = [np.sort(m.lower_in.values(x, y, p)) for m in models]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)
    np.testing.assert_allclose(models[0].y_bounds[0], models[1].y_bounds[0])


def test_multipliers_go_back_to_the_rows_that_were_stated():
    problem = pricing(20)
    problem.solve(method="phi-descent", max_iterations=2)
    price = problem.levels.upper[0].value
    for number, follower in enumerate(problem.followers):
        (buy,) = follower.variables
        own = cp.Variable(PRODUCTS, nonneg=True)
        random = np.random.default_rng(3)
        worth, factor = random.uniform(1, 10, (20, PRODUCTS)), random.uniform(0.5, 2, 20)
        row = cp.sum(own) <= 1 + number % 3
        gain = (worth[number] - price) @ own - factor[number] * cp.sum_squares(own)
        cp.Problem(cp.Maximize(gain), [row]).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(buy.value, own.value, atol=1e-5)
        found = follower.constraints[0].dual_value
        assert float(np.squeeze(found)) == pytest.approx(float(row.dual_value), abs=1e-3)


def test_rows_of_a_loop_are_one():
    x, y = cp.Variable(20, name="x"), cp.Variable(20, name="y")
    rows = [y[k] >= x[k] for k in range(20)]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y)), rows, variables=[y])
    upper = [x[k] <= 0.1 * k for k in range(20)]
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), upper, lower)
    assert len(problem.model.lower_constraints) == 1
    np.testing.assert_allclose(problem.model.x_bounds[1], 0.1 * np.arange(20))
    assert problem.solve() == pytest.approx(
        np.sum(np.minimum(0.1 * np.arange(20) - 1, 0) ** 2), abs=1e-5
    )
    duals = [0.0 if constraint.dual_value is None else constraint.dual_value for constraint in upper]
    np.testing.assert_allclose(duals[2:10], 2 * (1 - 0.1 * np.arange(2, 10)), atol=1e-3)


def test_named_rows_keep_their_names():
    y = cp.Variable(20, name="y")
    x = cp.Variable(name="x")
    rows = [(y[k] >= x).set_label(f"row {k}") for k in range(20)]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y)), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x >= 0, x <= 1], lower)
    assert len(problem.model.lower_constraints) == 20


def test_explain_at_size():
    problem = pricing(400, quadratic=False)
    began = time.process_time()
    text = problem.explain()
    assert time.process_time() - began < 8  # about 0.7 s on a quiet machine; one by one 5 s
    assert "equal parts together" in text and "'customer 0'" in text


def market(hours):
    """In each hour a seller names a price, and the price of the rest is a multiplier."""
    offer, followers, profit = cp.Variable(hours, name="offer"), [], 0
    for hour in range(hours):
        sold = cp.Variable(2, name=f"sold{hour}", nonneg=True)
        balance = cp.sum(sold) == 1 + hour / 10
        cost = offer[hour] * sold[0] + 3 * sold[1] + cp.sum_squares(sold)
        lower = bm.Lower(cp.Minimize(cost), [balance, sold <= 2], variables=[sold], name=f"hour {hour}")
        profit += -lower.multiplier(balance) * sold[0] - cp.square(offer[hour] - 1)
        followers.append(lower)
    return bm.BilevelProblem(cp.Maximize(profit), [offer >= 0, offer <= 6], followers)


def test_multipliers_in_the_answer_keep_their_rows(monkeypatch):
    together = market(16)
    together.plain_chain  # noqa: B018 - made before the limit moves
    monkeypatch.setattr(limits, "SEPARATE_PARTS", limits.Limit(10**9, "", ""))
    apart = market(16)
    one, other = together.plain_model.conditions, apart.plain_model.conditions
    assert len(together.plain_model.lower_constraints) < len(apart.plain_model.lower_constraints)
    random = np.random.default_rng(0)
    model = apart.plain_model
    x, y = random.uniform(0, 6, model.x.size), random.uniform(0, 1, model.y.size)
    products = []
    for conditions in (one, other):
        rows = conditions.model.lower_in.values(x, y, np.empty(0))[conditions.rows]
        products.append(np.sort(rows * y[conditions.columns - model.x.size]))
    np.testing.assert_allclose(products[0], products[1], atol=1e-12)
    total = sum(together.plain_model.g(x, y, np.empty(0)) - model.g(x, y, np.empty(0)))
    assert total == pytest.approx(0.0, abs=1e-9)


def counted_calls(work):
    """How many functions of Python and C some work calls: the same on every machine."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(each.callcount for each in profile.getstats())


def test_a_further_follower_costs_little_to_put_together():
    pricing(20).plain_chain  # noqa: B018 - what the first problem imports is not counted
    problems = pricing(40), pricing(240)
    few, many = (counted_calls(lambda problem=problem: problem.plain_chain) for problem in problems)
    assert (many - few) / 200 < 1000  # 1,900 where each follower is rewritten and bounded alone


def test_bounds_of_many_variables_are_one_row():
    x = cp.Variable(name="x")
    sizes = [cp.Variable(2, bounds=[k, k + 1], name=f"y{k}") for k in range(20)]
    matrix = cp.Variable((2, 2), nonneg=True, name="matrix")
    objective = sum(cp.sum_squares(y - x) for y in sizes) + cp.sum_squares(matrix - x)
    lower = bm.Lower(cp.Minimize(objective), variables=[*sizes, matrix])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [x >= -1, x <= 1], lower)
    low, high = problem.model.y_bounds
    np.testing.assert_array_equal(low, [*np.repeat(np.arange(20.0), 2), *np.zeros(4)])
    np.testing.assert_array_equal(high, [*np.repeat(np.arange(1.0, 21.0), 2), *np.full(4, np.inf)])
    assert len(problem.model.lower_constraints) == 3
