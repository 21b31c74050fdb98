"""Real x in the rows of a lower level in whole numbers, beside enumeration of its answers."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.floors import MARGIN, find_floors, lies_at_a_jump
from tests.support.slow_cases import first_few

pytest.importorskip("pyscipopt")


def rounded_down(objective):
    """The lower level answers y, the largest whole number up to x in [0, 5]."""
    x, y = cp.Variable(name="x"), cp.Variable(integer=True, name="y")
    lower = bm.Lower(cp.Maximize(y), [y <= x, y >= 0], variables=[y])
    return bm.BilevelProblem(objective(x, y), [0 <= x, x <= 5], lower), x, y


def test_what_the_lower_level_sees():
    problem, _, _ = rounded_down(lambda x, y: cp.Minimize(x))
    model = problem.plain_model
    (floor,) = find_floors(model, np.zeros(0))
    assert (floor.unit, floor.low, floor.high) == (1.0, 0.0, 5.0)
    assert [floor.value(np.array([at])) for at in (0.0, 0.9, 3.0, 4.9999)] == [0, 0, 3, 4]
    assert lies_at_a_jump(model, np.zeros(0), np.array([2 - MARGIN]))
    assert not lies_at_a_jump(model, np.zeros(0), np.array([2.0]))


@pytest.mark.parametrize(
    ("objective", "value", "is_attained"),
    [
        (lambda x, y: cp.Minimize((x - 2.5) ** 2 - y), -2.75, True),  # at x = 3, where y has just jumped
        (lambda x, y: cp.Minimize((x - 2.5) ** 2 + 0.1 * y), 0.2, True),
        (lambda x, y: cp.Minimize((x - 2.5) ** 2 + y), 1.25, False),  # before x = 2
        (lambda x, y: cp.Maximize(x - y), 1.0, False),
    ],
)
def test_optima_and_infima(objective, value, is_attained):
    problem, x, y = rounded_down(objective)
    assert problem.solve() == pytest.approx(value, abs=1e-4)
    assert problem.status == ("optimal" if is_attained else "not_attained")
    assert problem.certificate.bound == pytest.approx(value, abs=1e-4)
    assert float(y.value) == np.floor(float(x.value))


def random_rows(seed):
    """Two real x and two whole y, two rows that hold all of them, and cells of x by enumeration."""
    draw = np.random.default_rng(seed)
    A = draw.integers(1, 4, (2, 2)).astype(float)
    B = draw.integers(-2, 3, (2, 2)) / 2.0
    g, f, target = (
        draw.integers(-3, 4, 2) + 0.25,
        draw.integers(-3, 4, 2),
        draw.uniform(0, 3, 2).round(1),
    )
    room = draw.integers(2, 6, 2).astype(float)
    x, y = cp.Variable(2, name="x"), cp.Variable(2, integer=True, name="y")
    lower = bm.Lower(cp.Minimize(g @ y), [A @ y <= room + B @ x, y >= 0, y <= 3], variables=[y])
    objective = cp.Minimize(cp.sum_squares(x - target) + f @ y)
    problem = bm.BilevelProblem(objective, [x >= 0, x <= 3], lower)
    points = np.array(list(product(range(4), repeat=2)), dtype=float)
    side = np.linspace(0, 3, 121)
    best = np.inf
    for at in product(side, side):
        kept = points[np.all(points @ A.T <= room + B @ np.array(at) + 1e-9, axis=1)]
        if len(kept):
            answers = kept[kept @ g <= (kept @ g).min() + 1e-9]
            best = min(best, np.sum((np.array(at) - target) ** 2) + (answers @ f).min())
    return problem, best


@pytest.mark.parametrize("seed", first_few(range(12), 1))
def test_random_problems_against_a_grid(seed):
    problem, best = random_rows(seed)
    value = problem.solve()
    assert problem.status in ("optimal", "not_attained")
    assert problem.certificate.bound <= best + 1e-6
    assert value <= best + 1e-4 * (1 + abs(best))
    assert value >= best - 0.5  # what a grid may miss where the answer jumps
