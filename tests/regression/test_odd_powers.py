"""cvxpy reads y**3 as convex on y >= 0; a plain cube must not pass as a convex lower level."""

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.errors import NonconvexLowerError


def build(*bounds):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**3 / 3 - x * y), [b(y) for b in bounds], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 0.25) ** 2 + y**2), [-1 <= x, x <= 1], lower)


def test_cube_over_both_signs_is_refused():
    problem = build(lambda y: y >= -1, lambda y: y <= 1)
    with pytest.raises(NonconvexLowerError, match="'y'.*y >= 0"):
        problem.solve(method="reduced-penalty")


def test_cube_over_both_signs_is_checked_by_branch_and_bound():
    problem = build(lambda y: y >= -1, lambda y: y <= 1)
    # At x = 1/4 the cube falls to -1/12 at y = 1/2 and also at the bound y = -1.
    certificate = bm.certify(problem, 0.25, 0.5)
    assert certificate.accepted
    assert certificate.checked_by == "SCIP's branch and bound"
    assert "optimal" not in certificate.claim
    # At x = 0 the minimiser is y = -1, not the saddle y = 0.
    refused = bm.certify(problem, 0.0, 0.0)
    assert not refused.accepted
    assert refused.lower_value == pytest.approx(-1 / 3)


def test_cube_over_nonnegative_y_is_accepted():
    problem = build(lambda y: y >= 0, lambda y: y <= 1)
    problem.solve()
    # y = sqrt(max(x, 0)); at x <= 0 y = 0, so x = 0 gives 1/16, beaten by no positive x.
    assert problem.value == pytest.approx(0.0625, abs=1e-5)
    assert problem.certificate.accepted
