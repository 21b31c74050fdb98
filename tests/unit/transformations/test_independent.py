"""Problems that consist of several: groups, models of the parts, and what they add up to."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.transformations.independent import independent_parts

TARGETS = np.array([[0.5, 2.0], [1.5, -1.0], [3.0, 0.7]])


def rows_apart(n_shared: int = 0) -> bm.BilevelProblem:
    """A follower for each row of x, written with matrices; ``n_shared`` adds a tie between rows."""
    x = cp.Variable((3, 2), name="x")
    y = cp.Variable((3, 2), nonneg=True, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [cp.sum(y, axis=1) <= 2], variables=[y])
    f = cp.sum_squares(y - TARGETS) + 0.1 * cp.sum(cp.multiply(x, x))
    tie = [cp.sum(x) <= 50] if n_shared else []
    return bm.BilevelProblem(cp.Minimize(f), [-4 <= x, x <= 4, *tie], lower)


def market(hours: int) -> bm.BilevelProblem:
    """Hours with a price each, which is a multiplier of the lower level."""
    markup, followers, profit = cp.Variable(hours, name="markup"), [], 0
    for h in range(hours):
        supply = cp.Variable(2, nonneg=True, name=f"supply{h}")
        balance = 8 + h - cp.sum(supply) == 0
        cost = (1 + markup[h]) * supply[0] + 3 * supply[1]
        follower = bm.Lower(
            cp.Minimize(cost), [balance, supply <= 10], variables=[supply], name=f"hour {h}"
        )
        profit += (follower.multiplier(balance) - 1) * supply[0]
        followers.append(follower)
    return bm.BilevelProblem(cp.Maximize(profit), [markup >= 0, markup <= 5], followers)


@pytest.mark.parametrize(
    ("problem", "count"), [(rows_apart(), 3), (market(3), 3)], ids=["rows", "hours"]
)
def test_functions_of_the_parts_add_up(problem: bm.BilevelProblem, count: int) -> None:
    model, p = problem.model, problem.parameter_values()
    parts = independent_parts(model)
    assert len(parts) == count
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=model.x.size), draw.normal(size=model.y.size)
    assert sorted(np.concatenate([part.x for part in parts])) == list(range(x.size))
    assert sorted(np.concatenate([part.y for part in parts])) == list(range(y.size))
    for name in ("f", "g"):
        terms = [getattr(part.model, name)(x[part.x], y[part.y], p)[0] for part in parts]
        assert sum(terms) == pytest.approx(getattr(model, name)(x, y, p)[0])
    for name in ("upper_in", "upper_eq", "lower_in", "lower_eq"):
        rows = [getattr(part.model, name).values(x[part.x], y[part.y], p) for part in parts]
        whole = getattr(model, name).values(x, y, p)
        assert np.sort(np.concatenate(rows)) == pytest.approx(np.sort(whole))


def test_one_row_over_all_makes_it_one_problem() -> None:
    assert not independent_parts(rows_apart(n_shared=1).model)


def test_cones_stay_whole() -> None:
    x, y, z = cp.Variable(2, name="x"), cp.Variable(2, name="y"), cp.Variable(2, name="z")
    rows = [cp.SOC(1.0 + 0 * y[0], y), cp.SOC(cp.Constant(1.0), z)]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x[0]) + cp.sum_squares(z - x[1])), rows, [y, z])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y) + cp.sum(z) + cp.sum_squares(x)), [], lower)
    parts = independent_parts(problem.model)
    assert [part.y.tolist() for part in parts] == [[0, 1], [2, 3]]


def test_groups_without_x_are_one_group() -> None:
    x, y, z = cp.Variable(name="x"), cp.Variable(name="y"), cp.Variable(3, name="z")
    g = cp.square(y - x) + cp.sum_squares(z - 1)
    lower = bm.Lower(cp.Minimize(g), variables=[y, z])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(y - 2) + x**2 + cp.sum(z)), [], lower)
    parts = independent_parts(problem.model)
    assert [(part.x.size, part.y.size) for part in parts] == [(1, 1), (0, 3)]
    assert problem.solve() == pytest.approx(5.0, abs=1e-6)  # x = y = 1, z = 1
    assert str(problem.status) == "optimal"
