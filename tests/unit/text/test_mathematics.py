"""Formulas of cvxpy expressions in LaTeX and plain text."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.text.mathematics import Writer, latex, plain
from blomodel.text.notation import LATEX, TEXT

x, y = cp.Variable(name="x"), cp.Variable(name="y")
v, weight = cp.Variable(3, name="v"), cp.Variable(3, name="lambda_1")
rate = cp.Parameter(nonneg=True, name="rate")


@pytest.mark.parametrize(
    ("part", "text", "tex"),
    [
        (x - 2 * (y - x), "x - 2 * (y - x)", r"x - 2 \left(y - x\right)"),
        (-(x + y), "-(x + y)", r"-\left(x + y\right)"),
        ((x + 1) ** 2 * y, "(x + 1)**2 * y", r"\left(x + 1\right)^{2} y"),
        (0 - y + x * 3, "-y + x * 3", "-y + 3 x"),
        (cp.exp(2 - y) / (1 + x**2), "exp(2 - y) / (1 + x**2)", r"\frac{e^{2 - y}}{1 + x^{2}}"),
        (cp.sqrt(x) + x**-1, "x**0.5 + x**(-1)", r"\sqrt{x} + x^{-1}"),
        (cp.sum_squares(v - 1), "sum_squares(v - 1)", r"\left\|v - 1\right\|_{2}^{2}"),
        (rate * cp.norm1(v), "rate * norm1(v)", r"\mathrm{rate} \left\|v\right\|_{1}"),
        (cp.abs(x) <= cp.maximum(x, y), "abs(x) <= maximum(x, y)",
         r"\left|x\right| \le \max\left(x, y\right)"),
        (cp.multiply(weight, v) <= 1, "multiply(lambda_1, v) <= 1", r"\lambda_{1} \circ v \le 1"),
        (v @ weight, "v @ lambda_1", r"v^{\top} \lambda_{1}"),
        (v[0] + v[1:], "v[0] + v[1:3]", r"v_{0} + v_{1:3}"),
        (cp.log(x) == y, "log(x) == y", r"\log\left(x\right) = y"),
        (cp.logistic(x), "logistic(x)", r"\log\left(1 + e^{x}\right)"),
        (cp.quad_form(v, np.diag([1.0, 2, 3])), "quad_form(v, [3x3 array])",
         r"v^{\top} \begin{pmatrix}1 & 0 & 0 \\ 0 & 2 & 0 \\ 0 & 0 & 3\end{pmatrix} v"),
        (cp.SOC(x, v), "SOC(x, v)", r"(x, v) \in \mathrm{SOC}"),
        (1e-7 * x, "1e-07 * x", r"10^{-7} x"),
        (cp.entr(x), "entr(x)", r"\operatorname{entr}\left(x\right)"),
    ],
)  # fmt: skip
def test_formulas(part, text, tex):
    assert plain(part) == text
    assert latex(part) == tex


def test_large_arrays_get_names_once():
    matrix = cp.Constant(np.arange(100.0).reshape(10, 10))
    z = cp.Variable(10, name="z")
    writer = Writer(LATEX)
    assert writer.write(matrix @ z) == "A_{1} z"
    assert writer.write(2 * (matrix @ z)) == "2 A_{1} z"
    assert writer.legend == [r"A_{1} \in \mathbb{R}^{10 \times 10}"]


def test_names_that_latex_would_trip_over():
    odd = cp.Variable(name="price of gas_1st round")
    assert latex(odd) == r"\mathrm{price\ of\ gas}_{\mathrm{1st\ round}}"
    assert latex(cp.Variable(name="x12")) == "x_{12}"
    assert latex(cp.Variable(name="50%")) == r"\mathrm{50\%}"


def test_ones_in_a_matrix_product_are_no_number():
    assert latex(np.ones((2, 3)) @ v) == r"\begin{pmatrix}1 & 1 & 1 \\ 1 & 1 & 1\end{pmatrix} v"
    assert latex(np.ones(3) + v) == "1 + v"


def test_names_of_constants_are_kept():
    matrix = cp.Constant(np.arange(100.0).reshape(10, 10), name="K")
    z = cp.Variable(10, name="z")
    assert latex(matrix.T @ z) == r"K^{\top} z"
    assert plain(matrix.T @ z) == "K.T @ z"


def test_data_has_names_where_a_legend_explains_them():
    writer = Writer(TEXT)
    z = cp.Variable(10, name="z")
    assert writer.write(np.arange(10.0) @ z) == "a_1 @ z"
    assert writer.legend == ["a_1: 10 numbers"]
    assert writer.write(np.diag([1.0, 2.0]) @ z[:2]) == "[[1, 0], [0, 2]] @ z[0:2]"
    assert writer.write((2 * cp.Constant(3.0)) * x) == "6 * x"


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y, v: x - (y - 2 * x) * (x + y) ** 2,
        lambda x, y, v: -((x - y) ** 3) / (1 + x**2) - (-(x - 1)),
        lambda x, y, v: (x / (y + 2)) * 3 - 2 * (x * y),
        lambda x, y, v: ((x + 1) ** 2) ** 2 - (x - (y - (x - 1))),
        lambda x, y, v: x**-1 + (-y) ** 0.5 - 2 * (x / (y / x)),
        lambda x, y, v: cp.sum_squares(v - 1) + cp.norm(v, 2) - cp.norm(v, 3) * cp.norm1(-v),
        lambda x, y, v: cp.logistic(x) + cp.maximum(x, y, 0.5) + cp.huber(x, 2) - cp.max(v),
        lambda x, y, v: cp.quad_over_lin(v, x) + v[1] - cp.sum(v[0:2]) + cp.sum(v[[2, 0]]),
        lambda x, y, v: cp.multiply(np.array([1.0, 2.0, 3.0]), v) @ v + cp.prod(v[::-1]),
        lambda x, y, v: cp.sum(cp.hstack([x, y, v]), 0) + cp.geo_mean(cp.abs(v)),
        lambda x, y, v: cp.sum(cp.diag(v).T @ cp.diag(v)) * -x,
    ],
)
def test_typed_text_is_code(build):
    """Brackets and names are right: what is written evaluates to the expression's value."""
    expression = build(x, y, v)
    x.value, y.value, v.value = 0.7, -0.4, np.array([0.3, -1.2, 2.0])
    names = {name: getattr(cp, name) for name in dir(cp) if not name.startswith("_")}
    again = eval(plain(expression), {**names, "x": x, "y": y, "v": v})
    assert np.asarray(again.value) == pytest.approx(np.asarray(expression.value))


def test_masks_are_written_as_the_positions_they_select():
    x, y = cp.Variable(3, name="x"), cp.Variable((2, 2), name="y")
    mask, square = np.array([True, False, True]), np.array([[True, False], [True, True]])
    assert plain(x[mask]) == "x[[0, 2]]"
    assert plain(x[np.array([True, True, False])]) == "x[[0, 1]]"
    assert plain(y[:, np.array([False, True])]) == "y[:, [1]]"
    assert plain(y[square]) == "y[[0, 1, 1], [0, 0, 1]]"
    # What is written can be typed, and selects the same.
    y.value = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.array_equal(y[[0, 1, 1], [0, 0, 1]].value, y[square].value)
