"""The blocks of a lower level, from what its expressions can tie together."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from blomodel.compiler.blocks import Block
from blomodel.programs.parametric import ParametricProgram

NOTHING = np.zeros(0)


def _program(objective: cp.Expression, rows: list, x: cp.Variable, y: list) -> ParametricProgram:
    blocks = {"x": Block("x", [x]), "y": Block("y", y), "p": Block("p", [])}
    bounds = np.full(x.size, -1.0), np.full(x.size, 1.0)
    return ParametricProgram([objective], rows, x_bounds=bounds, **blocks)


def test_vectorised_followers_are_blocks() -> None:
    x, z = cp.Variable(2, name="x"), cp.Variable((3, 2), name="z")
    worth = np.arange(6.0).reshape(3, 2)
    program = _program(
        cp.sum_squares(z) + cp.sum(cp.multiply(np.ones((3, 1)) @ cp.reshape(x, (1, 2), "F") - worth, z)),
        [cp.sum(z, axis=1) <= 1, z >= 0],
        x,
        [z],
    )
    assert [list(block) for block in program.blocks] == [[0, 3], [1, 4], [2, 5]]
    at = np.array([0.3, -0.2])
    gains = 0.5 * (worth - at)
    answer = program.solve(at, NOTHING)
    for k in range(3):
        one = cp.Variable(2)
        cp.Problem(cp.Minimize(cp.sum_squares(one - gains[k])), [cp.sum(one) <= 1, one >= 0]).solve(
            cp.CLARABEL
        )
        np.testing.assert_allclose(answer.y.reshape(2, 3).T[k], one.value, atol=1e-7)


def test_a_product_that_is_zero_now_ties_all_the_same() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    program = _program(cp.sum_squares(y) + x * cp.square(y[0] - y[2]), [], x, [y])
    assert [list(block) for block in program.blocks] == [[0, 2], [1]]


def test_a_cone_ties_its_variables() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    program = _program(
        cp.sum(y) + 0 * x, [cp.SOC(cp.Constant(1.0), y[:2]), cp.square(y[2]) <= 1], x, [y]
    )
    assert [list(block) for block in program.blocks] == [[0, 1], [2]]
