"""Parts of expressions add up to the whole, and hold their own entries only."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.expressions.restricting import NotSeparable, Owners, Restriction

Y = cp.Variable((3, 2), name="Y")
Z = cp.Variable(3, name="Z")
ALPHA = cp.Parameter(3, value=[0.5, 2.0, 3.0], name="alpha")
GROUPS = {Y.id: np.array([0, 1, 2, 0, 1, 2]), Z.id: np.array([0, 1, 2])}
MATRIX = np.diag([1.0, 2.0, 3.0])

SUMS = {
    "squares": cp.sum_squares(Y) + 4,
    "sum over an axis": cp.sum(cp.multiply([1.0, 2.0], cp.sum(Y, axis=0))),
    "inner product": 2 * (Y[:, 0] @ Z) - cp.sum(Y),
    "logarithms": cp.sum(cp.log(1 + cp.square(Y))) / 3,
    "norms": cp.norm1(Y) - cp.sum(cp.norm(Y, axis=1)),
    "quadratic form": cp.quad_form(Z, MATRIX) - cp.quad_form(Y[:, 1], -MATRIX),
    "stacked": cp.sum(cp.hstack([Z, Y[:, 0] - Z, np.ones(2)]) * 3),
    "cumulated": cp.sum(cp.cumsum(Z)),
    "parameters": ALPHA @ Z + cp.sum(cp.multiply(ALPHA, cp.exp(Z))),
    "transposed": cp.sum(cp.square(np.array([1.0, 2.0]) @ Y.T)),
}


def _parts() -> list[tuple[Restriction, dict[int, cp.Variable]]]:
    owners = Owners(GROUPS)
    parts = []
    for group in range(3):
        own = {Y.id: cp.Variable(2, name=f"Y{group}"), Z.id: cp.Variable(1, name=f"Z{group}")}
        parts.append((Restriction(owners, group, own), own))
    return parts


def _set_values(parts: list[Any]) -> None:
    draw = np.random.default_rng(1)
    Y.value, Z.value = draw.normal(size=(3, 2)), draw.normal(size=3)
    for group, (_, own) in enumerate(parts):
        own[Y.id].value, own[Z.id].value = Y.value[group], Z.value[group : group + 1]


@pytest.mark.parametrize("name", SUMS)
def test_terms_add_up(name: str) -> None:
    parts, whole = _parts(), SUMS[name]
    _set_values(parts)
    terms = [restriction.sum(whole) for restriction, _ in parts]
    assert sum(float(term.value) for term in terms if term is not None) == pytest.approx(whole.value)
    for term, (_, own) in zip(terms, parts, strict=True):
        assert term is None or {v.id for v in term.variables()} <= {v.id for v in own.values()}


def test_rows_go_to_their_groups() -> None:
    parts, row = _parts(), MATRIX @ Y - cp.exp(cp.reshape(Z, (3, 1), order="F")) @ np.ones((1, 2))
    _set_values(parts)
    found = np.full(row.size, np.nan)
    for restriction, _ in parts:
        at = restriction.entries(row)
        found[at] = restriction.select(row, at).value
    assert found == pytest.approx(row.value.ravel(order="F"))


def test_what_cannot_be_taken_apart_is_refused() -> None:
    restriction, _ = _parts()[0]
    with pytest.raises(NotSeparable):
        restriction.sum(cp.norm(Z))
    with pytest.raises(NotSeparable):
        restriction.entries(MATRIX @ Z + cp.sum(Z))
