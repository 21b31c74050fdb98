"""auto: when it stops, what it keeps, and that it says what it did."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods import auto
from blomodel.methods.parallel import Task
from blomodel.methods.run import Run


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


def scripted_search(values, bound=-np.inf):
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

    auto.search_until_agreement(Scripted(run), [(np.zeros(2), np.zeros(2))] * len(values))
    return run, asked


def test_agreement_ends_the_search():
    run, asked = scripted_search([5.0, 3.0] + [3.0] * 20)
    assert len(asked) == 1 + auto.ENOUGH_AGREEMENT
    assert run.best().value == 3.0
    assert any("ended at the best value" in note for note in run.notes)


def test_a_better_value_starts_the_count_again():
    values = [3.0] * (auto.ENOUGH_AGREEMENT - 1) + [2.0] * 20
    run, asked = scripted_search(values)
    assert len(asked) == 2 * auto.ENOUGH_AGREEMENT - 1
    assert run.best().value == 2.0


def test_a_bound_ends_the_search():
    _, asked = scripted_search([5.0, 4.0, 3.0, 2.0], bound=4.0)
    assert len(asked) == 2


def test_only_the_first_start_takes_its_time():
    _, asked = scripted_search([5.0, 4.0, 3.0])
    assert [task.is_first for task in asked] == [True, False, False]


def test_many_pairs_go_to_the_smoothed_lower_level():
    problem, x, _ = bilevel_qp(45)
    assert "smoothed lower level" in problem.explain()
    problem.solve()
    assert problem.certificate.accepted
    assert "mu" in problem.solution.history
    # Both the smoothed path alone and another seed of the restarts end at the same local solution.
    value, point = problem.value, x.value
    x.value = None
    problem.solve(seed=5)
    assert problem.value == pytest.approx(value, rel=1e-3)
    x.value = None
    problem.solve()
    assert problem.value == value
    assert np.array_equal(x.value, point)
