"""Degrees and coefficient classes found on tapes."""

from __future__ import annotations

import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes import polynomial as passes
from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.passes.polynomial import polynomial

x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
p = cp.Parameter(2, name="p")
BLOCKS = [Block("x", [x]), Block("y", [y]), Block("p", [p])]
A = np.array([[1.0, 0.0], [2.0, 3.0]])
B = np.array([[0.0, 1.0], [1.0, 1.0]])


def facts(expression: cp.Expression) -> list[tuple[int, tuple[int, ...]]]:
    found = polynomial(lower([expression], BLOCKS))
    rows = zip(found.degree, found.coefficient_class, strict=True)
    return [(int(degree), tuple(int(c) for c in classes)) for degree, classes in rows]


@pytest.mark.parametrize(
    ("expression", "degree", "classes"),
    [
        (cp.Constant(3.0), 0, (1, 0, 0)),
        (cp.Constant(0.0), 0, (0, 0, 0)),
        (x[0] + 1, 0, (2, 0, 0)),
        (cp.exp(x[0]), 0, (3, 0, 0)),
        (x[0] * x[1], 0, (3, 0, 0)),
        (p[0] * p[1], 0, (1, 0, 0)),
        (p[0] * x[0], 0, (2, 0, 0)),
        (y[0], 1, (0, 1, 0)),
        (y[0] + x[0], 1, (2, 1, 0)),
        (x @ y, 1, (0, 2, 0)),
        (cp.exp(x[0]) * y[1], 1, (0, 3, 0)),
        (y[0] / x[0], 1, (0, 3, 0)),
        (y[0] / p[0], 1, (0, 1, 0)),
        (x @ A @ y + cp.norm1(x), 1, (3, 2, 0)),
        (y[0] * y[1], 2, (0, 0, 1)),
        ((y[0] - x[0]) * (y[0] - x[0]), 2, (3, 2, 1)),
        (x[0] * y[0] + y[0] ** 2, 2, (0, 2, 1)),
        (x[0] * y[0] ** 2, 2, (0, 0, 2)),
        ((x[0] * y[0] - 1) ** 2, 2, (1, 2, 3)),
        (cp.quad_form(y, np.eye(2)), 2, (0, 0, 1)),
        (cp.quad_form(y, sp.csc_array(np.eye(2))) * cp.exp(x[1]), 2, (0, 0, 3)),
        (cp.quad_form(y - x, np.eye(2)), 2, (3, 2, 1)),
        (cp.sum_squares(A @ y - B @ x), 2, (3, 2, 1)),
        (cp.sum_squares(A @ y - p), 2, (1, 1, 1)),
        (cp.quad_over_lin(y, x[0]), 2, (0, 0, 3)),
        (y @ y * 0.5 + cp.huber(x[0]), 2, (3, 0, 1)),
        (cp.cumsum(y)[1] * cp.cumsum(x)[1], 1, (0, 2, 0)),
        (cp.prod(y), 2, (0, 0, 1)),
        (cp.prod(cp.hstack([x, y])), 2, (0, 0, 3)),
    ],
    ids=str,
)
def test_polynomials(expression, degree, classes) -> None:
    assert facts(expression) == [(degree, classes)]


@pytest.mark.parametrize(
    "expression",
    [
        y[0] ** 3, cp.exp(y[0]), x[0] / y[0], cp.abs(y[0]), cp.norm(y), cp.max(y), cp.huber(y[0]),
        y[0] * y[1] * y[0], (y[0] * y[1]) ** 2, cp.sum_largest(y, 1), cp.log_sum_exp(y),
        cp.quad_form(y, np.eye(2)) * y[0], cp.rel_entr(x[0], y[0]), cp.maximum(y[0], 0),
        x[0] * cp.sqrt(y[0]), cp.quad_over_lin(x, y[0]),
    ],
    ids=str,
)  # fmt: skip
def test_other_functions(expression) -> None:
    assert facts(expression) == [(99, (3, 3, 3))]


def test_elements_are_kept_apart() -> None:
    expression = cp.hstack([y[0] ** 2, x[0], cp.exp(y[1]), A[0] @ y])
    assert [degree for degree, _ in facts(expression)] == [2, 0, 99, 1]
    # The zero of A keeps the second element of the vector out of the first row.
    mixed = A @ cp.hstack([y[0], cp.exp(y[1])])
    assert [degree for degree, _ in facts(mixed)] == [1, 99]
    sparse = sp.csr_array(A) @ cp.hstack([y[0], cp.exp(y[1])])
    assert [degree for degree, _ in facts(sparse)] == [1, 99]


def test_roles_can_be_exchanged() -> None:
    found = polynomial(lower([x[0] ** 2 * y[0]], BLOCKS), variable="x", coefficient="y")
    assert found.degree.tolist() == [2]
    assert found.coefficient_class.tolist() == [[0, 0, 2]]


