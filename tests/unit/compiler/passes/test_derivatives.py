"""Derivative tapes against differences, against each other and against cvxpy's own engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from atom_cases import CASES, Case, Leaves
from cvxpy.reductions.solvers.nlp_solvers.nlp_solver import Oracles
from hypothesis import given, settings
from hypothesis import strategies as st

from blomodel.atoms import sigmoid
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes import derivatives, slopes
from blomodel.compiler.passes.derivatives import dense_jacobian, gradient, hessian, jacobian, jvp, vjp
from blomodel.compiler.tape import Tape

ALL = ("x", "y", "p")
BOTH = ("x", "y")


def differences(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """The Jacobian by central differences, two step lengths combined to fourth order."""
    columns = []
    for direction in np.eye(at.size):
        h = 2e-4

        def slope(step: float, direction: np.ndarray = direction) -> np.ndarray:
            return (function(at + step * direction) - function(at - step * direction)) / (2 * step)

        columns.append((4.0 * slope(h) - slope(2.0 * h)) / 3.0)
    return np.array(columns).T


def split(tape: Tape, vector: np.ndarray) -> list[np.ndarray]:
    return np.split(vector, np.cumsum(tape.input_sizes)[:-1])


def check_jacobian(tape: Tape, point: list[np.ndarray]) -> None:
    exact = jacobian(tape, tape.input_names, point).toarray()
    numeric = differences(lambda v: tape(*split(tape, v)), np.concatenate(point))
    scale = 1.0 + np.abs(numeric).max(initial=0.0)
    np.testing.assert_allclose(exact, numeric, rtol=0.0, atol=2e-9 * scale)


def weighted(case: Case, leaves: Leaves) -> cp.Expression:
    """A scalar with the same derivatives as the case, each element with a weight of its own."""
    expression = case.build(leaves.x, leaves.y, leaves.p)
    weights = np.cos(1.0 + np.arange(expression.size)).reshape(expression.shape, order="F")
    return cp.sum(cp.multiply(weights, expression))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_jacobian_against_differences(case: Case) -> None:
    leaves = Leaves()
    tape = lower([case.build(leaves.x, leaves.y, leaves.p)], leaves.blocks)
    check_jacobian(tape, leaves.set(case.domain))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_forward_and_reverse_are_adjoint(case: Case) -> None:
    leaves = Leaves()
    tape = lower([case.build(leaves.x, leaves.y, leaves.p)], leaves.blocks)
    point = leaves.set(case.domain, seed=3)
    rng = np.random.default_rng(1)
    tangent, cotangent = rng.normal(size=11), rng.normal(size=tape.n_outputs)
    forward = jvp(tape, ALL)(*point, tangent)
    reverse = vjp(tape, ALL)(*point, cotangent)
    assert forward.shape == (tape.n_outputs,)
    assert reverse.shape == (11,)
    scale = 1.0 + np.abs(forward) @ np.abs(cotangent)
    assert cotangent @ forward == pytest.approx(tangent @ reverse, abs=1e-12 * scale)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_second_derivatives_against_differences_of_gradients(case: Case) -> None:
    leaves = Leaves()
    tape = lower([weighted(case, leaves)], leaves.blocks)
    point = leaves.set(case.domain, seed=2)
    slope = gradient(tape, ALL)
    exact = hessian(tape, ALL, point).toarray()
    numeric = differences(lambda v: slope(*split(tape, v)), np.concatenate(point))
    scale = 1.0 + np.abs(numeric).max()
    np.testing.assert_allclose(exact, numeric, rtol=0.0, atol=5e-9 * scale)
    np.testing.assert_allclose(exact, exact.T, rtol=0.0, atol=1e-13 * scale)
    # Reverse over reverse gives the same product as forward over reverse.
    direction = np.sin(1.0 + np.arange(11))
    np.testing.assert_allclose(
        vjp(slope, ALL)(*point, direction), jvp(slope, ALL)(*point, direction),
        rtol=0.0, atol=1e-12 * scale,
    )  # fmt: skip


def compare_with_engine(expression: cp.Expression, tape: Tape, point: list[np.ndarray]) -> None:
    """Value, gradient, Jacobian and Hessian in x and y; the engine must see x before y."""
    problem = cp.Problem(cp.Minimize(expression), [expression == 0])
    assert [variable.name() for variable in problem.variables()] == ["x", "y"]
    oracles = Oracles(problem, verbose=False)
    at = np.concatenate(point[:2])
    assert tape(*point) == pytest.approx([oracles.objective(at)], rel=1e-12)
    oracles.constraints(at)
    np.testing.assert_allclose(
        gradient(tape, BOTH)(*point), oracles.gradient(at), rtol=1e-11, atol=1e-12
    )
    rows, columns = oracles.jacobianstructure()
    shape = (1, at.size)
    theirs = sp.coo_array((oracles.jacobian(at), (rows, columns)), shape=shape).toarray()
    ours = jacobian(tape, BOTH, point).toarray()
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)
    rows, columns = oracles.hessianstructure()
    values = oracles.hessian(at, np.array([0.5]), 2.0)
    triangle = sp.coo_array((values, (rows, columns)), shape=(at.size, at.size)).toarray()
    theirs = triangle + np.tril(triangle, -1).T
    ours = 2.5 * hessian(tape, BOTH, point).toarray()
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("case", [c for c in CASES if c.engine], ids=lambda case: case.name)
def test_against_cvxpys_derivative_engine(case: Case) -> None:
    leaves = Leaves()
    point = leaves.set(case.domain, seed=5)
    # Both variables must occur in the engine's problem in every case.
    anchor = 0.0 * cp.sum(leaves.x) + 0.0 * cp.sum(leaves.y)
    expression = anchor + weighted(case, leaves)
    compare_with_engine(expression, lower([expression], leaves.blocks), point)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda x, y: cp.sum(cp.rel_entr(x, y)), (3,)),
        (lambda x, y: cp.quad_over_lin(x, y), ()),
    ],
    ids=["rel_entr", "quad_over_lin"],
)
def test_against_cvxpys_derivative_engine_for_atoms_it_takes_of_variables_only(build, shape) -> None:
    x, y = cp.Variable(3, name="x"), cp.Variable(shape, name="y")
    expression = build(x, y)
    point = [np.array([0.5, 1.0, 2.0]), np.linspace(0.7, 1.4, y.size)]
    tape = lower([expression], [Block("x", [x]), Block("y", [y])])
    compare_with_engine(expression, tape, point)


# Points where functions are not smooth, overflow, or lose digits


@pytest.mark.parametrize(
    ("build", "at", "expected"),
    [
        (lambda z: cp.norm(z), [0.0, 0.0], [0.0, 0.0]),
        (lambda z: cp.norm(z), [3e200, 4e200], [0.6, 0.8]),
        (lambda z: cp.pnorm(z, 3), [0.0, 0.0], [0.0, 0.0]),
        (lambda z: cp.pnorm(z, 3), [0.0, -2.0], [0.0, -1.0]),
        (lambda z: cp.norm1(z), [0.0, -1.0], [0.0, -1.0]),
        (lambda z: cp.norm_inf(z), [-2.0, 2.0], [-1.0, 0.0]),
        (lambda z: cp.max(z), [1.0, 1.0], [1.0, 0.0]),
        (lambda z: cp.min(z), [1.0, 1.0], [1.0, 0.0]),
        (lambda z: cp.maximum(z[0], z[1]), [1.0, 1.0], [1.0, 0.0]),
        (lambda z: cp.minimum(z[0], z[1]), [1.0, 1.0], [1.0, 0.0]),
        (lambda z: cp.sum_largest(z, 1), [2.0, 2.0], [1.0, 0.0]),
        (lambda z: cp.sum(cp.pos(z)), [2.0, -2.0], [1.0, 0.0]),
        (lambda z: cp.prod(z), [0.0, 3.0], [3.0, 0.0]),
        (lambda z: cp.prod(z), [0.0, 0.0], [0.0, 0.0]),
        (lambda z: cp.sum(cp.huber(z)), [1.0, -1.0], [2.0, -2.0]),
        (lambda z: cp.sum(cp.huber(z)), [0.0, 5.0], [0.0, 2.0]),
        (lambda z: cp.sum(cp.power(z, 3)), [0.0, -1.0], [0.0, 3.0]),
        (lambda z: cp.sum(cp.sqrt(z)), [0.0, 4.0], [np.inf, 0.25]),
        (lambda z: cp.sum(cp.log(z)), [0.0, 4.0], [np.inf, 0.25]),
        (lambda z: cp.log_sum_exp(z), [1000.0, -1000.0], [1.0, 0.0]),
        (lambda z: cp.sum(cp.logistic(z)), [800.0, -800.0], [1.0, 0.0]),
        (lambda z: cp.sum(sigmoid(z)), [40.0, -40.0], [np.exp(-40.0), np.exp(-40.0)]),
        (lambda z: cp.sum(sigmoid(z)), [800.0, -800.0], [0.0, 0.0]),
        (lambda z: cp.sum(cp.nlp.tanh(z)), [400.0, 0.0], [0.0, 1.0]),
        (lambda z: cp.sum(cp.exp(z)), [1000.0, 0.0], [np.inf, 1.0]),
        (lambda z: cp.rel_entr(z[0], z[1]), [0.0, 1.0], [-np.inf, 0.0]),
        (lambda z: cp.quad_over_lin(z[0], z[1]), [0.0, 2.0], [0.0, 0.0]),
    ],
)
def test_gradients_at_awkward_points(build, at, expected) -> None:
    z = cp.Variable(2)
    tape = lower([build(z)], [Block("z", [z])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = gradient(tape, "z")(at)
        np.testing.assert_allclose(result, expected, rtol=1e-13)
        forward = [jvp(tape, "z")(at, unit)[0] for unit in np.eye(2)]
        finite = np.isfinite(expected)
        # In forward mode an infinite slope times a zero tangent has no value.
        if finite.all():
            np.testing.assert_allclose(forward, expected, rtol=1e-13)


def test_second_derivatives_of_a_norm_at_zero_are_zero() -> None:
    z = cp.Variable(2)
    tape = lower([cp.norm(z)], [Block("z", [z])])
    assert hessian(tape, "z", [np.zeros(2)]).nnz == 0


def test_second_derivatives_of_products_with_zero_factors() -> None:
    z = cp.Variable(4)
    tape = lower([cp.prod(z)], [Block("z", [z])])
    expected = np.zeros((4, 4))
    expected[0, 2] = expected[2, 0] = 3.0 * 5.0
    at = np.array([0.0, 3.0, 0.0, 5.0])
    np.testing.assert_array_equal(hessian(tape, "z", [at]).toarray(), expected)


def test_derivatives_in_parameters_that_are_no_arguments() -> None:
    x, power, width = cp.Variable(2), cp.Parameter(), cp.Parameter(nonneg=True)
    blocks = [Block("x", [x]), Block("p", [power, width])]
    tape = lower([cp.power(x, power), cp.huber(x, width)], blocks)
    check_jacobian(tape, [np.array([0.5, 3.0]), np.array([1.7, 1.2])])


# What the functions promise


def test_gradient_of_several_outputs_is_refused() -> None:
    leaves = Leaves()
    with pytest.raises(ValueError, match="3 outputs"):
        gradient(lower([leaves.x], leaves.blocks), "x")


def test_unknown_block_is_refused() -> None:
    leaves = Leaves()
    with pytest.raises(KeyError, match="no input block 'w'"):
        jvp(lower([leaves.x], leaves.blocks), ("x", "w"))


def test_blocks_without_influence_have_zero_derivatives() -> None:
    leaves = Leaves()
    tape = lower([cp.sum_squares(leaves.x)], leaves.blocks)
    point = leaves.set("real")
    np.testing.assert_array_equal(gradient(tape, ("y", "p"))(*point), np.zeros(8))
    assert jacobian(tape, "y", point).nnz == 0
    assert hessian(tape, ("x", "y"), point).shape == (9, 9)
    assert not tape.depends_on("y")
    # The order of the blocks asked for is the order of the answer.
    expected = np.concatenate([np.zeros(6), 2 * point[0]])
    np.testing.assert_allclose(gradient(tape, ("y", "x"))(*point), expected)


def test_constant_tapes() -> None:
    leaves = Leaves()
    tape = lower([cp.Constant([1.0, 2.0])], leaves.blocks)
    point = leaves.set("real")
    np.testing.assert_array_equal(tape(*point), [1.0, 2.0])
    np.testing.assert_array_equal(jvp(tape, "x")(*point, np.ones(3)), [0.0, 0.0])
    np.testing.assert_array_equal(vjp(tape, "x")(*point, np.ones(2)), np.zeros(3))


def test_identity_and_empty_blocks() -> None:
    y = cp.Variable(2)
    blocks = [Block("x", []), Block("y", [y])]
    tape = lower([y], blocks)
    point = [np.zeros(0), np.array([1.0, 2.0])]
    np.testing.assert_array_equal(tape(*point), point[1])
    np.testing.assert_array_equal(jacobian(tape, "y", point).toarray(), np.eye(2))
    assert jacobian(tape, "x", point).shape == (2, 0)


def test_inputs_of_composed_derivatives() -> None:
    leaves = Leaves()
    tape = lower([cp.exp(leaves.x)], leaves.blocks)
    second = jvp(vjp(tape, "x"), "x")
    assert second.input_names == ("x", "y", "p", "cotangent", "tangent")
    twice = jvp(jvp(tape, "x"), "x")
    assert twice.input_names == ("x", "y", "p", "tangent", "tangent2")
    point = leaves.set("real")
    u, v = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(second(*point, u, v), u * v * np.exp(point[0]))
    np.testing.assert_allclose(twice(*point, u, v), u * v * np.exp(point[0]))


def test_third_derivative() -> None:
    y = cp.Variable()
    tape = lower([cp.nlp.sin(y**2)], [Block("y", [y])])
    third = gradient(gradient(gradient(tape, "y"), "y"), "y")
    t = 0.7
    expected = -12 * t * np.sin(t**2) - 8 * t**3 * np.cos(t**2)
    assert third([t]) == pytest.approx([expected], rel=1e-12)


def test_derivatives_of_linear_functions_do_no_work() -> None:
    leaves = Leaves()
    tape = lower([cp.sum(3.0 * leaves.x) + cp.sum(cp.exp(leaves.y))], leaves.blocks)
    machinery = gradient(tape, "x").machinery
    assert machinery.start == len(machinery.code)  # everything was known beforehand
    np.testing.assert_array_equal(gradient(tape, "x")(*leaves.set("real")), [3.0, 3.0, 3.0])


def test_derivative_tapes_are_made_once() -> None:
    leaves = Leaves()
    tape = lower([cp.sum(cp.exp(leaves.x))], leaves.blocks)
    assert gradient(tape, ("x",)) is gradient(tape, "x")


def test_gradient_of_many_scalar_terms_stays_small() -> None:
    n = 500
    y = cp.Variable(n)
    tape = lower([sum(cp.exp(y[i]) for i in range(n))], [Block("y", [y])])
    slope = gradient(tape, "y")
    at = np.linspace(0.0, 1.0, n)
    np.testing.assert_allclose(slope(at), np.exp(at), rtol=1e-15)
    # One vector of the length of y, not one for every term.
    assert slope.machinery.workspace.size < 10 * n


def test_large_sparse_jacobian_and_hessian() -> None:
    n = 2000
    y = cp.Variable(n)
    matrix = sp.random_array((n, n), density=2e-3, rng=np.random.default_rng(0)).tocsr()
    blocks = [Block("y", [y])]
    at = np.linspace(-1.0, 1.0, n)
    outer = lower([cp.exp(matrix @ y)], blocks)
    expected = sp.diags_array(np.exp(matrix @ at)) @ matrix
    difference = jacobian(outer, "y", [at]) - expected
    assert abs(difference).max() < 1e-14
    square = lower([cp.sum_squares(matrix @ y) + cp.sum(y**4)], blocks)
    expected = 2 * matrix.T @ matrix + sp.diags_array(12 * at**2)
    found = hessian(square, "y", [at])
    assert abs(found - expected).max() < 1e-12
    assert found.nnz < 20 * n


# Random compositions

CONSTANT = np.random.default_rng(11).normal(size=(3, 3)) / 2

LEAVES = st.sampled_from(["x", "y", "one"])
UNARY: dict[str, Callable[[cp.Expression], cp.Expression]] = {
    "sin": cp.nlp.sin,
    "tanh": cp.nlp.tanh,
    "asinh": cp.nlp.asinh,
    "exp": lambda e: cp.exp(cp.nlp.sin(e)),
    "logistic": cp.logistic,
    "sigmoid": sigmoid,
    "square": cp.square,
    "cube": lambda e: cp.power(cp.nlp.sin(e), 3),
    "log": lambda e: cp.log(1.5 + cp.square(e)),
    "matrix": lambda e: CONSTANT @ e,
    "reverse": lambda e: e[::-1],
    "cumsum": lambda e: cp.cumsum(e),
    "softmax": lambda e: e - cp.log_sum_exp(e),
    "norm": lambda e: e / (1.0 + cp.norm(e)),
    "repeat": lambda e: cp.hstack([e[0], e[0], e[2]]),
    "outer": lambda e: cp.outer(e, e) @ np.array([0.3, 0.2, -0.1]),
    "entropy": lambda e: cp.entr(sigmoid(e)),
}
BINARY: dict[str, Callable[[cp.Expression, cp.Expression], cp.Expression]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: cp.multiply(cp.nlp.sin(a), b),
    "div": lambda a, b: a / (2.0 + cp.nlp.sin(b)),
    "inner": lambda a, b: (a @ b) * 0.1 + a,
    "power": lambda a, b: cp.multiply(cp.power(1.5 + cp.nlp.sin(a), 1.7), b),
    "rel_entr": lambda a, b: cp.rel_entr(sigmoid(a), sigmoid(b)),
}
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), inner),
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner),
    ),
    max_leaves=8,
)


def grow(tree, leaves: dict[str, cp.Expression]) -> cp.Expression:
    if isinstance(tree, str):
        return leaves[tree]
    name, *branches = tree
    parts = [grow(branch, leaves) for branch in branches]
    return UNARY[name](*parts) if len(parts) == 1 else BINARY[name](*parts)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(tree=TREES, seed=st.integers(0, 1000))
def test_random_compositions(tree, seed: int) -> None:
    x, y = cp.Variable(3), cp.Variable(3)
    expression = grow(tree, {"x": x, "y": y, "one": cp.Constant(np.ones(3))})
    rng = np.random.default_rng(seed)
    point = [rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)]
    x.value, y.value = point
    tape = lower([expression], [Block("x", [x]), Block("y", [y])])
    np.testing.assert_allclose(tape(*point), expression.value, rtol=1e-11, atol=1e-12)
    check_jacobian(tape, point)
    cotangent = rng.normal(size=3)
    reverse = vjp(tape, BOTH)
    expected = cotangent @ jacobian(tape, BOTH, point).toarray()
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(reverse(*point, cotangent), expected, atol=1e-12 * scale)
    # Differentiate the reverse tape once more.
    second = jacobian(reverse, BOTH, [*point, cotangent]).toarray()
    numeric = differences(lambda v: reverse(v[:3], v[3:], cotangent), np.concatenate(point))
    scale = 1.0 + np.abs(numeric).max()
    np.testing.assert_allclose(second, numeric, rtol=0.0, atol=1e-8 * scale)


def test_entries_cost_no_more_than_the_sweeps_that_they_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hessian of a softmax is full: entry by entry it would cost far more than runs."""
    draw, spent = np.random.default_rng(0), [0.0]
    y = cp.Variable((12, 5), name="y")
    losses = cp.sum(cp.log_sum_exp(draw.normal(size=(40, 12)) @ y, axis=1))
    slope = gradient(lower([losses], [Block("y", [y])]), "y")
    count = slopes.SlopeAlgebra.spend

    def spend(self: slopes.SlopeAlgebra, entries: float) -> None:
        spent[0] += entries
        count(self, entries)

    monkeypatch.setattr(slopes.SlopeAlgebra, "spend", spend)
    monkeypatch.setattr(derivatives, "_FEW_ENTRIES", 100.0)
    points = draw.normal(size=(300, y.size))
    operations = 60 * sum(node.size for node in slope.nodes) + 60 * slope.n_products  # of one sweep
    for number, at in enumerate(points, start=1):
        found = jacobian(slope, "y", [at])
        assert spent[0] <= 8 * (100 + number * (operations + 60 * 20 * len(slope.nodes)) / 1000)
        if number in (1, 150, 300):
            expected = differences(lambda v: slope(v), at)
            np.testing.assert_allclose(found.toarray(), expected, atol=1e-7)
    assert spent[0] > 0


