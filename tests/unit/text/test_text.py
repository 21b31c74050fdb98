"""Expressions, constraints and models written as one would on paper."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.text import layout
from blomodel.text.mathematics import plain

x, y = cp.Variable(name="x"), cp.Variable(name="y")
z = cp.Variable(3, name="z")
Z = cp.Variable((2, 2), name="Z")
b = cp.Parameter(3, name="b")
A = cp.Constant(np.eye(3), name="A")


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        (x - (y - 2), "x - (y - 2)"),
        (-(x + y) * 3, "-(x + y) * 3"),
        (-3 * x + y, "-3 * x + y"),
        (2 * (x / y), "2 * (x / y)"),
        (x * y / 2, "x * y / 2"),
        ((-x) ** 2, "(-x)**2"),
        (-(x**2), "-x**2"),
        (x**-1, "x**(-1)"),
        ((x + 1) ** 0.5, "(x + 1)**0.5"),
        (cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)), "exp(2 - y) / (2 + cos(4 * x))"),
        (A @ z - b, "A @ z - b"),
        (np.ones((3, 3)) @ z, "[3x3 array] @ z"),
        (np.array([1.0, 2.0, 3.0]) @ z, "[1, 2, 3] @ z"),
        (cp.sum_squares(z - b), "sum_squares(z - b)"),
        (cp.quad_form(z, A), "quad_form(z, A)"),
        (cp.norm(z), "norm(z, 2)"),
        (cp.norm1(z), "norm1(z)"),
        (cp.multiply(b, z), "multiply(b, z)"),
        (z[1] + cp.sum(z), "z[1] + sum(z)"),
        (cp.sum(Z, axis=0), "sum(Z, 0)"),
        (Z.T @ Z, "Z.T @ Z"),
        (cp.huber(x, 2), "huber(x, 2)"),
        (cp.maximum(x, 0), "maximum(x, 0)"),
    ],
)
def test_expression(expression: cp.Expression, written: str) -> None:
    assert plain(expression) == written


def test_label_replaces_the_expression() -> None:
    assert plain((x + y).set_label("total") * 2) == "total * 2"


@pytest.mark.parametrize(
    ("constraint", "written"),
    [
        (z <= b, "z <= b"),
        (z >= -1, "-1 <= z"),
        (x + y == 1, "x + y == 1"),
        (Z >> 0, "Z >> 0"),
        (cp.SOC(y, z), "SOC(y, z)"),
    ],
)
def test_constraint(constraint: cp.Constraint, written: str) -> None:
    assert plain(constraint) == written


def test_table_needs_no_trailing_spaces() -> None:
    lines = layout.table(["a", "b"], [["long cell", "1"], ["c", ""]]).split("\n")
    assert lines == ["a          b", "---------  -", "long cell  1", "c"]


@pytest.mark.parametrize("value", [1.0, 1e-9, -3.25, 123456.0, 1e20, float("inf")])
def test_number_reads_back(value: float) -> None:
    assert float(layout.number(value)) == value
