"""Second derivatives of the KKT reformulation, against central differences of its Lagrangian by hand."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.model.kkt_hessian import KktWeights

STEP = 1e-4


def test_matrix_and_product_against_differences(rng: np.random.Generator) -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    below = cp.sum(cp.exp(y)) + cp.sum_squares(y - x[0]) * 2 + y[0] * x[1]
    lower = bm.Lower(cp.Minimize(below), [cp.sum_squares(y) <= 2, cp.sum(y) == x[0]], variables=[y])
    f = cp.sum(cp.exp(x)) + cp.nlp.sin(y[0]) * x[1]
    model = bm.BilevelProblem(cp.Minimize(f), [cp.sum_squares(x) <= 3, x[0] <= 1], lower).model
    upper = rng.normal(size=len(model.upper_in)), rng.normal(size=0)
    rows, equal = rng.normal(size=1), rng.normal(size=1)
    stationarity, z = rng.normal(size=3), rng.normal(size=7)

    def lagrangian(z: np.ndarray) -> float:
        a, b, (inside, on) = z[:2], z[2:5], z[5:]
        above = np.exp(a).sum() + np.sin(b[0]) * a[1]
        values = {"ball": a @ a - 3, "bound": a[0] - 1}
        # The rows come in the order in which they were written.
        above += upper[0] @ [values["ball"], values["bound"]]
        slope = np.exp(b) + 4 * (b - a[0]) + np.eye(3)[0] * a[1] + 2 * inside * b + on
        return float(above + rows[0] * (b @ b - 2) + equal[0] * (b.sum() - a[0]) + stationarity @ slope)

    units = STEP * np.eye(7)
    expected = np.array(
        [
            [
                lagrangian(z + i + j)
                - lagrangian(z + i - j)
                - lagrangian(z - i + j)
                + lagrangian(z - i - j)
                for j in units
            ]
            for i in units
        ]
    ) / (4 * STEP**2)
    point, none = (z[:2], z[2:5]), np.zeros(0)
    weights = KktWeights(own=z[5:], upper=upper, lower=(rows, equal), stationarity=stationarity)
    found = model.kkt_hessian.matrix(*point, none, weights).toarray()
    np.testing.assert_allclose(found, expected[:5, :5], atol=1e-5)
    for direction in np.eye(7):
        product = model.kkt_hessian.product(*point, none, weights, direction)
        np.testing.assert_allclose(product, expected @ direction, atol=1e-5)
    moves = rng.normal(size=(5, 3))
    products = model.kkt_hessian.products(*point, none, weights, moves)
    np.testing.assert_allclose(products, found @ moves, atol=1e-12)
    assert model.kkt_hessian.products(*point, none, weights, moves[:, :0]).shape == (5, 0)
