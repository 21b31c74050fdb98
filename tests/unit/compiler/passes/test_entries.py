"""Jacobians by entries, against sweeps of derivative tapes and against products of matrices by hand."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from atom_cases import CASES, Case, Leaves

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes import entries, slopes
from blomodel.compiler.passes.derivatives import (
    cost_of_a_run,
    dense_jacobian,
    gradient,
    hessian,
    jacobian,
    known_jacobian,
    pattern,
)
from blomodel.compiler.passes.entries import jacobian_entries
from blomodel.compiler.passes.slopes import TooManyEntriesError
from blomodel.compiler.tape import Tape

RNG = np.random.default_rng(5)
x, y, p = cp.Variable(6, name="x"), cp.Variable((2, 3), name="y"), cp.Parameter(6, name="p")
BLOCKS = (Block("x", [x]), Block("y", [y]), Block("p", [p]))
POINT = [RNG.uniform(0.1, 0.9, 6) for _ in range(3)]
SPARSE = sp.random_array((5, 6), density=0.4, rng=RNG, format="csr")
DENSE, SQUARE = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 6))

EXPRESSIONS = {
    "bounds": x - 1,
    "products": cp.multiply(p, x) + cp.multiply(RNG.normal(size=6), x) / 3,
    "pieces": cp.hstack([x[4:1:-1], y[1, :], x[0]]),
    "sums": cp.sum(y, axis=0) - cp.sum(x),
    "repeated": x + y[0, 0],
    "matrix": SPARSE @ x + 1,
    "differences": cp.diff(x),
    "constant": cp.Constant(np.ones(3)),
    "cumulated": cp.cumsum(cp.exp(x)),
    "squares": cp.sum_squares(DENSE @ x - 1) + cp.quad_form(x, SQUARE @ SQUARE.T),
    "weighted": cp.exp(x) @ cp.square(cp.vec(y, order="F")),
    "logistic": cp.sum(cp.logistic(cp.multiply(RNG.normal(size=4), DENSE @ x))),
    "matrices": y @ cp.reshape(x, (3, 2), order="F") @ RNG.normal(size=(2, 2)),
    "constant on the left": RNG.normal(size=(3, 2)) @ y,
    "constant on the right": cp.multiply(y, y) @ RNG.normal(size=(3, 4)),
    "columns": sp.csr_array(RNG.normal(size=(2, 2)) * [[1, 0], [1, 1]]) @ cp.exp(y),
    "norms": cp.norm(y, axis=1) + cp.norm(x),
    "largest": cp.max(y, axis=0) + cp.max(x),
    "quotient": cp.quad_over_lin(DENSE @ x, y[0, 0]),
    "powers": cp.power(x, 3) + cp.multiply(x, cp.log(x)),
}


def _same(tape: Tape, names: tuple[str, ...]) -> None:
    found = jacobian_entries(tape, names).at(POINT).toarray()
    np.testing.assert_allclose(found, dense_jacobian(tape, names, POINT), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "y")])
def test_agrees_with_sweeps(name: str, names: tuple[str, ...]) -> None:
    tape = lower([EXPRESSIONS[name]], BLOCKS)
    _same(tape, names)
    total = lower([cp.sum(EXPRESSIONS[name])], BLOCKS)
    _same(gradient(total, names), names)
    _same(gradient(total, ("x",)), ("y",))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_agrees_with_sweeps_for_every_atom(case: Case) -> None:
    leaves = Leaves()
    point = leaves.set(case.domain)
    tape = lower([case.build(leaves.x, leaves.y, leaves.p)], leaves.blocks)
    found = jacobian_entries(tape, ("x", "y")).at(point).toarray()
    np.testing.assert_allclose(found, dense_jacobian(tape, ("x", "y"), point), rtol=1e-10, atol=1e-12)


def test_agrees_with_differences() -> None:
    tape = gradient(lower([EXPRESSIONS["logistic"] + EXPRESSIONS["quotient"]], BLOCKS), ("x", "y"))
    found = jacobian_entries(tape, ("x",)).at(POINT).toarray()
    step, differences = 1e-6, []
    for unit in np.eye(6):
        ahead, behind = (tape(POINT[0] + sign * step * unit, *POINT[1:]) for sign in (1, -1))
        differences.append((ahead - behind) / (2 * step))
    np.testing.assert_allclose(found, np.transpose(differences), rtol=1e-6, atol=1e-7)


def test_a_large_dense_hessian_is_a_product() -> None:
    m, n = 2000, 300
    A, c = RNG.normal(size=(m, n)), np.sign(RNG.normal(size=m))
    w, v = cp.Variable(n, name="w"), cp.Variable(n, name="v")
    blocks = (Block("w", [w]), Block("v", [v]))
    at = RNG.normal(size=n) * 0.1
    squares = lower([cp.sum_squares(A @ w - c) / m + cp.exp(v) @ cp.square(w) / 2], blocks)
    losses = lower([cp.sum(cp.logistic(-cp.multiply(c, A @ w))) / m], blocks)
    began = time.process_time()
    by_squares, by_losses = (hessian(tape, ("w",), (at, at)).toarray() for tape in (squares, losses))
    assert time.process_time() - began < 2.0
    np.testing.assert_allclose(by_squares, 2 * A.T @ A / m + np.diag(np.exp(at)), atol=1e-12)
    chance = 1 / (1 + np.exp(c * (A @ at)))
    np.testing.assert_allclose(by_losses, A.T @ ((chance * (1 - chance))[:, None] * A) / m, atol=1e-12)
    began = time.process_time()
    for _ in range(10):
        hessian(squares, ("w",), (at, at))
    assert time.process_time() - began < 0.2  # A'A is not computed again


def test_a_large_diagonal_takes_no_quadratic_time() -> None:
    n = 200_000
    long = cp.Variable(n, name="long")
    tape = lower([2 * long - 1], (Block("long", [long]),))
    began = time.process_time()
    found = jacobian(tape, ("long",), [np.zeros(n)])
    assert time.process_time() - began < 2.0  # column by column: hours
    assert found.nnz == n and np.all(found.data == 2.0)


def test_the_pattern_holds_what_is_zero_by_chance() -> None:
    tape = gradient(lower([cp.exp(x) @ cp.square(cp.vec(y, order="F"))], BLOCKS), ("x",))
    zero = [np.zeros(6)] * 3
    assert jacobian(tape, ("y",), zero).nnz == 0
    np.testing.assert_array_equal(pattern(tape, ("y",)).toarray(), np.eye(6))


def test_too_many_entries_are_refused() -> None:
    with pytest.raises(TooManyEntriesError):
        jacobian_entries(lower([EXPRESSIONS["squares"]], BLOCKS), ("x",), 20)


def _products(draw: np.random.Generator) -> dict[str, cp.Expression]:
    """Constant matrices with zeros, on either side, as they are and transposed."""
    left, right = draw.normal(size=(5, 2)), draw.normal(size=(3, 4))
    left[draw.random(left.shape) < 0.4], right[draw.random(right.shape) < 0.4] = 0.0, 0.0
    return {
        "left": left @ y,
        "right": y @ right,
        "left of y'": right.T @ y.T,
        "right of y'": y.T @ left.T,
    }


@pytest.mark.parametrize("name", _products(np.random.default_rng(0)))
def test_room_for_a_product_is_asked_for_and_no_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tape, needed, asked = lower([_products(np.random.default_rng(0))[name]], BLOCKS), [], []
    spend, ask = slopes.SlopeAlgebra.spend, slopes.SlopeAlgebra.ask
    monkeypatch.setattr(slopes.SlopeAlgebra, "spend", lambda a, n: needed.append(n) or spend(a, n))
    monkeypatch.setattr(slopes.SlopeAlgebra, "ask", lambda a, n: asked.append(n) or ask(a, n))
    _same(tape, ("y",))
    assert set(needed) <= set(asked) and max(asked) == max(needed) > 0


def test_a_product_that_is_too_long_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_late(*_: object) -> None:
        raise AssertionError("the entries were being made")

    monkeypatch.setattr(entries, "_meetings", too_late)
    z = cp.Variable((20, 5), name="z")
    tape = lower([np.random.default_rng(0).normal(size=(30, 20)) @ z], [Block("z", [z])])
    with pytest.raises(TooManyEntriesError):
        jacobian_entries(tape, ("z",), most=1000)


def test_known_entries_serve_as_a_plain_matrix():
    n, m = 30, 200
    data = RNG.normal(size=(m, n))
    w = cp.Variable(n, name="w")
    slope = gradient(lower([cp.sum(cp.logistic(data @ w)) + cp.sum_squares(w)], [Block("w", [w])]), "w")
    at = (RNG.normal(size=n) / n,)
    assert known_jacobian(slope, "w", at) is None  # nobody has looked for them yet
    slope.derivatives["entries", ("w",)] = jacobian_entries(slope, ("w",))
    D = 1 / (4 * np.cosh(data @ at[0] / 2) ** 2)
    assert known_jacobian(slope, "w", at) == pytest.approx(data.T @ (D[:, None] * data) + 2 * np.eye(n))
    assert known_jacobian(slope, "w", at, most=10.0) is None


def test_products_with_changing_data_are_plain_where_that_is_faster():
    """A'DA is one product of matrices: by entries it took longer than a sweep."""
    n, m = 60, 1000
    data, w = RNG.normal(size=(m, n)), cp.Variable(n, name="w")
    slope = gradient(lower([cp.sum(cp.logistic(data @ w))], [Block("w", [w])]), "w")
    found = jacobian_entries(slope, ("w",))
    assert isinstance(found.values, Tape)
    assert cost_of_a_run(found.values) < 0.3 * n * cost_of_a_run(slope)


def test_a_matrix_with_zeros_as_a_plain_one():
    tape = lower([SPARSE @ x], list(BLOCKS))
    found = jacobian_entries(tape, ("x",))
    assert found.full_at(POINT) == pytest.approx(SPARSE.toarray())
