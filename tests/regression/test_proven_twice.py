"""A bound that SCIP shows on one statement of a relaxation, and refutes on another, is no bound."""

from __future__ import annotations

import cvxpy as cp
import pytest

import blomodel as bm

pytest.importorskip("pyscipopt")


@pytest.mark.slow
def test_three_followers_with_products_and_a_cubic():
    # SCIP 10 "proves" 1.3496 on the pairs as sets of type SOS1, although f = -0.4014 at x = 0.9:
    # there the followers answer (-0.2, -0.0111), (2.3628, -0.2443) and -2.
    x = cp.Variable(name="x")
    a, b, c = cp.Variable(2, name="a"), cp.Variable(2, name="b"), cp.Variable(name="c")
    first = bm.Lower(
        cp.Minimize(a[0] * a[1] * x + 0.9 * cp.sum_squares(a) + 0.3 * a[0] + 0.2 * a[1]),
        [a >= [-2, -1], a <= [-0.2, 2.4]],
        variables=[a],
    )
    disc = cp.sum_squares(b - [1.8, 0.6]) <= 0.9 + (0.4 * x) ** 2
    second = bm.Lower(
        cp.Minimize(1.8 * b[1] - 1.2 * b[0]), [b >= [0, -1], b <= [3.6, 2.2], disc], variables=[b]
    )
    third = bm.Lower(cp.Minimize(c**3 - 2 * x * c - 1.1 * c), [c >= -2, c <= 1.6], variables=[c])
    f = cp.exp(0.5 * x) + 1.6 * cp.abs(x - 1.8) - 0.4 * (a[0] + a[1]) - b[0] - 1.1 * b[1] + 0.7 * c
    row = -2 * x - 0.9 * a[0] - 0.5 * a[1] - 0.1 * b[0] + 0.3 * b[1] - 0.5 * c <= -0.1
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 3, row], [first, second, third])
    problem.solve(time_limit=6)
    assert problem.certificate.bound is None or problem.certificate.bound <= -0.4412
    assert problem.status != "optimal" or problem.value <= -0.44
