"""Just above a limit of size a model has the same answer as just below it, and as strong a claim.

Each limit is made so small that a small model lies above it.
"""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.limits import Limit
from tests.support.slow_cases import first_few

STRONGEST_FIRST = ("optimal", "locally_optimal", "stationary", "feasible")


def tracking():
    """A lower level with rows: a tree over a few pairs."""
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    mixing = np.random.default_rng(0).standard_normal((3, 2))
    rows = [y >= 0, cp.sum(y) <= 2]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - mixing @ x)), rows, variables=[y])
    f = cp.sum_squares(y - 1) + cp.sum_squares(x - 0.5) + cp.square(cp.sum(x))
    return bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)


def corners():
    """A linear lower level with several multipliers at its corners."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    rows = [cp.sum(y) <= 1 + x, y <= 1, y >= 0, y[0] <= x + 0.5, y[1] - y[0] <= 0.5]
    lower = bm.Lower(cp.Minimize(-cp.sum(y)), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(x - 2 * y[0] + y[1]), [x >= 0, x <= 2], lower)


def exponentials():
    """A cone program below."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = cp.sum_squares(y - x) + cp.sum(cp.exp(y))
    f = cp.sum_squares(y - 0.3) + 0.1 * cp.sum_squares(x) + cp.square(cp.sum(x) - 1)
    lower = bm.Lower(cp.Minimize(g), [y >= -1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= -3, x <= 3], lower)


def kinks():
    """A lasso with a weight for each feature."""
    draw = np.random.default_rng(1)
    A, B, b, c = *draw.standard_normal((2, 6, 3)), *draw.standard_normal((2, 6))
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(A @ y - b) + x @ cp.abs(y)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ y - c)), [x >= 0, x <= 5], lower)


def ridge():
    """A free lower level, with a weight for each feature."""
    draw = np.random.default_rng(2)
    A, B, b, c = *draw.standard_normal((2, 8, 4)), *draw.standard_normal((2, 8))
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    g = cp.sum_squares(A @ y - b) + cp.exp(x) @ cp.square(y)
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ y - c)), [x >= -4, x <= 2], lower)


def concave():
    """A lower level that is answered at the corners of a box."""
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(-cp.sum_squares(y - x)), [y >= -1, y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 0.5) ** 2 + cp.sum(y)), [x >= -1, x <= 1], lower)


def parts():
    """Three independent problems."""
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= 0, y <= 1], variables=[y])
    f = cp.sum_squares(y - np.array([0.5, 2, -1])) + 0.1 * cp.sum_squares(x - 1)
    return bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)


def revenue():
    """Prices times quantities, convex on each piece by strong duality only."""
    price, z = cp.Variable(2, name="price"), cp.Variable(2, name="z", nonneg=True)
    gain = (np.array([5.0, 3.0]) - price) @ z - cp.sum_squares(z) / 2
    lower = bm.Lower(cp.Maximize(gain), [cp.sum(z) <= 3], variables=[z])
    return bm.BilevelProblem(cp.Maximize(price @ z), [price >= 0, price <= 10], lower)