def test_derivative_tapes_can_be_classified() -> None:
    tape = lower([cp.sum_squares(A @ y - B @ x) + cp.exp(x[0]) * y[0]], BLOCKS)
    slope = polynomial(gradient(tape, "y"))
    assert slope.degree.tolist() == [1, 1]
    assert slope.coefficient_class[:, 1].tolist() == [1, 1]
    curvature = polynomial(jvp(gradient(tape, "y"), "y"))
    assert curvature.degree.tolist() == [0, 0]
    assert curvature.coefficient_class.tolist() == [[1, 0, 0], [1, 0, 0]]


TREES = st.recursive(
    st.sampled_from(["x", "y", "one", "exp x", "A y", "B x"]),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "@", "A", "/"]), inner, inner),
    max_leaves=6,
)


def grow(tree) -> cp.Expression:
    if isinstance(tree, str):
        return {
            "x": x, "y": y, "one": cp.Constant([1.0, 0.0]), "exp x": cp.exp(x),
            "A y": A @ y, "B x": B @ x,
        }[tree]  # fmt: skip
    name, left, right = tree[0], grow(tree[1]), grow(tree[2])
    match name:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return cp.multiply(left, right)
        case "@":
            return cp.hstack([left @ right, right[0]])
        case "/":
            return cp.multiply(left, 1 / (2 + cp.square(x))) + right
    return A @ left + sp.csr_array(B) @ right


@settings(max_examples=150, derandomize=True, deadline=None)
@given(tree=TREES, seed=st.integers(0, 1000))
def test_claims_hold_for_random_expressions(tree, seed: int) -> None:
    """Along lines through y = 0 the coefficients must depend on x as claimed."""
    tape = lower([grow(tree)], BLOCKS)
    found = polynomial(tape)
    rng = np.random.default_rng(seed)
    start, step, direction = rng.normal(size=(3, 2))

    def coefficients(at: np.ndarray) -> np.ndarray:
        values = {t: tape(at, t * direction, np.ones(2)) for t in (-1.0, 0.0, 1.0, 2.0)}
        half_sum = (values[1.0] + values[-1.0]) / 2
        a2, a1 = half_sum - values[0.0], (values[1.0] - values[-1.0]) / 2
        missed = values[2.0] - (values[0.0] + 2 * a1 + 4 * a2)
        known = found.degree <= 2
        scale = 1.0 + np.abs(values[2.0])
        assert np.all(np.abs(missed[known]) < 1e-9 * scale[known])
        return np.stack([values[0.0], a1, a2], axis=1)

    here, there, beyond = (coefficients(start + t * step) for t in (0.0, 1.0, 2.0))
    scale = 1.0 + np.abs(here) + np.abs(there) + np.abs(beyond)
    polynomial_rows = found.degree[:, None] <= 2
    for limit, deviation in ((0, here), (1, there - here), (2, here - 2 * there + beyond)):
        claimed = polynomial_rows & (found.coefficient_class <= limit)
        assert np.all(np.abs(deviation)[claimed] < 1e-9 * scale[claimed])


def test_facts_of_full_data_are_kept_once_for_all_rows() -> None:
    A = np.random.default_rng(0).standard_normal((1_000_000, 2))
    b = np.ones(1_000_000) + A[:, 0] ** 2
    tape = lower([cp.sum(cp.multiply(b, cp.square(A @ y - b))) + cp.sum(A @ x)], BLOCKS)
    tracemalloc.start()
    try:
        found = polynomial(tape)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.degree[0] == 2
    assert tuple(found.coefficient_class[0]) == (2, 1, 1)
    assert peak < 5_000_000  # less than six bytes for each row; a mask of zeros takes one


@settings(max_examples=100, derandomize=True, deadline=None)
@given(tree=TREES)
def test_what_all_elements_have_in_common_is_what_each_has(tree) -> None:
    tape = lower([grow(tree)], BLOCKS)
    for each in (tape, jvp(tape, ("x", "y"))):
        found = polynomial(each)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(passes, "_is_uniform", lambda state: False)
            one_by_one = polynomial(each)
        assert np.array_equal(found.degree, one_by_one.degree)
        assert np.array_equal(found.coefficient_class, one_by_one.coefficient_class)


def test_facts_of_many_classes_are_kept_once_for_all_rows() -> None:
    """A softmax takes rows apart and puts them together again, which leaves them alike."""
    A, Y = np.random.default_rng(0).random((50_000, 3)) + 0.1, cp.Variable((3, 10), name="Y")
    w = cp.Variable(50_000, name="w")
    losses = cp.log_sum_exp(A @ Y, axis=1) - cp.sum(A @ Y, axis=1)
    tape = lower([cp.sum(cp.multiply(w, losses))], (Block("x", [w]), Block("y", [Y]), Block("p", ())))
    tracemalloc.start()
    try:
        found = polynomial(tape)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.degree[0] == 99
    assert peak < 10_000_000  # one by one each of the 500,000 scores takes a dozen bytes at least