@pytest.mark.parametrize("shape", [(3, 7), (7, 3)])
@pytest.mark.parametrize("zeros", ["none", "some", "a row", "a column", "all but one"])
def test_swept_jacobians_hold_what_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], zeros: str
) -> None:
    """By rows and by columns, in blocks of two: full ones, ones with zeros, and ones of zeros alone."""
    monkeypatch.setattr(derivatives, "_known_entries", lambda *_: None)
    monkeypatch.setattr(derivatives, "_CHUNK", 2 * max(shape))
    factors = np.random.default_rng(0).normal(size=shape)
    chosen = {"some": np.s_[::2, ::3], "a row": np.s_[1], "a column": np.s_[:, 2], "none": np.s_[:0]}
    if zeros == "all but one":
        factors[np.arange(factors.size).reshape(shape) != 4] = 0.0
    else:
        factors[chosen[zeros]] = 0.0
    y = cp.Variable(shape[1], name="y")
    tape, point = lower([factors @ cp.exp(y)], [Block("y", [y])]), [np.linspace(-1, 1, shape[1])]
    found = jacobian(tape, "y", point)
    np.testing.assert_array_equal(found.toarray(), dense_jacobian(tape, "y", point))
    assert found.nnz == np.count_nonzero(factors)
    assert found.has_canonical_format and found.indices.dtype == np.int32


def test_products_by_a_matrix_library_count_less_than_others() -> None:
    """So entries are looked for where they pay: a run of such a product is cheap."""
    draw = np.random.default_rng(0)
    vector, matrix = cp.Variable(40, name="y"), cp.Variable((40, 10), name="y")
    data = draw.normal(size=(300, 40))
    costs = [
        derivatives._sweeping_cost(lower([data @ y], [Block("y", [y])]), (1, 1))
        for y in (vector, matrix)
    ]
    assert costs[0] > data.size
    assert costs[1] < 5 * costs[0]  # ten times as many multiplications
