"""The worst minimiser and its bound against all points of a fine grid."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.studies import worst_minimiser
from blomodel.studies.worst_minimiser import Minimisers

AT = 0.5
SIDE = np.linspace(-1, 1, 201)


def make(kind):
    """A level in two variables on [-1, 1]^2, an upper objective, and both as functions of numbers."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    box = [y >= -1, y <= 1]
    whole = cp.Variable(2, integer=True, name="y")
    sine = cp.nlp.sin
    cases = {
        # A face of a linear program, and f neither convex nor concave on it.
        "LP": (
            y, x * (y[0] + y[1]), box, sine(3 * y[0]) + y[1] ** 2,
            lambda a, b: AT * (a + b), lambda a, b: np.sin(3 * a) + b**2,
        ),
        # Ties along a whole edge, f with a product.
        "ties": (
            y, x + 0 * y[0], [*box, y[0] + y[1] <= 1], y[0] * y[1] - y[0] ** 2,
            lambda a, b: np.where(a + b <= 1 + 1e-9, 0.0, np.inf), lambda a, b: a * b - a**2,
        ),
        # A valley of minimisers, f convex.
        "QP": (
            y, (y[0] + y[1] - x) ** 2, box, cp.sum_squares(y - np.array([0.2, 0.1])),
            lambda a, b: (a + b - AT) ** 2, lambda a, b: (a - 0.2) ** 2 + (b - 0.1) ** 2,
        ),
        "convex": (
            y, cp.exp(y[0] - y[1]) - (y[0] - y[1]), box, (y[0] + x) ** 2,
            lambda a, b: np.exp(a - b) - (a - b), lambda a, b: (a + AT) ** 2,
        ),
        # Four wells of the same depth.
        "not convex": (
            y, (4 * y[0] ** 2 - 1) ** 2 + (4 * y[1] ** 2 - 1) ** 2 + x, box, y[0] + 2 * y[1] * y[0],
            lambda a, b: (4 * a**2 - 1) ** 2 + (4 * b**2 - 1) ** 2, lambda a, b: a + 2 * a * b,
        ),
        # The least values of a concave function at corners.
        "concave": (
            y, -cp.sum_squares(y) + 0 * x, box, y[0] - 3 * y[1] + y[0] * y[1],
            lambda a, b: -(a**2) - b**2, lambda a, b: a - 3 * b + a * b,
        ),
        "integers": (
            whole, (cp.sum(whole) - x) ** 2, [whole >= -1, whole <= 1], (whole[0] - x) ** 2 - whole[1],
            lambda a, b: (a + b - AT) ** 2, lambda a, b: (a - AT) ** 2 - b,
        ),
    }  # fmt: skip
    variable, g, rows, f, g_of, f_of = cases[kind]
    lower = bm.Lower(cp.Minimize(g), rows, variables=[variable])
    problem = bm.BilevelProblem(cp.Minimize(f + x), [0 <= x, x <= 1], lower)
    side = (-1.0, 0.0, 1.0) if kind == "integers" else SIDE
    a, b = np.array(list(product(side, side))).T
    below, above = g_of(a, b), f_of(a, b) + AT
    kept = above[below <= below.min() + 1e-9]
    return problem, variable, kept.min(), kept.max(), g_of


@pytest.mark.parametrize("kind", ["LP", "ties", "QP", "convex", "not convex", "concave", "integers"])
def test_worst_choice_is_that_of_a_grid(kind):
    problem, y, best, worst, g_of = make(kind)
    result = problem.pessimistic(x=AT)
    near = 2e-3 * (1 + abs(worst))  # a grid misses a little
    assert result.optimistic == pytest.approx(best, abs=near)
    assert result.pessimistic == pytest.approx(worst, abs=near)
    assert result.is_proven and result.status == "optimal" and result.gap <= 1e-4
    assert result.bound >= worst - 1e-9  # no point of the grid beats it
    a, b = result.y_worst[y]
    assert g_of(a, b) <= g_of(*np.meshgrid(SIDE, SIDE)).min() + 1e-5 or kind == "integers"


@pytest.mark.parametrize("kind", ["ties", "not convex"])
def test_without_the_engine_nothing_is_claimed(kind, monkeypatch):
    monkeypatch.setattr(worst_minimiser, "is_installed", lambda: False)
    problem, _, _, worst, _ = make(kind)
    result = problem.pessimistic(x=AT)
    assert result.pessimistic <= worst + 1e-3 * (1 + abs(worst))
    assert not result.is_proven and result.bound is None and result.status == "feasible"
    assert result.gap is None and "not proven" in str(result)


def test_curved_upper_rows_are_looked_at_by_branch_and_bound():
    """The follower may go to (-1, -1), where the upper row y1 y2 <= 0.5 is broken by one half."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((y[0] - y[1]) ** 2 + 0 * x), [y >= -1, y <= 0.5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + cp.sum(y)), [0 <= x, y[0] * y[1] <= 0.5], lower)
    result = problem.pessimistic(x=0.0)
    assert result.pessimistic == pytest.approx(1.0, abs=1e-4) and result.is_proven
    assert list(result.violated.values()) == pytest.approx([0.5], abs=1e-4)


def test_search_over_integers_knows_how_much_better_another_x_may_be():
    """f = (x - 1)^2 + y with y in {0, ..., x} at will: x = 0 and x = 1 both have the worst case 1."""
    x, y = cp.Variable(integer=True, name="x"), cp.Variable(integer=True, name="y")
    lower = bm.Lower(cp.Minimize(0 * y), [y >= 0, y <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [0 <= x, x <= 4], lower)
    assert problem.solve() == pytest.approx(0)
    found = problem.pessimistic(search=40)
    assert found.pessimistic == pytest.approx(1) and found.status == "optimal"
    assert found.best_bound == pytest.approx(0, abs=1e-5)
    assert "no x is better than" in str(found)


def test_bound_of_a_row_over_the_minimisers():
    problem, _, _, worst, _ = make("QP")
    model = problem.plain_model
    minimisers = Minimisers(model, np.array([AT]), np.zeros(0), 0.0)
    bound, y = minimisers.largest(model.f)
    assert worst - 1e-9 <= bound <= worst + 2e-3
    assert np.sum(y) == pytest.approx(AT, abs=1e-3)
