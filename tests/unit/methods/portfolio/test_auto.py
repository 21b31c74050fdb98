"""auto: when it stops, what it keeps, and that it says what it did."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio import start_search
from blomodel.methods.run.parallel import Task
from blomodel.methods.run.run import Run


def bilevel_qp(n, seed=0):
    """Random coupled QP, large enough that no tree is tried."""
    draw = np.random.default_rng(seed)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A, B, C = (draw.standard_normal((n, n)) / np.sqrt(n) for _ in range(3))
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(y) + (C @ x + draw.standard_normal(n)) @ y),
        [A @ y <= draw.uniform(0.2, 1.0, n) + 0.3 * B @ x],
        variables=[y],
    )
    wish = draw.standard_normal((2, n))
    upper = cp.sum_squares(x - wish[0]) + cp.sum_squares(y - wish[1])
    return bm.BilevelProblem(cp.Minimize(upper), [-5 <= x, x <= 5], lower), x, y


def scripted_search(values, bound=-np.inf, is_confirmed=lambda run: False):
    """Starts that end at the given values, without any search; returns what was asked for."""
    problem, _, _ = bilevel_qp(2)
    run = Run(problem.model, np.zeros(0), None, 1e-6, 0)
    run.bound = bound
    asked = []

    class Scripted:
        def __init__(self, run):
            self.run = run

        def __call__(self, task: Task) -> float:
            value = values[len(asked)]
            asked.append(task)
            point = run.measure(np.zeros(2), np.zeros(2), "script")
            run.keep(type(point)(point.x, point.y, value, 0.0, 0.0, 0.0, "script"))
            return value

    starts = [(np.zeros(2), np.zeros(2))] * len(values)
    start_search.search_until_agreement(Scripted(run), starts, is_confirmed)
    return run, asked


def test_agreement_ends_the_search():
    run, asked = scripted_search([5.0, 3.0] + [3.0] * 20)
    assert len(asked) == 1 + start_search.ENOUGH_AGREEMENT
    assert run.best().value == 3.0
    assert any("ended at the best value" in note for note in run.notes)


def test_where_another_kind_of_search_agrees_a_start_that_brings_nothing_is_the_last():
    run, asked = scripted_search([5.0, 3.0] + [4.0] * 20, is_confirmed=lambda run: True)
    assert len(asked) == 1 + start_search.CONFIRMED_STARTS
    assert run.best().value == 3.0
    assert any("two kinds of search" in note for note in run.notes)
    _, asked = scripted_search([3.0] * 20, is_confirmed=lambda run: True)
    assert len(asked) == start_search.CONFIRMED_STARTS


def test_a_better_value_starts_the_count_again():
    values = [3.0] * (start_search.ENOUGH_AGREEMENT - 1) + [2.0] * 20
    run, asked = scripted_search(values)
    assert len(asked) == 2 * start_search.ENOUGH_AGREEMENT - 1
    assert run.best().value == 2.0


def test_a_bound_ends_the_search():
    _, asked = scripted_search([5.0, 4.0, 3.0, 2.0], bound=4.0)
    assert len(asked) == 2


def test_only_the_first_start_takes_its_time():
    _, asked = scripted_search([5.0, 4.0, 3.0])
    assert [task.is_first for task in asked] == [True, False, False]


def test_many_pairs_are_proven_by_the_tree():
    problem, x, _ = bilevel_qp(45)
    assert "smoothed lower level" in problem.explain()
    problem.solve()
    assert problem.status == "optimal"
    value, point = problem.value, x.value
    x.value = None
    problem.solve(seed=5)
    assert problem.value == pytest.approx(value, rel=1e-6)
    x.value = None
    problem.solve()
    assert problem.value == value
    assert np.array_equal(x.value, point)


def weighted_lasso(n):
    """(20) of the MEHA paper: at small penalty weights, x = 0 pleases F_gamma wherever it starts."""
    v = np.repeat([1.0, -1.0], n // 2) / n
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.sum_squares(y - v) + cp.sum(cp.multiply(x, cp.abs(y)))
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum(y)), [0 <= x, x <= 1], bm.Lower(cp.Minimize(g), variables=[y])
    )
    return problem, y, np.minimum(v, 0)


@pytest.mark.parametrize("n", [2, 30, *(pytest.param(n, marks=pytest.mark.slow) for n in (300, 1000))])
def test_weights_of_a_lasso_of_any_size(n):
    problem, y, solution = weighted_lasso(n)
    problem.solve()
    assert np.linalg.norm(y.value - solution) <= 1e-6 * np.linalg.norm(solution)
    assert problem.certificate.accepted
    # A path stands still at small penalty weights, and a step on the pieces that does not pay is not
    # tried again and again.
    assert problem.solution.iterations <= 60


def group_lasso(m, n_groups, n_samples, seed=0):
    """One weight for each group above, training and validation data of one linear model."""
    draw = np.random.default_rng(seed)
    size = m // n_groups
    truth = np.repeat(np.arange(n_groups) % 3 == 0, size).astype(float)
    features = draw.standard_normal((2, n_samples, m))
    labels = features @ truth + draw.standard_normal((2, n_samples))
    x, y = cp.Variable(n_groups, name="x"), cp.Variable(m, name="y")
    groups = sum(x[i] * cp.norm(y[i * size : (i + 1) * size], 2) for i in range(n_groups))
    lower = cp.Minimize(0.5 * cp.sum_squares(labels[0] - features[0] @ y) + groups)
    upper = cp.Minimize(0.5 * cp.sum_squares(labels[1] - features[1] @ y))
    return bm.BilevelProblem(upper, [x >= 0, x <= 50], bm.Lower(lower, variables=[y])), x, y


@pytest.mark.slow
def test_norms_go_to_the_single_loop_and_end_no_worse_than_the_penalty():
    problem, x, y = group_lasso(12, 6, 15)
    loop = next(step for step in problem.plan().steps if step.name == "single loop of meha")
    assert loop.text.startswith("from 6 starts")
    found = problem.solve()
    assert problem.certificate.accepted
    x.value = y.value = None
    # The lower gap that the penalty leaves buys it a thousandth of the value.
    assert found <= 1.01 * problem.solve("reduced-penalty")


def test_norms_with_more_features_than_data_are_proved_optimal():
    problem, x, y = group_lasso(60, 6, 20)
    assert problem.solve() == pytest.approx(0.0, abs=1e-9)
    assert problem.status == "optimal"


def test_coupled_norms_stay_with_the_reduced_penalty():
    problem, x, y = group_lasso(12, 3, 8)
    coupled = bm.BilevelProblem(problem.objective, [*problem.constraints, y[0] <= x[0]], problem.lower)
    assert "reduced penalty" in {step.name for step in coupled.plan().steps}
    assert "single loop of meha" in {omission.step for omission in coupled.plan().omitted}
