"""0.25 * -(y) lost its minus where a lower level is a cone program, so that y >= 0 became y <= 0."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


@pytest.mark.parametrize(
    "row",
    [
        lambda x, y: 0.25 * -(y[0]) <= 0,
        lambda x, y: 3 * (-(2 * y[0])) <= 0,
        lambda x, y: cp.exp(x) * -(y[0]) <= 0,
        lambda x, y: -(y[0]) / 4 <= 0,
        lambda x, y: -(0.5 * -(y[0])) >= 0,
    ],
)
def test_a_minus_within_a_product_stays(row):
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = cp.exp(y[0]) + cp.exp(y[1] - x)
    lower = bm.Lower(cp.Minimize(g), [row(x, y), y[1] >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 0.5) ** 2), [0 <= x, x <= 1], lower)
    z = cp.Variable(2)
    wanted = cp.Problem(
        cp.Minimize(cp.exp(z[0]) + cp.exp(z[1] - 0.5)), [row(cp.Constant(0.5), z), z[1] >= 0]
    ).solve(solver=cp.CLARABEL)
    found = problem.model.lower_program.solve(np.array([0.5]), np.zeros(0))
    assert found.value == pytest.approx(wanted, abs=1e-6)
