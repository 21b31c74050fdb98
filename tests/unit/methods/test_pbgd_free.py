"""What PBGD-Free says of its own answers: warned where x is wrong, silent where it is right."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.pbgd_free import UnsuitableMethodWarning


def family(slope, constraints=lambda x: []):
    """Proposition 2 of the paper: phi(x) = x^2 + l (x - 1), so that x = -l / 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x + 1) ** 2), variables=[y])
    return bm.BilevelProblem(cp.Minimize(x**2 + slope * y), constraints(x), lower), x, y


@pytest.mark.parametrize("gamma", [None, 10.0, 1000.0])
@pytest.mark.parametrize("slope", [0.5, 0.3])
def test_warns_in_the_papers_own_family(slope, gamma):
    problem, x, y = family(slope)
    x.value, y.value = 3.0, 0.0
    with pytest.warns(UnsuitableMethodWarning, match=f"not flat.*move on by about {slope / 2:.2g}"):
        problem.solve("pbgd-free", gamma=gamma)
    assert x.value == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_warning_does_not_depend_on_the_units_of_f(scale):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x + 1) ** 2), variables=[y])
    for slope, is_wrong in ((0.5, True), (0.01, False)):
        problem = bm.BilevelProblem(cp.Minimize(scale * (x**2 + slope * y)), [], lower)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem.solve("pbgd-free", gamma=100.0 * scale)
        assert any(issubclass(w.category, UnsuitableMethodWarning) for w in caught) == is_wrong


def test_silent_where_a_bound_holds_x_whatever_is_left_out():
    """phi falls towards the bound x >= 1 with and without the part that is left out."""
    problem, x, _ = family(0.5, lambda x: [x >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsuitableMethodWarning)
        problem.solve("pbgd-free")
    assert x.value == pytest.approx(1.0, abs=1e-6)


def test_silent_where_f_is_flat_though_curved():
    """f = (x - 1)^2 + 5 (y - x)^2 has grad_y f = 0 at y*(x) = x: nothing is left out."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
    f = cp.sum_squares(x - np.array([1.0, -2.0])) + 5 * cp.sum_squares(y - x)
    problem = bm.BilevelProblem(cp.Minimize(f), [], lower)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsuitableMethodWarning)
        for gamma in (None, 10.0, 1000.0):
            problem.solve("pbgd-free", gamma=gamma)
            assert x.value == pytest.approx([1, -2], abs=1e-4)
