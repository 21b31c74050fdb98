"""Stacked expressions have the values of their members, as cvxpy itself computes them."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.expressions.stacking import Forms, NotAlike, Stack

N = 4
RANDOM = np.random.default_rng(0)
SHARED = cp.Variable(3, name="shared")
NUMBER = cp.Variable(name="number")
MATRIX = cp.Variable((N, 3), name="matrix")
PRICE = cp.Parameter(3, name="price", value=[1.0, 2.0, 3.0])
VECTORS = [cp.Variable(3, name=f"v{k}") for k in range(N)]
TABLES = [cp.Variable((2, 3), name=f"t{k}") for k in range(N)]
SCALARS = [cp.Variable(name=f"s{k}") for k in range(N)]
A = RANDOM.standard_normal((N, 2, 3))
B = RANDOM.uniform(1, 2, (N, 3))
P = np.stack([m @ m.T for m in RANDOM.standard_normal((N, 3, 3))])

ROWS = {
    "matrix of its own": lambda k: A[k] @ VECTORS[k] - B[k, :2],
    "one matrix for all": lambda k: A[0] @ VECTORS[k] <= 1,
    "matrix on the right": lambda k: VECTORS[k] @ A[k].T,
    "matrix times a table": lambda k: A[0][:, :2] @ TABLES[k],
    "of the shared variable": lambda k: A[k] @ SHARED + SCALARS[k],
    "sum": lambda k: cp.sum(VECTORS[k]) - k,
    "sum along an axis": lambda k: cp.sum(TABLES[k], axis=0) + VECTORS[k],
    "row of a matrix": lambda k: MATRIX[k] - VECTORS[k],
    "entries": lambda k: VECTORS[k][1:] * 2.0,
    "transposed": lambda k: TABLES[k].T,
    "side by side": lambda k: cp.hstack([VECTORS[k], SCALARS[k], SHARED[0]]),
    "on top of each other": lambda k: cp.vstack([VECTORS[k], SHARED]),
    "by entry": lambda k: cp.exp(VECTORS[k]) + cp.multiply(B[k], cp.square(VECTORS[k] - SHARED)),
    "scalar spread": lambda k: SCALARS[k] + VECTORS[k] * NUMBER,
    "quotient": lambda k: VECTORS[k] / B[k] - PRICE,
    "product of variables": lambda k: SHARED @ VECTORS[k] - SCALARS[k],
    "squares": lambda k: cp.sum_squares(VECTORS[k] - B[k]) - SCALARS[k],
    "largest": lambda k: cp.max(VECTORS[k]) + cp.norm1(VECTORS[k]) + cp.norm_inf(VECTORS[k]),
    "two functions": lambda k: cp.maximum(VECTORS[k], SHARED) + cp.abs(VECTORS[k] - 1),
}

SUMS = {
    "revenue": lambda k: B[k, 0] * (SHARED @ VECTORS[k]),
    "gain": lambda k: (B[k] - SHARED) @ VECTORS[k] - 0.5 * cp.quad_form(VECTORS[k], P[k]),
    "wrapped form": lambda k: B[k, 0] * cp.quad_form(VECTORS[k], cp.psd_wrap(P[k])),
    "squares": lambda k: B[k, 1] * cp.sum_squares(A[k] @ VECTORS[k] - B[k, :2]) / 3,
    "same squares": lambda k: cp.exp(NUMBER) * cp.sum_squares(VECTORS[k] - SHARED),
    "tables": lambda k: cp.sum(cp.multiply(A[k], TABLES[k])) + cp.sum_squares(TABLES[k][0]),
    "log": lambda k: B[k, 0] * cp.sum(cp.log(1 + cp.square(VECTORS[k]))),
    "scalars": lambda k: B[k, 0] * cp.square(SCALARS[k] - k) + 2.0 * SCALARS[k] * NUMBER,
    "norms": lambda k: B[k, 0] * cp.norm1(VECTORS[k] - SHARED),
    "inner products": lambda k: VECTORS[k] @ MATRIX[k] + B[k] @ VECTORS[k] - k,
}


@pytest.fixture(autouse=True)
def _values():
    random = np.random.default_rng(1)
    for variable in (SHARED, NUMBER, MATRIX, *VECTORS, *TABLES, *SCALARS):
        variable.value = random.standard_normal(variable.shape)


def _stack(members):
    forms = Forms(lambda variable: variable.ndim)
    assert len({forms.of(e) for e in members}) == 1
    return Stack(forms, len(members), {})


@pytest.mark.parametrize("name", ROWS)
def test_rows_one_after_another(name):
    members = [ROWS[name](k) for k in range(N)]
    members = [e.args[0] if isinstance(e, cp.Constraint) else e for e in members]
    stacked = _stack(members).rows(members, members[0].shape)
    expected = np.concatenate([np.ravel(e.value, order="F") for e in members])
    np.testing.assert_allclose(np.ravel(stacked.value), expected, rtol=1e-12)
    assert stacked.curvature == members[0].curvature


@pytest.mark.parametrize("name", SUMS)
def test_sum_with_weights(name):
    members = [SUMS[name](k) for k in range(N)]
    weights = np.array([1.0, 2.0, 0.5, 1.0])
    stack = _stack(members)
    for each in (weights, np.ones(N), -weights):
        expected = sum(w * float(e.value) for w, e in zip(each, members, strict=True))
        assert float(np.sum(stack.total(members, each).value)) == pytest.approx(expected, rel=1e-12)


def test_forms_tell_apart_what_is_not_alike():
    forms = Forms(lambda variable: variable.name()[0])
    v, w, s = VECTORS[0], SHARED, SCALARS[0]
    assert forms.of(2 * v) == forms.of(3 * VECTORS[1])
    assert forms.of(v) != forms.of(w)  # of another level
    assert forms.of(cp.square(v)) != forms.of(cp.power(v, 3))
    assert forms.of(2 * cp.square(s)) != forms.of(-2 * cp.square(s))  # one of them is convex
    assert forms.of(2 * s) == forms.of(-2 * SCALARS[1])
    assert forms.of(cp.norm(v, 2)) != forms.of(cp.norm(v, 3))


def test_unknown_functions_are_refused():
    members = [
        cp.lambda_max(cp.reshape(cp.hstack([v, s]), (2, 2), order="F"))
        for v, s in zip(VECTORS, SCALARS, strict=True)
    ]
    with pytest.raises(NotAlike):
        _stack(members).rows(members, ())
