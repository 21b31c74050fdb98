"""Strong duality with enclosed products: valid at every answer, and a bound where there was none."""

from __future__ import annotations

import dataclasses
import types

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import blomodel as bm
from blomodel.methods.search.pieces import ExactPieces
from blomodel.reformulations.forms.duality_products import with_duality_products
from blomodel.solvers.complementarity import solve_globally
from tests.support.slow_cases import first_few


def market(seed, *, is_quadratic=False, moves_rows=False, uses_price=True, price_weight=0.5):
    """Offers of the upper level are costs of the lower one, whose multiplier is a price."""
    draw = np.random.default_rng(seed)
    n_x, n_y = 2, 4
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    share = draw.uniform(0.5, 1.5, n_y)
    demand = share @ y == 2.0
    shift = 0.3 * draw.standard_normal((2, n_x)) if moves_rows else np.zeros((2, n_x))
    limits = draw.standard_normal((2, n_y)) @ y <= draw.uniform(1, 2, 2) + shift @ x
    cost = (draw.uniform(1, 3, n_y) + draw.uniform(0, 1, (n_y, n_x)) @ x) @ y
    if is_quadratic:
        cost += cp.sum_squares(cp.multiply(draw.uniform(0.2, 1, n_y), y))
    lower = bm.Lower(cp.Minimize(cost), [demand, limits, y >= 0, y <= 2], variables=[y])
    upper = draw.standard_normal(n_x) @ x + draw.standard_normal(n_y) @ y
    if uses_price:
        upper += price_weight * lower.multiplier(demand)
    return bm.BilevelProblem(cp.Minimize(upper), [x >= -1, x <= 1], lower)


def pieces_of(problem):
    model, p = problem.model, problem.parameter_values()
    plain = ExactPieces(types.SimpleNamespace(model=model, p=p)).qp
    return plain, with_duality_products(plain, model, p)


KINDS = [
    {"uses_price": False},
    {},
    {"is_quadratic": True},
    {"moves_rows": True},
    {"moves_rows": True, "uses_price": False, "is_quadratic": True},
]


@pytest.mark.parametrize("kind", first_few(KINDS, 2))
def test_lower_answers_at_any_x_keep_every_row(kind):
    draw, seen = np.random.default_rng(1), 0
    for seed in range(3):
        plain, joined = pieces_of(market(seed, **kind))
        n, n_new = len(plain.q), len(joined.q) - len(plain.q)
        assert n_new == 8  # all pairs of the two x and the four y
        for _ in range(3):
            # Some piece at this x: the plain problem knows nothing of the rows.
            at = sp.csr_array(np.eye(2, n))
            here = dataclasses.replace(
                plain,
                P=1e-3 * sp.eye_array(n, format="csc"),
                q=0.01 * draw.standard_normal(n),
                A_eq=sp.vstack([plain.A_eq, at]),
                b_eq=np.concatenate([plain.b_eq, draw.uniform(-1, 1, 2)]),
            )
            z = solve_globally(here).z
            if z is None:
                continue
            seen += 1
            assert _fits(joined, n, z)
    assert seen >= 6


def _fits(joined, n, z):
    """Whether z with its products satisfies all rows; the planes name the two factors of each."""
    A, products = sp.csr_array(joined.A_in), []
    is_plane = np.diff(A.indptr) <= 3
    for w in range(n, A.shape[1]):
        planes = A[is_plane & (np.abs(A[:, [w]]).toarray().ravel() > 0)]
        factors = np.flatnonzero(np.abs(planes[:, :n]).sum(axis=0))
        assert len(factors) == 2
        products.append(np.prod(z[factors]))
    full, small = np.concatenate([z, products]), 1e-7 * (1 + np.abs(z).max())
    excess = A @ full - joined.b_in
    return excess.max() < small and np.abs(joined.A_eq @ full - joined.b_eq).max() < small


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_stays_where_it_was(kind):
    for seed in range(4):
        plain, joined = (solve_globally(qp, node_limit=5000) for qp in pieces_of(market(seed, **kind)))
        assert plain.status is joined.status
        if plain.z is not None:
            assert joined.value == pytest.approx(plain.value, rel=1e-6, abs=1e-6)


def test_a_price_is_bounded_before_any_pair_is_decided():
    problem = market(0, price_weight=-0.5)
    plain, joined = pieces_of(problem)
    at_first = [qp.pieces.solve(qp.pieces.free_sides).status.name for qp in (plain, joined)]
    assert at_first == ["UNBOUNDED", "OPTIMAL"]
    problem.solve()
    assert problem.status == "optimal"
