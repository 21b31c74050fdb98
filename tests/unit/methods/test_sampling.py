"""Grid and random search: the best of the points looked at."""

import builtins
import threading

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.alarm import is_sheltered
from blomodel.errors import ModelError
from blomodel.methods import sampling
from blomodel.problems.meha_paper import lasso


def coupled_problem():
    """y = min(x, 1 + x/2) below; above, x = y = 1.2 is best in [-3, 1.5]."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1 + x / 2], variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 1.4) ** 2)
    return bm.BilevelProblem(upper, [-3 <= x, x <= 1.5], lower)


@pytest.mark.parametrize("method", ["grid-search", "random-search"])
def test_coupled_qp_without_settings(method):
    problem = coupled_problem()
    value = problem.solve(method=method)
    assert value == pytest.approx(0.08, abs=1e-3)
    assert problem.variables[0].value == pytest.approx(1.2, abs=1e-2)
    assert problem.certificate.accepted


def test_refined_grid_is_sharp_in_two_variables():
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [cp.sum(y) <= 1 + x[0]], variables=[y])
    upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum_squares(y - 2))
    problem = bm.BilevelProblem(upper, [x >= -2, x <= 2.1], lower)
    best = problem.solve()
    for variable in problem.variables:
        variable.value = None
    assert problem.solve(method="grid-search") == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("method", ["grid-search", "random-search"])
def test_nonconvex_lower_level(method):
    """Two wells near -1 and 1, tilted by x: f asks for the left one, which x < 0 gives."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y**2 - 1) ** 2 - 0.5 * x * y), [-2 <= y, y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 0.5) ** 2 + (y + 1) ** 2), [-1 <= x, x <= 1], lower)
    settings = {"n_points": 60} | ({"refinements": 1} if method == "grid-search" else {})
    value = problem.solve(method=method, **settings)
    # Just left of 0: f near 1/4; right of 0 the other well costs about 4.
    assert value < 0.4
    assert y.value < 0
    assert problem.status in ("feasible", "stationary")
    assert problem.certificate.checked_by == "SCIP's branch and bound"


def test_upper_rows_in_y_are_kept():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-x), [0 <= x, x <= 4, x + y <= 2], lower)
    assert problem.solve(method="grid-search") == pytest.approx(-1.0, abs=1e-4)


def test_open_sides_are_said():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [x >= 0], lower)
    assert problem.solve(method="grid-search") == pytest.approx(0.5, abs=1e-4)
    assert any("open sides" in note for note in problem.solution.notes)


def test_too_many_variables_for_a_grid():
    x, y = cp.Variable(12, name="x"), cp.Variable(12, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x >= 0, x <= 1], lower)
    with pytest.raises(ModelError, match="random-search"):
        problem.solve(method="grid-search")
    assert np.isfinite(problem.solve(method="random-search", n_points=50))


def test_limits_keep_the_best_point():
    problem = coupled_problem()
    problem.solve(method="random-search", max_iterations=100)
    assert problem.solution.iterations == 100
    assert problem.status.has_point


def test_tpe_comes_nearer_than_its_random_points():
    pytest.importorskip("optuna")
    problem = lasso(2)
    problem.solve(method="tpe", n_points=80)
    assert problem.value < -0.45  # the solution has -1/2
    assert problem.solution.evaluations == 80
    first = problem.value
    problem.solve(method="tpe", n_points=80, warm_start=False)
    assert problem.value == first  # the seed of the run


def test_tpe_passes_over_x_without_answers():
    pytest.importorskip("optuna")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= 1 - x, y <= x], variables=[y])  # none for x < 1/2
    problem = bm.BilevelProblem(cp.Minimize(x), [-2 <= x, x <= 2], lower)
    problem.solve(method="tpe", n_points=60)
    assert 0.5 - 1e-6 <= x.value < 0.7


def test_no_time_limit_stops_the_import_of_optuna_half_way(monkeypatch):
    """A module that is left half imported cannot be imported again."""
    pytest.importorskip("optuna")
    plain, sheltered = builtins.__import__, []

    def watched(name, *others, **named):
        if name == "optuna":
            sheltered.append(is_sheltered(threading.get_ident()))
        return plain(name, *others, **named)

    monkeypatch.setattr(builtins, "__import__", watched)
    with sampling._quiet_optuna():
        assert sheltered
        assert all(sheltered)
        assert not is_sheltered(threading.get_ident())
