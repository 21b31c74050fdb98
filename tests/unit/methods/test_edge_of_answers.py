"""Methods for coupled rows where most x leave the lower level without an answer."""

import warnings
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.reduced_penalty import ReducedPenalty, shortest_multipliers
from tests.support.slow_cases import first_few


def margins(seed=0, n_samples=30):
    """Problem (70) in small: bounds c for the samples of two classes that overlap.

    Most c leave no separating line, and at the best c the lower constraints leave one line alone.
    """
    random = np.random.default_rng(seed)
    labels = np.where(random.random(n_samples) < 0.5, 1.0, -1.0)
    features = random.standard_normal((n_samples, 2)) + 0.8 * labels[:, None]
    c, w, b = cp.Variable(n_samples, name="c"), cp.Variable(2, name="w"), cp.Variable(name="b")
    violation = 1 - cp.multiply(labels, features @ w + b)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(w) / 2), [violation <= c], variables=[w, b])
    errors = cp.exp(1 - cp.multiply(labels[:10], features[:10] @ w + b))
    upper = cp.Minimize(cp.sum(errors) / 10 + cp.sum_squares(c) / 2)
    return bm.BilevelProblem(upper, [], lower), c


@cache
def best_of(seed):
    """The best c and its value, proven by solving without a method."""
    problem, c = margins(seed)
    value = problem.solve()
    assert problem.status == "optimal"
    return c.value, value


@pytest.mark.parametrize(
    ("name", "settings"),
    [("blocc", {}), ("blocc", {"step_size": 0.2}), ("gam", {}), ("gam", {"step_size": 0.2})],
)
@pytest.mark.parametrize("seed", first_few([0, 1, 7], 1))
def test_stays_where_the_lower_level_has_answers(name, settings, seed):
    problem, c = margins(seed)
    c.value = np.full(c.size, 5.0)
    value = problem.solve(method=name, **settings)
    assert problem.certificate.accepted
    assert value == pytest.approx(best_of(seed)[1], rel=1e-6)


@pytest.mark.parametrize("name", ["blocc", "gam", "pbgd-free"])
def test_starts_where_the_lower_level_has_no_answer(name):
    problem, c = margins()
    c.value = np.zeros(c.size)
    with warnings.catch_warnings():  # for pbgd-free this f is not flat enough
        warnings.simplefilter("ignore")
        value = problem.solve(method=name)
    assert value == pytest.approx(best_of(0)[1], rel=1e-2 if name == "pbgd-free" else 1e-6)


@pytest.mark.parametrize("name", ["lv-hba", "bic-gaffa"])
def test_single_loops_get_near_without_settings(name):
    problem, c = margins(seed=4)
    at, best = best_of(4)
    c.value = at + 0.1
    value = problem.solve(method=name)
    assert problem.certificate.accepted
    assert best - 1e-6 <= value <= best * (1 + 5e-3)


@pytest.mark.parametrize("name", ["lv-hba", "bic-gaffa"])
def test_single_loops_stop_when_f_has_settled(name):
    iterations = []
    for settled in (1e-2, 0.0):
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= 1 + x / 2], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize(x + (y - 2) ** 2), [0 <= x, x <= 2], lower)
        problem.solve(method=name, settled=settled, max_steps=20_000)
        iterations.append(problem.solution.iterations)
    assert iterations[0] < 2000 < iterations[1]


def test_a_given_step_of_lv_hba_is_for_x_itself():
    """One step from where theta = y and no multiplier acts: x moves along f_x / c."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 1) ** 2 / 2), [y <= 10 + x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(50 * x**2 + y**2), [], lower)
    x.value, y.value = 1.0, 1.0
    problem.solve(method="lv-hba", step_size=1e-3, c=2.0, exponent=0.0, max_steps=1)
    assert x.value == pytest.approx(1.0 - 1e-3 * 100 / 2.0, rel=1e-9)


def test_the_gradient_at_the_edge_does_not_depend_on_the_solver_s_multipliers():
    """y >= 1 and y <= x leave y = 1 at x = 1; f = x^2 + 3 y has the slope 2 x there, and 3 for y."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y <= x, y >= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + 3 * y), [], lower)
    penalty = ReducedPenalty(problem.model, np.empty(0))
    found = penalty.with_chosen_multipliers(penalty(np.array([1.0]), 10.0))
    # The difference (m, n) must have m - n = -3, and (-3/2, 3/2) is the shortest.
    assert found.gradient == pytest.approx([2.0 + 1.5], abs=1e-5)
    inside = penalty(np.array([2.0]), 10.0)
    assert penalty.with_chosen_multipliers(inside) is inside


def test_a_warm_start_from_afar_is_not_taken_for_the_answer():
    """The exponentials overflow on the way from the last answer; its scale must not hide the error."""
    problem, c = margins(seed=7)
    problem.solve()
    program, far = problem.model.penalised_program, np.full(c.size, 5.0)
    weights = (0.1, 1.0)
    program.solve(c.value, np.empty(0), weights)
    warm = program.solve(far, np.empty(0), weights)
    cold = program.solve(far, np.empty(0), weights, warm=False)
    assert warm.value == pytest.approx(cold.value, rel=1e-6)


def test_shortest_multipliers():
    def shortest(rows, slope, wish=None):
        rows = np.array(rows, dtype=float)
        wish = np.zeros(len(rows)) if wish is None else np.array(wish)
        return shortest_multipliers(rows, np.array(slope, dtype=float), len(rows), wish)

    assert shortest([[1, 0], [0, 1]], [1, 1]) is None  # LICQ
    assert shortest([[1], [2]], [1]) is None  # nothing cancels
    assert shortest([[1, 0], [-1, 0], [0, 1]], [4, 3]) == pytest.approx([2.0, -2.0, 3.0])
    # A row that a step against grad_x f loosens is left alone where the others can do.
    assert shortest([[1], [-1], [1]], [4]) == pytest.approx([4 / 3, -4 / 3, 4 / 3])
    assert shortest([[1], [-1], [1]], [4], [-1, -1, 1]) == pytest.approx([2.0, -2.0, 0.0], abs=1e-6)


def test_max_min_says_where_g_is_flat():
    problem, c = margins(n_samples=6)
    c.value = np.full(c.size, 5.0)
    problem.solve(method="blocc", inner="max-min", max_steps=2)
    assert any("not strongly convex" in note for note in problem.solution.notes)
