"""Symbolic derivatives against the compiled ones, finite differences and cvxpy's own engine."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import cvxpy as cp
import numpy as np
import pytest
from atom_cases import CASES, Leaves, assign
from reformulation_problems import needs_solver

from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import vjp
from blomodel.errors import UnsupportedAtomError
from blomodel.reformulations.nonlinear_language import state_expression
from blomodel.reformulations.symbolic import check_pull_back, gradient, pull_back

# Kinks, and products that hold a parameter or more than two dimensions.
WITHOUT_RULE = {
    "abs", "pos", "neg", "scalene", "huber", "maximum", "minimum", "maximum_scalar", "loggamma",
    "log_normcdf", "tv", "matmul_batched", "kron_parameter", "convolve_parameter", "norm1", "norm1_axis",
    "norm_inf", "norm_inf_axis", "matrix_norm1", "mixed_norm", "pnorm_3", "pnorm_1.5", "max", "max_axis",
    "min", "min_axis", "ptp", "sum_largest", "sum_largest_fraction", "sum_largest_all", "sum_smallest",
    "cvar", "cumprod", "cummax",
}  # fmt: skip
# cvxpy 1.9 cannot hand these to a nonlinear solver: three dimensions, a mean along an axis.
BEYOND_CVXPY = {"swapaxes", "einsum", "geo_mean_axis"}

SMOOTH = [case for case in CASES if case.name not in WITHOUT_RULE]


def flat(expression) -> np.ndarray:
    value = expression.value
    value = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    return value.ravel(order="F")


def derivatives(case, seed):
    """Symbolic gradients in x and y, weights, the leaves and the point."""
    leaves = Leaves()
    expression = case.build(leaves.x, leaves.y, leaves.p)
    point = leaves.set(case.domain, seed)
    weights = np.random.default_rng(3).normal(size=expression.size)
    cotangent = cp.Constant(weights.reshape(expression.shape, order="F"))
    found = pull_back([(expression, cotangent)], [leaves.x, leaves.y])
    return expression, found, weights, leaves, point


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_agrees_with_the_compiled_derivative(case):
    expression, found, weights, leaves, point = derivatives(case, seed=1)
    compiled = vjp(lower([expression], leaves.blocks), ("x", "y"))(*point, weights)
    assert [part.shape for part in found] == [leaves.x.shape, leaves.y.shape]
    assert all(part.is_dnlp() for part in found)
    np.testing.assert_allclose(
        np.concatenate([flat(part) for part in found]), compiled, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_agrees_with_finite_differences(case):
    expression, found, weights, leaves, point = derivatives(case, seed=2)
    exact = np.concatenate([flat(part) for part in found])
    rng = np.random.default_rng(0)
    for _ in range(2):
        direction = [rng.normal(size=3), rng.normal(size=6), np.zeros(2)]
        values = []
        for step in (1e-6, -1e-6):
            for block, base, way in zip(leaves.blocks, point, direction, strict=True):
                assign(block, base + step * way)
            values.append(weights @ flat(expression))
        slope = (values[0] - values[1]) / 2e-6
        expected = exact @ np.concatenate(direction[:2])
        assert slope == pytest.approx(expected, rel=1e-5, abs=1e-5 * (1 + np.abs(exact).max()))


@pytest.mark.parametrize("name", sorted(WITHOUT_RULE))
def test_atoms_without_a_rule_are_named(name):
    case = next(case for case in CASES if case.name == name)
    with pytest.raises(UnsupportedAtomError, match="(?s)the atom '.*' in '.*'"):
        derivatives(case, seed=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_has_a_derivative_is_known_before_it_is_written(case):
    leaves = Leaves()
    expression = case.build(leaves.x, leaves.y, leaves.p)
    refused = case.name in WITHOUT_RULE
    with pytest.raises(UnsupportedAtomError) if refused else nullcontext():
        check_pull_back([expression], [leaves.x, leaves.y])


def test_cvxpys_nonlinear_engine_computes_the_same():
    """The results survive the way to a solver: variables set equal to them take their values."""
    needs_solver("ipopt")
    checked = 0
    for case in SMOOTH:
        if case.name in BEYOND_CVXPY:
            continue
        _, (in_x, in_y), _, leaves, point = derivatives(case, seed=1)
        expected = np.concatenate([flat(in_x), flat(in_y)])
        u, w = cp.Variable(3), cp.Variable((3, 2))
        fixed = [leaves.x == point[0], leaves.y == point[1].reshape((3, 2), order="F")]
        problem = cp.Problem(
            cp.Minimize(0), [u == state_expression(in_x), w == state_expression(in_y), *fixed]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as a denominator of unknown sign
            problem.solve(nlp=True, solver="IPOPT", print_level=0, sb="yes")
        found = np.concatenate([flat(u), flat(w)])
        np.testing.assert_allclose(
            found, expected, rtol=1e-6, atol=1e-6 * (1 + np.abs(expected).max()), err_msg=case.name
        )
        checked += 1
    assert checked > 90


def test_second_derivatives():
    """The gradient of a directional derivative is a Hessian-vector product."""
    y = cp.Variable(3, name="y")
    matrix = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
    direction = np.array([1.0, -2.0, 0.5])
    g = cp.quad_form(y, matrix) + cp.sum(cp.exp(y))
    product = gradient(direction @ gradient(g, [y])[0], [y])[0]
    y.value = np.array([0.1, -0.3, 0.7])
    np.testing.assert_allclose(product.value, 2 * matrix @ direction + np.exp(y.value) * direction)


def test_picked_elements_are_stacked():
    y = cp.Variable(2, name="y")
    slope = gradient((y[0] - 4) ** 2 + y[0] * y[1], [y])[0]
    assert str(slope).startswith("Hstack(")
    y.value = np.array([1.0, 5.0])
    np.testing.assert_allclose(slope.value, [2 * (1 - 4) + 5, 1])


def test_a_variable_that_does_not_occur_has_a_zero_gradient():
    x, y = cp.Variable((2, 2)), cp.Variable()
    np.testing.assert_array_equal(gradient(y**2, [x])[0].value, np.zeros((2, 2)))


def test_a_quotient_may_have_a_negative_denominator():
    """cvxpy takes denominators to be positive; here 1 / (y - 2) is -1 at y = 1."""
    needs_solver("ipopt")
    y, u = cp.Variable(name="y"), cp.Variable(name="u")
    quotient = state_expression(cp.Constant(1.0) / (y - 2))
    y.value, u.value = 1.0, 0.0
    problem = cp.Problem(cp.Minimize(0), [u == quotient, y == 1])
    problem.solve(nlp=True, solver="IPOPT", print_level=0, sb="yes")
    assert float(u.value) == pytest.approx(-1.0, abs=1e-6)
