"""Kinked atoms as variables and rows: same problem, same answer, exact at the kinks."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.blocks import Block
from blomodel.errors import NonconvexLowerError
from blomodel.programs.lifting import Lifting
from blomodel.programs.parametric import ParametricProgram
from blomodel.solvers.answer import Answer, InnerStatus

NO_P = np.zeros(0)
A = np.random.default_rng(4).standard_normal((5, 3))
X = np.array([0.4, 0.7])


def program(build):
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    terms, constraints = build(x, y)
    blocks = {"x": Block("x", [x]), "y": Block("y", [y]), "p": Block("p", [])}
    return ParametricProgram(terms, constraints, **blocks, x_bounds=(np.zeros(2), np.ones(2)))


def fit(y):
    return cp.sum_squares(A @ y - 1)


CASES = {
    "norm1": lambda x, y: ([fit(y) + x[0] * cp.norm1(y)], []),
    "abs": lambda x, y: ([fit(y) + cp.sum(cp.multiply(cp.hstack([x, 3]), cp.abs(y - x[1])))], []),
    "max": lambda x, y: ([fit(y) + cp.max(y - x[0]) + x[1] * y[0]], []),
    "norm_inf": lambda x, y: ([fit(y)], [cp.norm_inf(y) <= 0.1 + 0.1 * x[0]]),
    "pos": lambda x, y: ([0.1 * cp.sum_squares(y) + cp.sum(cp.pos(1 - A @ y * (x[0] + 1)))], []),
    "maximum": lambda x, y: ([fit(y)], [cp.maximum(y[0], 2 * y[1] - x[0]) <= -1]),
    "huber": lambda x, y: ([cp.sum(cp.huber(A @ y - 2 * x[0], 0.3)) + 0.01 * cp.sum_squares(y)], []),
    "concave rows": lambda x, y: ([fit(y)], [cp.min(y[:2]) >= x[0] - 0.2, -cp.abs(y[2]) >= -x[1] / 50]),
    "products": lambda x, y: ([fit(y) + y[0] * y[0] + cp.exp(x[0]) * cp.abs(y[1])], []),
}


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_same_answer_as_cvxpy(build):
    lower = program(build)
    answer = lower.solve(X, NO_P)
    assert lower.kind == "QP" and answer.status is InnerStatus.OPTIMAL and len(answer.y) == 3
    y = cp.Variable(3)
    terms, constraints = build(cp.Constant(X), y)
    if build is CASES["products"]:
        terms = [fit(y) + cp.square(y[0]) + np.exp(X[0]) * cp.abs(y[1])]
    value = cp.Problem(cp.Minimize(terms[0]), constraints).solve(cp.CLARABEL)
    assert answer.value == pytest.approx(value, abs=1e-6)
    assert answer.y == pytest.approx(y.value, abs=1e-4)
    for ours, constraint in zip(answer.duals, constraints, strict=True):
        assert ours == pytest.approx(constraint.dual_value, abs=1e-4)


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_gradient_and_solution_jacobian(build):
    lower, step = program(build), 1e-6
    answer = lower.solve(X, NO_P)
    ahead, behind = ([lower.solve(X + s * step * e, NO_P) for e in np.eye(2)] for s in (1.0, -1.0))
    slope = [(a.value - b.value) / (2 * step) for a, b in zip(ahead, behind, strict=True)]
    assert lower.gradient(X, NO_P, (1.0,), answer) == pytest.approx(slope, abs=1e-7)
    jacobian = lower.solution_jacobian(X, NO_P, (1.0,), answer)
    moved = [(a.y - b.y) / (2 * step) for a, b in zip(ahead, behind, strict=True)]
    assert jacobian == pytest.approx(np.array(moved).T, abs=1e-6)


def test_an_answer_without_the_new_variables_still_has_a_gradient():
    lower = program(CASES["norm_inf"])
    answer = lower.solve(X, NO_P)
    bare = Answer(answer.status, answer.value, answer.y, answer.duals)
    full = lower.gradient(X, NO_P, (1.0,), answer)
    assert lower.gradient(X, NO_P, (1.0,), bare) == pytest.approx(full, abs=1e-9)


def test_only_convex_positions_are_lifted():
    with pytest.raises(NonconvexLowerError):
        program(lambda x, y: ([fit(y) - cp.abs(y[0])], []))
    with pytest.raises(NonconvexLowerError):
        program(lambda x, y: ([fit(y)], [cp.abs(y[0]) >= x[0]]))


def test_what_has_no_kinks_stays_as_written():
    x, y = cp.Variable(2), cp.Variable(3)
    terms, constraints = [fit(y)], [y <= x[0]]
    block = Block("y", [y])
    blocks = Block("x", [x]), block, Block("p", [])
    lifting = Lifting(terms, constraints, blocks, (np.zeros(2), np.ones(2)))
    assert lifting.y is block
    assert lifting.terms[0] is terms[0] and lifting.constraints[0] is constraints[0]
