"""What is said about variables that are declared at a level where they are hardly meant to be."""

import warnings

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.errors import LevelWarning, ModelError, NotSolvedError


@pytest.fixture
def x():
    return cp.Variable(name="x")


@pytest.fixture
def y():
    return cp.Variable(name="y")


def test_an_upper_level_that_decides_nothing_is_told_so(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [x >= 0], variables=[x, y])
    with pytest.warns(LevelWarning, match=r"Every variable \(x, y\) is declared lower"):
        problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 1) ** 2), [], lower)
    assert problem.solve() == pytest.approx(0.5, abs=1e-4)  # among the points of the line y = x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 1) ** 2), [], lower, variables=[])


def test_a_lower_variable_that_only_the_upper_level_uses_is_named(x, y):
    z = cp.Variable(name="z")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y, z])
    with pytest.warns(LevelWarning, match="'z' is a lower variable.*only the upper level uses it"):
        bm.BilevelProblem(cp.Minimize(x**2 + y + (z - 1) ** 2), [], lower)


def test_usual_problems_get_no_warning(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    price = lower.multiplier(lower.constraints[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.BilevelProblem(cp.Minimize(x**2 + price), [], lower)


def test_swapped_arguments_are_told_their_order(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    with pytest.raises(ModelError, match=r"0 <= x.*order is bm\.BilevelProblem\(objective, constraints"):
        bm.BilevelProblem([x >= 0], cp.Minimize(x), lower)
    with pytest.raises(ModelError, match=r"not a Lower.*order is bm\.BilevelProblem\(objective"):
        bm.BilevelProblem(cp.Minimize(x), lower)
    with pytest.raises(ModelError, match=r"order is bm\.Lower\(objective, constraints"):
        bm.Lower([y >= 0], cp.Minimize(y), variables=[y])


def test_a_certificate_before_the_first_solve(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y**2), [], lower)
    with pytest.raises(NotSolvedError, match="no certificate yet.*solve()"):
        print(problem.certificate.accepted)
    problem.solve()
    assert problem.certificate.accepted
