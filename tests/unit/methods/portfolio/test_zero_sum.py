"""Zero-sum problems and problems in which both levels agree, against other ways to solve them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import blomodel as bm


def game(payoff: np.ndarray) -> bm.BilevelProblem:
    """A matrix game: the upper level mixes rows to win, the lower one mixes columns to win too."""
    rows, columns = payoff.shape
    x, y = cp.Variable(rows, nonneg=True, name="x"), cp.Variable(columns, nonneg=True, name="y")
    win = x @ (payoff @ y)
    lower = bm.Lower(cp.Minimize(3 * win + 1), [cp.sum(y) == 1], variables=[y])
    return bm.BilevelProblem(cp.Maximize(win), [cp.sum(x) == 1], lower)


def test_a_matrix_game_has_the_value_of_its_linear_program() -> None:
    payoff = np.random.default_rng(3).normal(size=(12, 15))
    problem = game(payoff)
    problem.solve()
    # max t s.t. payoff' x >= t, x in the simplex
    rows = np.hstack([-payoff.T, np.ones((15, 1))])
    best = linprog(
        np.append(np.zeros(12), -1), rows, np.zeros(15), [[1.0] * 12 + [0.0]], [1.0],
        bounds=[(0, None)] * 12 + [(None, None)],
    )  # fmt: skip
    assert problem.value == pytest.approx(-best.fun, abs=1e-7)
    assert str(problem.status) == "optimal"
    assert "zero-sum" in problem.certificate.bound_source
    assert problem.plan().steps[0].name == "one convex program"


def test_a_ball_of_doubts_is_a_norm() -> None:
    mean, n = np.array([1.0, 0.7, 0.4]), 3
    w, z = cp.Variable(n, name="w"), cp.Variable(n, name="z")
    gain = (mean + 0.3 * z) @ w
    lower = bm.Lower(cp.Minimize(gain), [cp.norm(z) <= 1.5], variables=[z])
    upper = cp.Maximize(gain - cp.sum_squares(w))
    problem = bm.BilevelProblem(upper, [w >= 0, cp.sum(w) == 1], lower)
    problem.solve()
    other = cp.Problem(
        cp.Maximize(mean @ w - 0.45 * cp.norm(w) - cp.sum_squares(w)), [w >= 0, cp.sum(w) == 1]
    )
    assert problem.value == pytest.approx(other.solve(), abs=1e-6)
    assert str(problem.status) == "optimal"


def test_curvature_below_stays() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = cp.sum_squares(y) + (y[0] - 2 * y[1]) * x + cp.sum(cp.exp(y))
    lower = bm.Lower(cp.Minimize(g), [y >= -1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 - 0.5 * g), [-3 <= x, x <= 3], lower)
    problem.solve()

    def phi(at: float) -> float:
        z = cp.Variable(2)
        inner = cp.sum_squares(z) + (z[0] - 2 * z[1]) * at + cp.sum(cp.exp(z))
        return at**2 - 0.5 * cp.Problem(cp.Minimize(inner), [z >= -1]).solve()

    values = [phi(at) for at in np.linspace(-0.5, 0.5, 21)]
    assert problem.value <= min(values) + 1e-7
    assert problem.value == pytest.approx(phi(float(x.value)), abs=1e-6)
    assert str(problem.status) == "optimal"


def test_both_want_the_same() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = cp.square(y - x) + cp.square(y - 1)
    lower = bm.Lower(cp.Minimize(g), [y <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(2 * g + 4 * x), [-5 <= x, x <= 5], lower)
    assert problem.plan().steps[0].name == "one convex program"
    # y = x: 2 (x - 1)^2 + 4 x is least at 0; y = (x + 1) / 2 needs x >= 1 and is worse.
    assert problem.solve() == pytest.approx(2.0, abs=1e-6)
    assert str(problem.status) == "optimal"


def test_rows_that_move_with_x_are_left_to_others() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Maximize(y), [y <= 2 - x, y <= 1 + x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [0 <= x, x <= 2], lower)
    plan = problem.plan()
    assert "one convex program" not in [step.name for step in plan.steps]
    assert any("contain x" in str(omission) for omission in plan.omitted)
    assert problem.solve() == pytest.approx(0.0, abs=1e-7)  # concave in x: best at x = 2, not in between


def test_rows_above_that_hold_y_spoil_it() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(y - x) + x), [y >= 1, x <= 4, x >= -4], lower)
    assert "one convex program" not in str(problem.plan())


def robust_portfolio(least: float | None = None) -> tuple[bm.BilevelProblem, cp.Problem]:
    """The largest return that no point of an ellipsoid of doubts falls short of, in two ways.

    With ``least``, shares with the least sum of squares and a return of at least that much instead.
    """
    mean, spread = 1.15 + 0.01 * np.arange(5.0), 0.02 * np.sqrt(np.arange(1.0, 6.0))
    w, t, y = cp.Variable(5, name="w"), cp.Variable(name="t"), cp.Variable(5, name="y")
    aim = -t if least is None else cp.sum_squares(w)
    rows = [w >= 0, cp.sum(w) == 1, t <= 2, t >= (0 if least is None else least)]
    doubts = cp.sum_squares((y - mean) / spread) <= 2.25
    lower = bm.Lower(cp.Minimize(y @ w), [doubts, y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(aim), [*rows, 2 * t <= 2 * (y @ w)], lower)
    other = cp.Problem(cp.Minimize(aim), [*rows, t <= mean @ w - 1.5 * cp.norm(cp.multiply(spread, w))])
    return problem, other


@pytest.mark.parametrize("least", [None, 0.5])  # the second row does not press
def test_a_row_that_must_hold_for_every_answer(least: float | None) -> None:
    problem, other = robust_portfolio(least)
    assert "every y" in str(problem.plan().steps[0])
    assert problem.solve() == pytest.approx(other.solve(), abs=1e-6)
    assert str(problem.status) == "optimal"
    assert "zero-sum" in problem.certificate.bound_source


def test_rows_on_which_both_levels_agree() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = cp.square(y - x) + cp.square(y - 1)
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [g <= 2, -5 <= x, x <= 5], lower)
    assert problem.plan().steps[0].name == "one convex program"
    # y = (x + 1) / 2 and g = (x - 1)^2 / 2.
    assert problem.solve() == pytest.approx(-1.0, abs=1e-5)
    assert str(problem.status) == "optimal"
