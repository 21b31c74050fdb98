"""Whole models as mathematics: both levels, domains, shortened data, and valid MathML."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from latex2mathml.converter import convert

import blomodel as bm
from blomodel.report.model_math import model_latex, model_rows
from blomodel.text.mathematics import latex

x, y = cp.Variable(name="x"), cp.Variable(name="y")
z = cp.Variable(3, name="z")
Z = cp.Variable((2, 2), name="Z")
b = cp.Parameter(3, name="b")


@pytest.mark.parametrize(
    "part",
    [
        cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)) + cp.log(x),
        np.eye(3) @ z - b,
        np.array([1.0, 2.0, 3.0]) @ z,
        1e-6 * x + cp.abs(x) + cp.sqrt(x),
        cp.sum_squares(z - b) + cp.norm(z) + cp.norm1(z) + cp.norm_inf(z),
        cp.quad_form(z, np.diag([1.0, 2.0, 3.0])) / 2,
        cp.multiply(b, z),
        z[1] + cp.sum(z) + cp.sum(z[1:]),
        Z.T @ Z,
        cp.huber(x, 2) + cp.maximum(x, 0) + cp.logistic(y),
        z <= b,
        x + y == 1,
        Z >> 0,
        cp.SOC(y, z),
    ],
    ids=str,
)
def test_reports_can_show_what_is_written(part: cp.Expression) -> None:
    # a command that the converter does not know would come out as text with its backslash
    assert "\\" not in convert(latex(part))


def test_model_has_both_levels_and_the_declared_domains() -> None:
    price = cp.Variable(name="price", bounds=[0, 4])
    load = cp.Variable(3, name="load", nonneg=True)
    lower = bm.Lower(cp.Maximize(cp.sum(load) - price * cp.sum_squares(load)), variables=[load])
    problem = bm.BilevelProblem(cp.Minimize(price - cp.sum(load)), [], lower)
    formula = model_latex(problem)
    assert r"\underset{\mathrm{price}}{\min}" in formula
    assert r"0 \le \mathrm{price} \le 4" in formula
    assert r"\mathrm{load} \in \underset{\mathrm{load}}{\operatorname{argmax}}" in formula
    assert r"\mathrm{load} \in \mathbb{R}^{3},\ \mathrm{load} \ge 0" in formula
    assert problem._repr_latex_() == f"$$\n{formula}\n$$"


def test_many_constraints_are_shortened() -> None:
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= k for k in range(1, 40)], variables=[y])
    rows = model_rows(bm.BilevelProblem(cp.Minimize(x**2), [x >= -1], lower))
    assert len(rows) < 20
    assert rows[-1].formula == r"\text{and 27 more}"


def test_large_data_gets_a_name_and_a_shape() -> None:
    data = np.random.default_rng(0).standard_normal((50, 3))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(data @ z - x)), variables=[z])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + cp.sum(z)), [x >= -1], lower)
    last = model_rows(problem)[-1]
    assert last.lead == r"\text{with data}" and r"\mathbb{R}^{50 \times 3}" in last.formula
    assert len(model_latex(problem)) < 500
