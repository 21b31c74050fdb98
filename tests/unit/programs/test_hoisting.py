"""Hoisting: what holds no y becomes a parameter, with its sign, and the rest keeps its meaning."""

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.utilities.scopes import dpp_scope

from blomodel.compiler.blocks import Block
from blomodel.programs.hoisting import Hoister, signed_factor
from blomodel.programs.parametric import ParametricProgram

X, Y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
DATA = cp.Parameter(nonneg=True, name="data", value=2.0)


def hoister(low=-5.0, high=5.0):
    blocks = Block("x", [X]), Block("y", [Y]), Block("p", [DATA])
    return Hoister(blocks, (np.full(2, low), np.full(2, high)))


def value_of(tool, rewritten, x, y):
    """The rewritten expression at a point, with the parameters computed as the tool says."""
    p = np.array([2.0])
    X.save_value(x)
    for parameter, expression in tool.hoisted:
        parameter.save_value(np.asarray(expression.value, float).reshape(parameter.shape, order="F"))
    for parameter, compute in tool.computed:
        parameter.save_value(compute(x, p).reshape(parameter.shape, order="F"))
    tool.variables()[0].save_value(y)
    return rewritten.value


@pytest.mark.parametrize(
    ("expression", "n_hoisted"),
    [
        (cp.exp(X[0]) * cp.norm1(Y), 1),
        (cp.sum(cp.exp(Y)) / (2 + cp.nlp.cos(4 * X[1])) - X[0], 2),
        (X[0] * (X[1] * Y[0]), 1),
        (DATA * (cp.exp(X[0]) * cp.square(Y[0])) / (1 + X[1] ** 2), 1),
        (cp.norm(Y - cp.hstack([X, X[0] * X[1]])), 1),
        (-(cp.exp(X[0]) * cp.abs(Y[1])) / 3, 1),
        (cp.multiply(cp.exp(X), Y[:2]), 1),
        (cp.sum(Y) + 3, 0),
    ],
    ids=str,
)
def test_one_parameter_for_each_maximal_part(expression, n_hoisted):
    tool = hoister()
    rewritten = tool(expression)
    assert len(tool.hoisted) == n_hoisted
    assert not any(variable is X for variable in rewritten.variables())
    with dpp_scope():
        assert rewritten.is_dcp()
    x, y = np.array([0.3, -0.7]), np.array([1.0, -2.0, 0.5])
    Y.save_value(y)
    found = value_of(tool, rewritten, x, y)
    assert found == pytest.approx(expression.value, abs=1e-12)


def test_sign_from_bounds_of_x():
    expression = X[0] * cp.exp(Y[0])
    assert hoister(0.0, 2.0)(expression).is_convex()
    assert hoister(-2.0, 0.0)(expression).is_concave()
    assert not hoister(-2.0, 2.0)(expression).is_dcp()


@pytest.mark.parametrize(
    "expression",
    [
        X[0] * (X[1] * Y[0] - Y[1]) + X[1] ** 2,
        cp.vstack([X, 2 * X]) @ (cp.diag(X) @ Y[:2]),
        cp.multiply(X, X[0] * Y[:2] + Y[1:]) @ np.array([1.0, 2.0]),
    ],
    ids=str,
)
def test_affine_from_coefficients(expression):
    tool = hoister()
    rewritten = tool.affine(expression)
    with dpp_scope():
        assert rewritten.is_affine()
    x, y = np.array([0.3, -0.7]), np.array([1.0, -2.0, 0.5])
    Y.save_value(y)
    found = value_of(tool, rewritten, x, y)
    assert found == pytest.approx(expression.value, abs=1e-12)


def test_not_affine():
    assert hoister().affine(cp.square(Y[0])) is None


def test_quadratic_rows_from_coefficients():
    expression = cp.hstack([Y[0] * Y[1] + Y[0] ** 2 + Y[1] ** 2 + X[0] * Y[2], Y[2] * Y[2] - X[1]])
    tool = hoister()
    rewritten = tool.quadratic_rows(expression)
    assert rewritten.is_convex() and hoister().quadratic_rows(-expression).is_concave()
    x, y = np.array([0.3, -0.7]), np.array([1.0, -2.0, 0.5])
    Y.save_value(y)
    assert value_of(tool, rewritten, x, y) == pytest.approx(expression.value, abs=1e-12)
    assert hoister().quadratic_rows(Y[0] * Y[1]) is None  # indefinite
    assert hoister().quadratic_rows(X[0] * Y[0] ** 2) is None  # not constant


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_signed_factor(sign):
    import scipy.sparse as sp

    M = np.random.default_rng(0).standard_normal((4, 2))
    Q = np.zeros((5, 5))
    Q[:4, :4] = sign * M @ M.T
    found, F = signed_factor(sp.csc_array(Q))
    assert found == sign and np.allclose(sign * (F.T @ F).toarray(), Q)
    assert signed_factor(sp.csc_array(np.diag([1.0, -1.0]))) is None


def test_lifting_ties_a_variable_to_a_curved_factor():
    expression = cp.exp(X[0]) * cp.huber(Y[0] - X[1])
    tool = hoister()
    plain = tool(expression)
    with dpp_scope():
        assert plain.is_convex() is False
    lifted = tool.lifted(expression)
    assert len(tool.bounds) == 1
    with dpp_scope():
        assert lifted.is_convex() and tool.bounds[0].is_dcp()


def test_root_of_squares_is_a_norm() -> None:
    """sqrt(y1^2 + (y2 - 1)^2) is not convex by cvxpy's rules as written, but it is a norm."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    blocks = Block("x", [x]), Block("y", [y]), Block("p", [])
    program = ParametricProgram(
        [cp.sqrt(y[0] ** 2 + (y[1] - 1) ** 2) - y[0] * x],
        [y <= 5],
        x=blocks[0],
        y=blocks[1],
        p=blocks[2],
    )
    answer = program.solve(np.array([0.5]), np.empty(0))
    # Below slope 1 the apex (0, 1) is the minimiser.
    np.testing.assert_allclose(answer.y, [0.0, 1.0], atol=1e-4)
