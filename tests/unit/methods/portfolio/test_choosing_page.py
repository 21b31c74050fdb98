"""What the page on choosing says of auto is what its plan does."""

import cvxpy as cp

import blomodel as bm


def steps(lower_objective, e, t):
    lower = bm.Lower(lower_objective, [e >= 0, e <= 5], variables=[e])
    problem = bm.BilevelProblem(cp.Maximize(t * e - e**2), [0.5 <= t, t <= 8], lower)
    return str(problem.plan())


def test_the_rows_for_curved_and_nonconvex_lower_levels():
    t, e = cp.Variable(name="t"), cp.Variable(name="e")
    curved = steps(cp.Maximize(8 * cp.log(1 + e) - t * e), e, t)
    places = [curved.index(word) for word in ("descent on phi", "global bounds", "sample of phi")]
    assert places == sorted(places) and "reduced penalty" in curved
    other = steps(cp.Minimize(cp.nlp.cos(3 * e) + t * e), e, t)
    places = [other.index(word) for word in ("global bounds", "sample of phi", "value cuts")]
    assert places == sorted(places)
