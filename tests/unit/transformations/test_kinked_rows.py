import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import blomodel as bm
from blomodel.transformations.kinked_rows import rows_for

x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
WEIGHTS = np.array([1.0, 2.0, 3.0])

# A constraint, and how many plain constraints it stands for.
CASES = [
    (cp.abs(y) <= 2, 2),
    (-cp.abs(y) >= -x, 2),
    (2 * cp.abs(y) + x <= 1, 2),
    (cp.abs(y) / 0.7 <= 1, 2),
    (cp.multiply(WEIGHTS, cp.abs(y)) <= x, 2),
    (cp.abs(x * y) <= 1, 2),
    (cp.norm_inf(y) <= x, 2),
    (cp.norm(y, "inf") + x <= 1, 2),
    (cp.max(y) <= x, 1),
    (cp.min(y) >= x, 1),
    (-2 * cp.min(y) <= x, 1),
    (cp.maximum(y, x, 0) <= 3, 2),
    (cp.maximum(cp.abs(x), y[0]) <= 1, 3),
    (cp.minimum(y, x) >= -1, 2),
]
KEPT = [
    cp.abs(y) >= 1,
    cp.norm1(y) <= 1,
    cp.norm(y) <= 1,
    cp.abs(x) + y <= 1,
    cp.maximum(y, 5) <= 3,
    cp.abs(y[0]) + cp.abs(y[1]) <= 1,
    y == 1,
    y <= x,
]


@pytest.mark.parametrize(("constraint", "count"), CASES, ids=lambda case: str(case))
def test_rows_hold_exactly_where_the_constraint_does(constraint, count):
    rows = rows_for(constraint)
    assert len(rows) == count
    assert not any(
        atom in (cp.abs, cp.max, cp.min, cp.maximum, cp.minimum, cp.norm_inf)
        for row in rows
        for atom in row.atoms()
    )
    random, held = np.random.default_rng(3), 0
    for _ in range(200):
        x.value, y.value = 2 * random.normal(), random.normal(size=3)
        holds = bool(np.all(constraint.violation() <= 1e-12))
        assert holds == all(np.all(row.violation() <= 1e-12) for row in rows)
        held += holds
    assert 0 < held < 200


@pytest.mark.parametrize("constraint", KEPT, ids=str)
def test_what_is_no_single_kink_stays(constraint):
    (row,) = rows_for(constraint)
    assert row is constraint


def test_multipliers_are_those_that_cvxpy_gives_the_constraint():
    u, z = cp.Variable(2, name="u"), cp.Variable(2, name="z")
    box, cap = cp.abs(z) <= 0.5, cp.max(z) <= 0.4
    lower = bm.Lower(cp.Minimize(cp.sum_squares(z - u)), [box, cap], variables=[z])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(u - np.array([2.0, -1.0])) + z[0]), [], lower)
    problem.solve()
    found = [np.array(box.dual_value), np.array(cap.dual_value)]
    at = u.value
    cp.Problem(cp.Minimize(cp.sum_squares(z - at)), [box, cap]).solve(solver=cp.CLARABEL)
    for mine, theirs in zip(found, (box.dual_value, cap.dual_value), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_a_box_stated_by_absolute_values_is_a_box():
    # min over w, max over d in a box: the worst d is a corner, whatever way the box is stated.
    a = np.array([1.0, 2.0, -0.5])
    values = []
    for way in (0, 1):
        w, d = cp.Variable(3, name="w"), cp.Variable(3, name="d")
        misfit = cp.square(w @ a + w @ d - 1)
        box = [cp.abs(d) <= 0.2] if way else [d <= 0.2, d >= -0.2]
        lower = bm.Lower(cp.Maximize(misfit), box, variables=[d])
        upper = cp.Minimize(misfit + 0.1 * cp.sum_squares(w))
        values.append(bm.BilevelProblem(upper, [w <= 5, w >= -5], lower).solve())
    # The worst case is (|w.a - 1| + 0.2 |w|_1)^2, which cvxpy minimises as it stands.
    v = cp.Variable(3)
    worst = cp.abs(v @ a - 1) + 0.2 * cp.norm1(v)
    truth = cp.Problem(cp.Minimize(cp.square(worst) + 0.1 * cp.sum_squares(v))).solve()
    np.testing.assert_allclose(values, truth, rtol=1e-4)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
def test_rows_with_a_sparse_matrix_stay_as_they_are(kind):
    y = cp.Variable(3)
    row = kind(np.eye(3)) @ y <= 1
    assert rows_for(row) == [row]


def test_a_kink_times_sparse_numbers_is_seen():
    y = cp.Variable((2, 2))
    row = cp.multiply(sp.csr_array(np.full((2, 2), 2.0)), cp.abs(y)) <= 1
    assert len(rows_for(row)) == 2