MODELS = {
    make.__name__: make
    for make in (tracking, corners, exponentials, kinks, ridge, concave, parts, revenue)
}
# For each limit that decides something here: the models above it.
USED_BY = {
    "SIZES_FROM_HESSIAN": ["tracking", "exponentials"],
    "SEPARATE_PARTS": ["tracking", "corners"],
    "COPIED_CONSTANT": ["tracking"],
    "STUDIED_CURVATURES": ["tracking", "corners", "ridge"],
    "HESSIAN_PRODUCTS": ["kinks", "ridge"],
    "FULL_FACTOR": ["kinks"],
    "FEW_LOOKS": ["tracking"],
    "TREE_PAIRS": ["tracking", "corners", "revenue"],
    "TREE_PAIRS_OF_A_STEP": ["exponentials"],
    "PIECE_UNKNOWNS": ["tracking", "corners", "kinks", "revenue"],
    "RELAXED_LAST": ["tracking", "corners"],
    "RESCUE_UNKNOWNS": ["tracking", "exponentials"],
    "EVERY_SEARCH": ["ridge"],
    "CHEAP_DESCENTS": ["tracking"],
    "BOTH_PATHS": ["tracking"],
    "TEN_STARTS": ["tracking"],
    "SIX_STARTS": ["tracking", "kinks"],
    "THREE_STARTS": ["tracking"],
    "SAMPLED_VARIABLES": ["corners", "exponentials"],
    "KINK_FREE_VARIABLES": ["kinks"],
    "UNSEARCHED_PAIRS": ["tracking", "revenue"],
    "FITTED_MULTIPLIERS": ["concave"],
    "DENSE_JACOBIAN": ["tracking", "corners"],
    "ANSWER_CURVATURE": ["exponentials"],
    "DENSE_OPTIMALITY_SYSTEM": ["tracking", "exponentials"],
    "PLAIN_SYSTEM": ["exponentials"],
    "REFINED_DENSE_HESSIAN": ["exponentials"],
    "PLAIN_PRODUCTS": ["tracking"],
    "DENSE_CHOLESKY": ["tracking", "kinks"],
    "DENSE_ACTIVE_SET": ["tracking", "corners"],
    "DENSE_ACTIVE_SET_IF_FULL": ["tracking"],
    "DENSE_PIECE": ["tracking", "revenue"],
    "COMPACT_MATRIX": ["tracking", "corners"],
    "FIRST_FACTORISATION": ["tracking", "revenue"],
    "INTERIOR_POINT_LP": ["corners"],
    "DEPENDENCE_WORK": ["corners"],
    "PARTS_FIRST": ["parts"],
    "PARTS": ["parts"],
    "MEETING_PRODUCTS": ["tracking", "parts"],
    "BOX_CORNERS": ["concave"],
}
OF_THE_CERTIFICATE = (
    "STUDIED_WHEN_PROVEN",
    "INTERIOR_POINT_CHECK",
    "UNIQUENESS_TEST",
    "CURVED_UNKNOWNS",
    "CURVED_DIRECTIONS",
    "PIECES_ONE_BY_ONE",
    "FIXED_MULTIPLIERS",
    "ASKED_AGAIN",
)
# Where the claim is weaker for a reason, which the limit states: matrices that would fill the memory.
WEAKER = {("STUDIED_CURVATURES", "ridge"), ("HESSIAN_PRODUCTS", "ridge")}


def solved(name, **arguments):
    """Value, status and problem; searches that take long are cut short, below and above alike."""
    problem = MODELS[name]()
    value = problem.solve(effort="quick" if name == "ridge" else "normal", **arguments)
    return value, problem.status, problem


@cache
def below(name):
    """What is found while every limit is far away."""
    return solved(name)


def lower_limit(monkeypatch, name, value=1):
    """Make a limit so small that models lie above it."""
    usual = limits.LIMITS[name]
    monkeypatch.setattr(limits, name, Limit(value, usual.unit, usual.reason))


def is_weaker(status, than):
    return STRONGEST_FIRST.index(status) > STRONGEST_FIRST.index(than)


@pytest.mark.parametrize(
    ("limit", "model"), [(k, name) for k, names in USED_BY.items() for name in names]
)
def test_auto_finds_the_same_above_a_limit(limit, model, monkeypatch):
    value, status, _ = below(model)
    lower_limit(monkeypatch, limit)
    above, claim, _ = solved(model)
    assert above == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert (limit, model) in WEAKER or not is_weaker(claim, status)


@pytest.mark.parametrize(
    "model", first_few(["tracking", "corners", "exponentials", "kinks", "ridge", "revenue"], 3)
)
def test_the_certificate_claims_the_same_above_a_limit(model, monkeypatch):
    _, _, problem = below(model)
    point = problem.levels.x.pack(), problem.levels.y.pack()
    claim = bm.certify(problem, *point).claim
    for limit in OF_THE_CERTIFICATE:
        with monkeypatch.context() as patched:
            lower_limit(patched, limit)
            again = bm.certify(MODELS[model](), *point)
        assert again.accepted and not is_weaker(again.claim, claim), limit


@pytest.mark.parametrize("limit", ["BOUNDED_AT_ONCE", "FORMULAS_AT_ONCE"])
def test_global_bounds_come_later_above_a_limit_and_a_confirmed_answer_does_not_wait(limit, monkeypatch):
    value, _, _ = below("exponentials")
    lower_limit(monkeypatch, limit)
    above, claim, problem = solved("exponentials")
    assert above == pytest.approx(value, rel=1e-5)
    assert not is_weaker(claim, "locally_optimal")
    assert any(step.name == "global bounds" and step.first_level > 0 for step in problem.plan().steps)
