"""Valleys of a single variable: against SciPy's bounded search, and exact at bounds and kinks."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import blomodel as bm
from blomodel.model.local_search import LocalSearch

STEP = 0.05


def search_of(g, low=-3.0, high=3.0):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(g(y) + 0 * x), [y >= low, y <= high], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(x + y), [x >= 0, x <= 1], lower).model
    return LocalSearch(model.multistart, np.zeros(1), np.zeros(0), 1.0, 1e-9)


@pytest.mark.parametrize("start", [-2.0, -0.5, 0.4, 1.7])
def test_the_bottom_of_a_valley(start):
    search = search_of(lambda y: cp.nlp.sin(3 * y) + 0.1 * y**2)
    bottom = search.valley(np.array([start]), STEP)
    wanted = minimize_scalar(
        lambda y: np.sin(3 * y) + 0.1 * y**2, bounds=(start - STEP, start + STEP), method="bounded"
    )
    assert search.value(bottom) <= wanted.fun + 1e-9
    assert abs(bottom[0] - start) <= 2 * STEP


def test_a_bottom_is_made_exact_by_the_slope():
    search = search_of(lambda y: cp.nlp.sin(3 * y) + 0.1 * y**2)
    end, _ = search.sharpen(search.valley(np.array([-0.5]), STEP), STEP)
    assert 3 * np.cos(3 * end[0]) + 0.2 * end[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("g", "wanted"), [(lambda y: cp.nlp.sin(y), -1.0), (lambda y: cp.abs(y), 0.0)])
def test_bounds_and_kinks_are_ends(g, wanted):
    search = search_of(g, -1.0, 2.0)
    end, _ = search.sharpen(search.valley(np.array([wanted + 0.01]), STEP), STEP)
    assert end[0] == pytest.approx(wanted, abs=1e-9)


def test_many_values_are_those_of_single_points():
    search = search_of(lambda y: cp.log(y) * cp.nlp.sin(y))
    points = np.linspace(-1, 2, 9)[:, None]
    assert np.allclose(search.values(points), [search.value(point) for point in points])


def test_a_search_by_scipy_that_breaks_off_ends_where_it_began(monkeypatch):
    import scipy.optimize

    def breaks_off(*_, **__):
        raise ValueError("broken")

    monkeypatch.setattr(scipy.optimize, "minimize", breaks_off)
    end, steps = search_of(lambda y: cp.nlp.sin(3 * y) + 0.1 * y**2).descend(np.array([0.4]))
    assert end[0] == 0.4 and steps == 0
