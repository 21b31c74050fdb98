"""Odd inputs: contradictory bounds, odd shapes and attributes, copies, wrong settings, 1 / 0."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import DataError


def lower(objective, constraints, *variables):
    return bm.Lower(cp.Minimize(objective), constraints, variables=list(variables))


def plain():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    below = lower((y - x) ** 2, [y <= 1], y)
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [0 <= x, x <= 3], below)


def test_contradictory_bounds_with_a_lower_level_that_is_not_convex():
    x, y = cp.Variable(nonneg=True), cp.Variable()
    below = lower(cp.nlp.sin(3 * y) + x * y, [y >= -2, y <= 2], y)
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x <= -1], below)
    assert problem.solve() == np.inf and problem.status == "infeasible"


def test_contradictory_bounds_with_a_conic_lower_level():
    x, y = cp.Variable(nonneg=True), cp.Variable(2)
    below = lower(-2 * y[0] + y[1], [cp.norm(y) <= 1 + x**2], y)
    problem = bm.BilevelProblem(cp.Minimize(2 * x * y[0] + y[1]), [x <= -1], below)
    assert problem.solve() == np.inf and problem.status == "infeasible"


@pytest.mark.parametrize("method", ["bic-gaffa", "lv-hba", "value-cuts"])
def test_contradictory_bounds_in_other_methods(method):
    x, y = cp.Variable(nonneg=True), cp.Variable()
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x <= -1], lower((y - x) ** 2, [y <= 2], y))
    try:
        problem.solve(method, time_limit=2)
    except bm.BlomodelError:
        return  # refused in words
    assert problem.status == "infeasible"


def test_a_diagonal_matrix_in_a_problem_without_an_answer():
    x, Y = cp.Variable(nonneg=True), cp.Variable((2, 2), diag=True)
    below = lower(cp.sum_squares(Y - x), [Y <= 2], Y)
    problem = bm.BilevelProblem(cp.Minimize(x), [x <= 1, Y[0, 0] >= 1.5], below)
    assert problem.solve() == np.inf and problem.status == "infeasible"


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("method", ["auto", "meha", "kkt", "value-cuts"])
def test_objectives_with_one_entry(shape, method):
    x, y = cp.Variable(shape), cp.Variable(shape)
    below = lower((y - x) ** 2, [], y)
    problem = bm.BilevelProblem(cp.Maximize(-(x + y)), [x >= 0, x <= 1], below)
    assert problem.solve(method, time_limit=20) == pytest.approx(0.0, abs=1e-5)
    assert str(problem) and problem._repr_latex_() and problem.certificate.accepted


def test_empty_variables_are_no_trouble():
    x, empty, y, none = cp.Variable(2), cp.Variable(0), cp.Variable(2), cp.Variable(0)
    f = cp.sum_squares(x - 1) + cp.sum(y) + cp.sum(empty)
    below = lower(cp.sum_squares(y - x) + cp.sum(none), [y <= 1], y, none)
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 3], below)
    assert problem.solve() == pytest.approx(1.5, abs=1e-6)
    assert empty.value.shape == none.value.shape == (0,)
    with pytest.raises(bm.BlomodelError, match="no number at all"):
        bm.BilevelProblem(cp.Minimize(f + cp.sum_squares(x[2:])), [], below)


@pytest.mark.parametrize(
    "settings",
    [
        {"time_limit": "a"},
        {"tolerance": None},
        {"n_starts": 2.5},
        {"n_jobs": "a"},
        {"time_limit": np.nan},
        {"max_iterations": 2.5},
        {"seed": "one"},
        {"effort": 3},
    ],
)
def test_settings_that_do_not_fit_are_refused_in_words(settings):
    with pytest.raises(bm.BlomodelError, match=next(iter(settings))):
        plain().solve(**settings)


def test_divisions_by_zero_are_refused_in_words():
    x, y, q = cp.Variable(), cp.Variable(), cp.Parameter(value=0.0, name="q")
    follow = lower((y - x) ** 2, [], y)
    with pytest.raises(DataError, match="division by 0"):
        bm.BilevelProblem(cp.Minimize(x / 0 + y), [x >= 0], follow)
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 / (2 * q) + y), [x >= 0], follow)
    with pytest.raises(DataError, match="q"):
        problem.solve()
    q.value = 1.0
    assert problem.solve() == pytest.approx(0.5, abs=1e-6)


# Copies, pickles, forks and threads


def portable(problem):
    return pickle.loads(pickle.dumps(problem))


@pytest.mark.parametrize("is_solved", [False, True])
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, portable])
def test_copies_before_and_after_a_solve(make, is_solved):
    problem = plain()
    if is_solved:
        problem.solve()
    again = make(problem)
    assert again.solve() == pytest.approx(0.75, abs=1e-7)
    assert copy.deepcopy(again).solve() == pytest.approx(0.75, abs=1e-7)
    assert problem.solve() == pytest.approx(0.75, abs=1e-7)


def test_a_deep_copy_after_a_plain_one_that_was_solved():
    x, y, q = cp.Variable(), cp.Variable(), cp.Parameter(value=2.0)
    f = (x - 1) ** 2 + (y - q) ** 2
    below = lower((y - 2 * x) ** 2, [y <= x + 1], y)
    problem = bm.BilevelProblem(cp.Minimize(f), [0 <= x, x <= 3], below)
    first = copy.copy(problem).solve()
    assert copy.deepcopy(problem).solve() == pytest.approx(first, abs=1e-9)


def _solve_again(problem, answers):
    answers.put((problem.solve(), str(problem.status)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_solved", [False, True])
def test_a_fork_of_a_problem(is_solved):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not fork")
    problem = plain()
    if is_solved:
        problem.solve()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_solve_again, args=(problem, answers))
    child.start()
    value, status = answers.get(timeout=120)
    child.join(60)
    assert value == pytest.approx(0.75, abs=1e-7) and status == "optimal"
    assert problem.solve() == pytest.approx(0.75, abs=1e-7)


def test_two_problems_in_two_threads():
    found = {}

    def work(name, target):
        x, y = cp.Variable(3), cp.Variable(3)
        f = cp.sum_squares(x - target) + cp.sum(y)
        problem = bm.BilevelProblem(
            cp.Minimize(f), [x >= 0, x <= 3], lower(cp.sum_squares(y - x), [y <= 1], y)
        )
        found[name] = [problem.solve() for _ in range(2)]

    threads = [threading.Thread(target=work, args=(k, float(k))) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found[1] == pytest.approx([2.25, 2.25], abs=1e-6)
    assert found[2] == pytest.approx([3.0, 3.0], abs=1e-6)
