"""The lower level solved globally at one x: values, proofs, choices and points inside."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.model.global_lower import GlobalLower
from blomodel.solvers.answer import Answer, InnerStatus

pytest.importorskip("pyscipopt")
NOTHING = np.empty(0)


def waves(upper=()):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = cp.nlp.sin(5 * y) + 0.3 * (y - x) ** 2
    lower = bm.Lower(cp.Minimize(g), [-2 <= y, y <= 2, y <= x + 3], variables=[y])
    return bm.BilevelProblem(cp.Minimize(y + 0 * x), [-1 <= x, x <= 1, *upper], lower).plain_model


def by_grid(x):
    y = np.linspace(-2, 2, 400_001)
    y = y[y <= x + 3]
    g = np.sin(5 * y) + 0.3 * (y - x) ** 2
    return y[g.argmin()], g.min()


@pytest.mark.parametrize("x", [-0.9, 0.1, 0.8])
def test_the_value_is_proven_and_that_of_a_grid(x):
    answer, is_proven = GlobalLower(waves()).solve(np.array([x]), NOTHING, np.zeros(1))
    assert is_proven
    assert answer.value == pytest.approx(by_grid(x)[1], abs=1e-7)


def test_a_local_answer_is_not_confirmed_but_replaced():
    model, x = waves(), np.array([0.0])
    y = np.array([1.53])  # near another valley
    local = Answer(InnerStatus.OPTIMAL, float(model.g(x, y, NOTHING)[0]), y)
    answer, is_proven = GlobalLower(model).confirm(x, NOTHING, local)
    assert is_proven
    assert answer.value == pytest.approx(by_grid(0.0)[1], abs=1e-6)


def test_the_best_of_two_minimisers_for_the_upper_level():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(-((y - x) ** 2)), [-1 <= y, y <= 1], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(-y), [x >= -1, x <= 1], lower).plain_model
    chosen = GlobalLower(model).choose(np.zeros(1), NOTHING, -1.0)
    assert chosen == pytest.approx([1.0], abs=1e-5)


def test_a_point_inside_keeps_away_from_the_rows():
    model = waves()
    x = np.array([-1.0])
    coupled = np.array(["x" in label for label in model.lower_in.labels])
    inside = GlobalLower(model).inside(x, NOTHING, level=10.0, coupled=coupled)
    assert inside[0] <= x[0] + 3 - 0.99


def test_without_scip_nothing_is_proven(monkeypatch):
    monkeypatch.setattr("blomodel.model.global_lower.is_installed", lambda: False)
    answer, is_proven = GlobalLower(waves()).solve(np.array([0.1]), NOTHING, np.zeros(1))
    assert not is_proven
    assert answer.has_point
