"""Variables counted from another place: the same functions, without the rounding of large sums."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.expressions.translation import Translation

FAR = 2.0**40
draw = np.random.default_rng(0)
A, B = draw.normal(size=(3, 2)), draw.normal(size=(2, 2))
z, Z, other = cp.Variable(2, name="z"), cp.Variable((2, 2), name="Z"), cp.Variable(2, name="other")
P = cp.Parameter((2, 2), value=B)

EXPRESSIONS = {
    "sum": z - 3 + other,
    "negative": 3 - z,
    "matrix": A @ z - 1,
    "sparse matrix": sp.csr_array(A) @ z,
    "from the right": Z @ B + 1,
    "both sides": A @ Z @ B,
    "elementwise": cp.multiply([2.0, -3.0], z) / 4,
    "entries": z[1] + 2 * Z[0, 1] + Z[[0, 1], [1, 1]],
    "lists": cp.hstack([z, other, np.ones(2)]),
    "stacked": cp.vstack([z, np.ones(2)]) @ B,
    "blocks": cp.bmat([[Z, B], [B, Z]]),
    "reshaped": cp.reshape(Z, (4, 1), order="C") + 1,
    "sums": cp.sum(Z, axis=0) + cp.cumsum(z),
    "diagonals": cp.diag(z) + cp.trace(Z) + cp.diag(cp.diag(Z)),
    "transposed": Z.T + cp.upper_tri(Z),
    "one for all": z[0] + np.arange(3.0),
    "Kronecker": cp.kron(B, Z),
    "convolution": cp.conv([1.0, 2.0], z),
    "parameter": P @ z + cp.sum(P),
    "parameter times": cp.multiply(P, Z),
    "not affine": cp.square(z - 1) + cp.abs(other) + z,
    "a product": cp.multiply(z, other + z) + 2 * z,
    "a quotient": other / (z[0] + 1),
    "a form": cp.quad_form(z - 2, np.eye(2)) * 3 - 1,
    "a norm": 2 * cp.norm(A @ z - 1) + cp.max(z),
    "wrapped": cp.psd_wrap(Z) + 1,
}


def moved(origin):
    """A translation, and the values for which its expressions have those of the old ones."""
    pairs = {
        v: (
            cp.Variable(v.shape, name=v.name()),
            origin * np.ones(v.shape) + np.arange(v.size).reshape(v.shape),
        )
        for v in (z, Z)
    }
    for old, (new, _) in pairs.items():
        new.value = draw.normal(size=old.shape)
    for old, (new, o) in pairs.items():
        old.value = new.value + o
    other.value = draw.normal(size=2)
    return Translation(pairs), pairs


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_same_function(name):
    translate, pairs = moved(3.0)
    new = translate(EXPRESSIONS[name])
    assert not {v.id for v in new.variables()} & {old.id for old in pairs}
    assert new.shape == EXPRESSIONS[name].shape
    assert new.curvature == EXPRESSIONS[name].curvature
    np.testing.assert_allclose(new.value, EXPRESSIONS[name].value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sense", ["<=", ">=", "=="])
@pytest.mark.parametrize(
    "sides",
    [
        (z, 1.0),
        (A @ z, np.ones(3)),
        (z + 1, other),
        (2 * z, z + 5),
        (other, z - 1),
        (cp.norm(z), z[0] + 9),
    ],
)
def test_the_same_rows(sides, sense):
    left, right = sides
    if sense == "==" and not cp.Constant(0).is_affine() or (sense == "==" and not left.is_affine()):
        return
    row = {"<=": left <= right, ">=": left >= right, "==": left == right}[sense]
    row.set_label("a name")
    translate, _ = moved(3.0)
    new = translate(row)
    assert type(new) is type(row) and new.label == "a name" and new.shape == row.shape
    np.testing.assert_allclose(new.residual, row.residual, atol=1e-12)


def test_nothing_is_rounded_on_the_way():
    """What cancels is constant, so that the small numbers keep their digits."""
    translate, pairs = moved(FAR)
    new, _ = pairs[z]
    new.value = np.array([0.1, 0.2])
    affine = translate(cp.hstack([z - FAR, [1.0, 1.0]]) * 2 - 4)
    np.testing.assert_array_equal(affine.value, 2 * np.array([0.1, 1.2, 1.0, 1.0]) - 4)
    row = translate(z <= FAR + 0.5)
    np.testing.assert_array_equal(row.expr.value, np.array([0.1, 0.2]) + np.array([-0.5, 0.5]))


def test_what_holds_none_of_them_is_left_as_it_is():
    translate, _ = moved(3.0)
    part, row = cp.square(other) + 1, other >= 2
    assert translate(part) is part
    assert translate(row) is row


def test_parameters_stay():
    translate, _ = moved(3.0)
    new = translate(P @ z - 1)
    before = new.value
    P.value = 2 * B
    try:
        np.testing.assert_allclose(new.value + 1, 2 * (before + 1))
    finally:
        P.value = B
