"""Variables that were forgotten in the list of a lower level are told from hyper-parameters."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import LevelWarning

x, y, z = (cp.Variable(name=name) for name in "xyz")
w = cp.Variable(3, name="w")
data = np.array([1.0, 2.0, 3.0])


def stated(lower, objective=None, constraints=None, **more):
    objective = cp.Minimize((x - 2) ** 2 + y**2) if objective is None else objective
    return bm.BilevelProblem(
        objective, [0 <= x, x <= 3] if constraints is None else constraints, lower, **more
    )


def below(objective, constraints=(), variables=(y,)):
    return bm.Lower(objective, list(constraints), variables=list(variables))


FORGOTTEN = {
    "in the objective": below(cp.Minimize((y - x) ** 2 + (z - y) ** 2)),
    "in a constraint": below(cp.Minimize((y - x) ** 2 + z), [y + z >= 1, z >= -2 + y]),
    "of a level that maximises": below(cp.Maximize(-((y - x) ** 2) - (z - y) ** 2)),
    "beside products with x": below(cp.Minimize(x * y + y**2 + z**2 + z), [y + z >= 1]),
}


@pytest.mark.parametrize("case", FORGOTTEN)
def test_a_forgotten_variable_is_named_with_the_way_to_say_that_it_is_meant(case):
    with pytest.warns(LevelWarning, match=r"uses 'z'.*forgotten in variables=.*variables=\[x, z\]"):
        stated(FORGOTTEN[case])


MEANT = {
    "a weight": lambda: stated(below(cp.Minimize((y - x) ** 2 + cp.exp(z) * y**2))),
    "a weight of a norm": lambda: stated(below(cp.Minimize((y - x) ** 2 + z * cp.abs(y)))),
    "the only upper variable": lambda: stated(
        below(cp.Minimize((y - z) ** 2)), cp.Minimize((y - 1) ** 2), []
    ),
    "bounded above": lambda: stated(
        below(cp.Minimize((y - x - z) ** 2)), constraints=[0 <= x, x <= 3, z >= 0]
    ),
    "bounded by an attribute": lambda: stated(
        below(cp.Minimize((y - x - cp.Variable(name="n", nonneg=True)) ** 2))
    ),
    "declared above": lambda: stated(FORGOTTEN["in the objective"], variables=[x, z]),
    "declared below": lambda: stated(below(cp.Minimize((y - x) ** 2 + (z - y) ** 2), (), (y, z))),
    "a cost of an inverse problem": lambda: bm.BilevelProblem(
        cp.Minimize(cp.sum_squares(w - data) + x**2),
        [x >= 0],
        below(cp.Minimize(z * w[0] + x * cp.sum(w)), [w >= 0, w <= 1], [w]),
    ),
    "felt by two followers": lambda: bm.BilevelProblem(
        cp.Minimize(x**2 + y),
        [x >= 0],
        [below(cp.Minimize((y - z - x) ** 2)), below(cp.Minimize(cp.sum_squares(w - z)), (), [w])],
    ),
}


@pytest.mark.parametrize("case", MEANT)
def test_what_is_meant_is_not_warned_of(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", LevelWarning)
        MEANT[case]()


def test_no_problem_of_the_literature_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", LevelWarning)
        for name in bm.problems.list().names:
            bm.problems.load(name)
