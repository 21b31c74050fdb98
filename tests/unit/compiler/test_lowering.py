"""Tapes compute what cvxpy computes."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from atom_cases import CASES, Case, Leaves
from blomodel.kernels import machine as op
from cvxpy.reductions.dnlp2smooth.canonicalizers import SMOOTH_CANON_METHODS
from cvxpy.reductions.solvers.nlp_solvers.diff_engine.registry import ATOM_CONVERTERS

from blomodel.atoms import sigmoid
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.rules import RULES
from blomodel.errors import DataError, ModelError, UnsupportedAtomError


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_value_is_cvxpys_value(case: Case, seed: int) -> None:
    leaves = Leaves()
    expression = case.build(leaves.x, leaves.y, leaves.p)
    tape = lower([expression], leaves.blocks)
    point = leaves.set(case.domain, seed)
    value = expression.value.toarray() if sp.issparse(expression.value) else expression.value
    expected = np.asarray(value).ravel(order="F")
    assert tape.n_outputs == expression.size
    np.testing.assert_allclose(tape(*point), expected, rtol=1e-12, atol=1e-13)


def test_every_atom_of_cvxpys_nonlinear_interface_has_a_rule() -> None:
    ours = {atom.__name__ for atom in RULES}
    theirs = {atom.__name__ for atom in SMOOTH_CANON_METHODS} | set(ATOM_CONVERTERS)
    assert theirs <= ours


def test_every_rule_is_tried_by_a_case() -> None:
    used: set[type] = set()
    for case in CASES:
        leaves = Leaves()
        stack = [case.build(leaves.x, leaves.y, leaves.p)]
        while stack:
            expression = stack.pop()
            used.add(type(expression))
            stack.extend(expression.args)
    untried = {atom.__name__ for atom in RULES if atom not in used}
    # Synonyms of wraps that are tried, and what only cvxpy's own reductions or old code make.
    assert untried <= {
        "conj", "real", "nonpos_wrap", "psd_wrap", "nsd_wrap", "hermitian_wrap",
        "skew_symmetric_wrap", "SymbolicQuadForm", "conv",
    }  # fmt: skip


def test_outputs_follow_one_another() -> None:
    leaves = Leaves()
    tape = lower([cp.sum(leaves.x), leaves.y, 3.0], leaves.blocks)
    assert tape.output_slices == [slice(0, 1), slice(1, 7), slice(7, 8)]
    assert tape.input_names == ("x", "y", "p")
    assert tape.input_sizes == (3, 6, 2)
    result = tape([1.0, 2.0, 3.0], np.arange(6.0), [0.0, 0.0])
    np.testing.assert_array_equal(result, [6.0, 0, 1, 2, 3, 4, 5, 3.0])


def test_parameters_are_inputs_not_constants() -> None:
    x, factor, power = cp.Variable(2), cp.Parameter(), cp.Parameter()
    width = cp.Parameter(nonneg=True)
    factor.value, power.value, width.value = 5.0, 3.0, 1.0  # must not be used
    blocks = [Block("x", [x]), Block("p", [factor, power, width])]
    tape = lower([factor * x, cp.power(x, power), cp.huber(x, width)], blocks)
    x.value = np.array([1.5, 4.0])
    for values in ([2.0, 3.0, 0.5], [-1.0, 0.5, 2.0]):
        factor.value, power.value, width.value = values
        expected = np.concatenate(
            [factor.value * x.value, x.value**power.value, cp.huber(x, width.value).value]
        )
        np.testing.assert_allclose(tape(x.value, values), expected, rtol=1e-14)


def test_large_sparse_matrices_stay_sparse() -> None:
    n = 2000
    y = cp.Variable(n)
    matrix = sp.random_array((n, n), density=1e-3, rng=np.random.default_rng(0))
    tape = lower([matrix @ y, y @ matrix.tocsc()], [Block("y", [y])])
    at = np.linspace(-1.0, 1.0, n)
    np.testing.assert_allclose(tape(at), np.concatenate([matrix @ at, at @ matrix]), atol=1e-14)
    assert tape.machinery.workspace.size < 20 * n


def test_slices_and_reshapes_cost_nothing() -> None:
    leaves = Leaves()
    tape = lower([cp.vec(leaves.y[:, 1], order="F")], leaves.blocks)
    assert len(tape.machinery.code) == 0
    np.testing.assert_array_equal(tape(np.zeros(3), np.arange(6.0), np.zeros(2)), [3.0, 4.0, 5.0])


def test_equal_subexpressions_are_computed_once() -> None:
    leaves = Leaves()
    tape = lower([cp.exp(2 * leaves.x) + cp.sum(cp.exp(2 * leaves.x))], leaves.blocks)
    assert sum(node.op == op.EXP for node in tape.nodes) == 1


def test_constant_subexpressions_are_folded() -> None:
    leaves = Leaves()
    constant = cp.log_det(cp.Constant(np.eye(3) * 2))  # an atom without a rule
    tape = lower([constant * leaves.x], leaves.blocks)
    np.testing.assert_allclose(tape(np.ones(3), np.zeros(6), np.zeros(2)), 3 * np.log(2.0))
    assert len(tape.machinery.code) == 1


def test_sum_of_two_thousand_terms() -> None:
    y = cp.Variable(2000)
    expression = sum(y[i] * y[i] for i in range(2000))
    tape = lower([expression], [Block("y", [y])])
    assert tape(np.ones(2000)) == pytest.approx([2000.0])
    assert sum(node.op == op.ADD for node in tape.nodes) == 0


def test_deep_nesting() -> None:
    y = cp.Variable()
    expression, expected = y, 0.3
    for _ in range(300):
        expression, expected = cp.exp(-expression), np.exp(-expected)
    assert lower([expression], [Block("y", [y])])([0.3]) == pytest.approx([expected], rel=1e-14)


def test_unknown_atom_is_named_with_its_surroundings() -> None:
    leaves = Leaves()
    expression = 3 * cp.lambda_max(leaves.y @ leaves.y.T) + cp.sum(leaves.x)
    with pytest.raises(UnsupportedAtomError) as caught:
        lower([expression], leaves.blocks)
    text = str(caught.value)
    assert "'lambda_max'" in text
    assert "3 * lambda_max(y @ y.T)" in text
    assert "quadratic forms" in text


def test_foreign_variable_is_named() -> None:
    leaves = Leaves()
    with pytest.raises(DataError, match="'stranger' is in none of the blocks"):
        lower([leaves.x[0] + cp.Variable(name="stranger")], leaves.blocks)


def test_complex_constant_is_refused() -> None:
    leaves = Leaves()
    with pytest.raises(ModelError, match="complex"):
        lower([leaves.x * 1j], leaves.blocks)


def test_wrong_input_sizes_are_refused() -> None:
    leaves = Leaves()
    tape = lower([leaves.x], leaves.blocks)
    with pytest.raises(ValueError, match="'x': 3"):
        tape(np.zeros(1), np.zeros(6), np.zeros(2))
    with pytest.raises(TypeError, match="blocks"):
        tape(np.zeros(3))


@pytest.mark.parametrize(
    ("build", "at", "expected"),
    [
        (lambda z: cp.log_sum_exp(z), [1000.0, 999.0], 1000.0 + np.log1p(np.exp(-1.0))),
        (lambda z: cp.log_sum_exp(z), [-1000.0, -1000.0], -1000.0 + np.log(2.0)),
        (lambda z: cp.sum(cp.logistic(z)), [800.0, -800.0], 800.0),
        (lambda z: cp.sum(sigmoid(z)), [800.0, -800.0], 1.0),
        (lambda z: cp.sum(cp.entr(z)), [0.0, 1.0], 0.0),
        (lambda z: cp.entr(z[0]), [-1.0, 0.0], -np.inf),
        (lambda z: cp.rel_entr(z[0], z[1]), [0.0, 1.0], 0.0),
        (lambda z: cp.rel_entr(z[0], z[1]), [1.0, 0.0], np.inf),
        (lambda z: cp.kl_div(z[0], z[1]), [0.0, 2.0], 2.0),
        (lambda z: cp.norm(z), [3e200, 4e200], 5e200),
        (lambda z: cp.norm(z), [3e-200, 4e-200], 5e-200),
        (lambda z: cp.pnorm(z, 3), [1e200, 0.0], 1e200),
        (lambda z: cp.pnorm(z, 3), [0.0, 0.0], 0.0),
        (lambda z: cp.pnorm(z, -1), [0.0, 1.0], 0.0),
        (lambda z: cp.geo_mean(z), [0.0, 4.0], 0.0),
        (lambda z: cp.exp(z[0]), [1000.0, 0.0], np.inf),
        (lambda z: cp.log(z[0]), [0.0, 0.0], -np.inf),
        (lambda z: cp.log(z[0]), [-1.0, 0.0], np.nan),
        (lambda z: z[0] / z[1], [1.0, 0.0], np.inf),
        (lambda z: cp.power(z[0], -1.5), [0.0, 0.0], np.inf),
        (lambda z: cp.sum_largest(z, 1), [2.0, 2.0], 2.0),
        (lambda z: cp.nlp.normcdf(z[0]), [-40.0, 0.0], 3.655893540915029e-350),
    ],
)
def test_awkward_points(build, at, expected) -> None:
    z = cp.Variable(2)
    tape = lower([build(z)], [Block("z", [z])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tape(at)
    np.testing.assert_allclose(result, [expected], rtol=1e-13)
