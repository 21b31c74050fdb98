"""Lines of answers against all answers of all customers, one linear program for each."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import blomodel as bm
from blomodel.methods.run.run import Run
from blomodel.methods.search.answer_lines import AnswerLines, why_not

CUSTOMERS, PRODUCTS, HIGHEST = 5, 2, 10.0


def shop(seed: int) -> tuple[bm.BilevelProblem, np.ndarray, np.ndarray]:
    """Each customer takes the product that is worth most to it beyond its price, or nothing."""
    draw = np.random.default_rng(seed)
    worth = np.round(draw.uniform(1, 10, (CUSTOMERS, PRODUCTS)), 1)
    weight = np.round(draw.uniform(1, 5, CUSTOMERS), 1)
    price, take = cp.Variable(PRODUCTS, name="price"), cp.Variable((CUSTOMERS, PRODUCTS), nonneg=True)
    prices = np.ones((CUSTOMERS, 1)) @ cp.reshape(price, (1, PRODUCTS), order="F")
    gain = cp.sum(cp.multiply(worth - prices, take))
    lower = bm.Lower(cp.Maximize(gain), [cp.sum(take, axis=1) <= 1], variables=[take])
    revenue = cp.sum(weight @ cp.multiply(prices, take))
    problem = bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= HIGHEST], lower)
    return problem, worth, weight


def best_revenue(worth: np.ndarray, weight: np.ndarray) -> float:
    """The best prices for each list of choices that customers may make, by linear programs."""
    best = 0.0
    for choice in itertools.product(range(PRODUCTS + 1), repeat=CUSTOMERS):
        rows, limits, gain = [], [], np.zeros(PRODUCTS)
        for k, taken in enumerate(choice):
            for other in range(PRODUCTS + 1):
                # worth - price of what is taken is no less; the last choice is to take nothing.
                row, limit = np.zeros(PRODUCTS), 0.0
                if taken < PRODUCTS:
                    row[taken] += 1
                    limit += worth[k, taken]
                if other < PRODUCTS:
                    row[other] -= 1
                    limit -= worth[k, other]
                rows.append(row)
                limits.append(limit)
            if taken < PRODUCTS:
                gain[taken] += weight[k]
        found = linprog(-gain, A_ub=rows, b_ub=limits, bounds=[(0, HIGHEST)] * PRODUCTS)
        if found.success:
            best = max(best, -found.fun)
    return best


def lines_of(problem: bm.BilevelProblem) -> AnswerLines:
    return AnswerLines(Run(model=problem.model, p=np.zeros(0), start=None, tolerance=1e-6, seed=0))


@pytest.mark.parametrize("seed", range(3))
def test_the_best_prices_of_all(seed: int) -> None:
    problem, worth, weight = shop(seed)
    lines = lines_of(problem)
    for x in ([5.0, 5.0], [2.0, 8.0], [8.0, 2.0], [9.0, 9.0]):
        lines.descend(np.array(x))
    best = lines.run.best()
    assert best is not None and lines.run.is_acceptable(best)
    assert -best.value == pytest.approx(best_revenue(worth, weight), rel=1e-9)


def test_blocks_are_found_in_a_matrix_of_decisions() -> None:
    problem, _, _ = shop(0)
    assert len(lines_of(problem).blocks) == CUSTOMERS


def test_every_place_is_an_answer_that_is_learned() -> None:
    problem, worth, _ = shop(1)
    lines = lines_of(problem)
    place = lines.descend(np.array([4.0, 6.0]))
    assert place is not None
    take = place.y.reshape((CUSTOMERS, PRODUCTS), order="F")
    surplus = worth - place.x
    assert (surplus * take).sum(axis=1) == pytest.approx(np.maximum(surplus.max(axis=1), 0), abs=1e-6)


def test_upper_rows_are_kept() -> None:
    """x1 + x2 <= 1 and x1 - x2 == 0.2 leave the price 0.6 at most for the first product."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((x - 3) @ y), [y >= 0, y <= 1], variables=[y])
    rows = [x >= 0, cp.sum(x) <= 1, x[0] - x[1] == 0.2]
    problem = bm.BilevelProblem(cp.Maximize(x @ y), rows, lower)
    place = lines_of(problem).descend(np.array([0.3, 0.1]))
    assert place is not None
    assert place.x == pytest.approx([0.6, 0.4])


def test_what_it_cannot_do_is_said() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")

    def reason(g: cp.Expression, rows: list, above: list) -> str | None:
        lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
        return why_not(bm.BilevelProblem(cp.Minimize(x + y), [x >= 0, *above], lower).model)

    box = [y >= 0, y <= 1]
    assert reason(x * y - y, box, []) is None
    assert reason((y - x) ** 2, box, []) == "the lower level is no linear program"
    assert reason(-y, [*box, y <= x], []) == "lower constraints contain x"
    assert reason(x**2 * y - y, box, []) == "the lower objective's coefficients are not affine in x"
    assert reason(x * y - y, box, [y <= x]) == "upper constraints contain y or are not affine"
