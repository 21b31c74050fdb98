"""The same problem has the same fingerprint wherever it is stated; any change of data shows."""

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import blomodel as bm
from blomodel.declare.fingerprint import fingerprint


def made(data=None, nonneg=False, bound=2.0, is_sparse=False, waste=0):
    for _ in range(waste):
        cp.Variable()  # names that cvxpy makes up go on
    data = np.arange(60.0).reshape(20, 3) if data is None else data
    x, y, p = cp.Variable(3, nonneg=nonneg), cp.Variable(3), cp.Parameter(value=1.0)
    matrix = sp.csr_array(data) if is_sparse else data
    lower = bm.Lower(cp.Minimize(cp.sum_squares(matrix @ y - p) + cp.sum_squares(y - x)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) + cp.sum(y)), [x <= bound], lower)


def test_only_the_problem_counts():
    one = np.ones(1)
    own = fingerprint(made(), one)
    assert own == fingerprint(made(waste=7), one)
    changed = np.arange(60.0).reshape(20, 3)
    changed[7, 1] += 1e-12
    others = [made(changed), made(nonneg=True), made(bound=2.5), made(is_sparse=True)]
    assert own not in [fingerprint(other, one) for other in others]
    assert fingerprint(made(changed, is_sparse=True), one) != fingerprint(made(is_sparse=True), one)
    assert own != fingerprint(made(), 2 * one)
