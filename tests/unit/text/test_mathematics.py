"""Formulas of cvxpy expressions in LaTeX and plain text."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.text.mathematics import Writer, latex, plain
from blomodel.text.notation import LATEX

x, y = cp.Variable(name="x"), cp.Variable(name="y")
v, weight = cp.Variable(3, name="v"), cp.Variable(3, name="lambda_1")
rate = cp.Parameter(nonneg=True, name="rate")


@pytest.mark.parametrize(
    ("part", "text", "tex"),
    [
        (x - 2 * (y - x), "x - 2 (y - x)", r"x - 2 \left(y - x\right)"),
        (-(x + y), "-(x + y)", r"-\left(x + y\right)"),
        ((x + 1) ** 2 * y, "(x + 1)^2 y", r"\left(x + 1\right)^{2} y"),
        (0 - y + x * 3, "-y + 3 x", "-y + 3 x"),
        (cp.exp(2 - y) / (1 + x**2), "exp(2 - y) / (1 + x^2)", r"\frac{e^{2 - y}}{1 + x^{2}}"),
        (cp.sqrt(x) + x**-1, "sqrt(x) + x^(-1)", r"\sqrt{x} + x^{-1}"),
        (cp.sum_squares(v - 1), "|v - 1|_2^2", r"\left\|v - 1\right\|_{2}^{2}"),
        (rate * cp.norm1(v), "rate |v|_1", r"\mathrm{rate} \left\|v\right\|_{1}"),
        (cp.abs(x) <= cp.maximum(x, y), "|x| <= max(x, y)", r"\left|x\right| \le \max\left(x, y\right)"),
        (cp.multiply(weight, v) <= 1, "lambda_1 o v <= 1", r"\lambda_{1} \circ v \le 1"),
        (v @ weight, "v' lambda_1", r"v^{\top} \lambda_{1}"),
        (v[0] + v[1:], "v[0] + v[1:3]", r"v_{0} + v_{1:3}"),
        (cp.log(x) == y, "log(x) == y", r"\log\left(x\right) = y"),
        (cp.logistic(x), "log(1 + exp(x))", r"\log\left(1 + e^{x}\right)"),
        (cp.quad_form(v, np.diag([1.0, 2, 3])), "v' [1, 0, 0; 0, 2, 0; 0, 0, 3] v",
         r"v^{\top} \begin{pmatrix}1 & 0 & 0 \\ 0 & 2 & 0 \\ 0 & 0 & 3\end{pmatrix} v"),
        (cp.SOC(x, v), "(x, v) in SOC", r"(x, v) \in \mathrm{SOC}"),
        (1e-7 * x, "1e-07 x", r"10^{-7} x"),
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


def test_text_can_be_read_back():
    """Brackets are where they must be: the plain text evaluates to the expression's value."""
    expressions = [
        x - (y - 2 * x) * (x + y) ** 2,
        -((x - y) ** 3) / (1 + x**2) - (-(x - 1)),
        (x / (y + 2)) * 3 - 2 * (x * y),
        ((x + 1) ** 2) ** 2 - (x - (y - (x - 1))),
    ]
    for expression in expressions:
        x.value, y.value = 0.7, -0.4
        code = plain(expression).replace("^", "**")
        # Juxtaposition is multiplication.
        spaced = code.replace("- ", "-").replace("+ ", "+").replace("/ ", "/")
        spaced = spaced.replace(" -", "-").replace(" +", "+").replace(" /", "/").replace(" ", "*")
        assert eval(spaced, {"x": 0.7, "y": -0.4}) == pytest.approx(float(expression.value))
