"""Structure and explain(): what a problem is found to be."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def build(g, below=(), f=None, upper=()):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(g(x, y)), [c(x, y) for c in below], variables=[y])
    f = f or (lambda x, y: cp.sum_squares(x) + cp.sum(y))
    return bm.BilevelProblem(cp.Minimize(f(x, y)), [c(x, y) for c in upper], lower)


@pytest.mark.parametrize(
    ("g", "below", "expected"),
    [
        (lambda x, y: cp.sum(y), [lambda x, y: y >= x], "LP"),
        (lambda x, y: y[0] * y[0] + y[1] ** 2 + y[0] * y[1], [], "QP"),
        (lambda x, y: cp.sum_squares(y - x), [lambda x, y: cp.norm(y, 2) <= 1], "conic"),
        (lambda x, y: cp.sum(cp.exp(y)) + x @ y, [], "conic"),
        (lambda x, y: y[0] * y[1], [], "nonconvex"),
        (lambda x, y: cp.sum(cp.nlp.sin(y)), [], "nonconvex"),
    ],
)
def test_class_of_the_lower_level(g, below, expected):
    assert build(g, below).structure.lower_class == expected


def test_coupling_is_found_on_either_side():
    plain = build(lambda x, y: cp.sum_squares(y - x), [lambda x, y: y >= 0]).structure
    assert not plain.is_coupled_below
    assert not plain.is_coupled_above
    coupled = build(
        lambda x, y: cp.sum_squares(y - x),
        [lambda x, y: y >= x - 1],
        upper=[lambda x, y: cp.sum(x + y) <= 3],
    ).structure
    assert coupled.is_coupled_below
    assert coupled.is_coupled_above


def test_explain_names_the_evidence():
    text = build(
        lambda x, y: cp.sum_squares(y - x),
        [lambda x, y: y >= x - 1],
        upper=[lambda x, y: x >= 0, lambda x, y: x <= 1],
    ).explain()
    assert "QP in y at fixed x" in text
    assert "1 of 1" in text and "<= y" in text
    assert "2 of 2 x bounded both ways" in text
    assert "branch and bound" in text


def test_upper_objective_through_y_only_is_said():
    text = build(lambda x, y: cp.sum_squares(y - x), f=lambda x, y: cp.sum_squares(y - 1)).explain()
    assert "only through y" in text


def test_bounds_are_read_off_the_rows():
    problem = build(
        lambda x, y: cp.sum_squares(y - x),
        upper=[lambda x, y: 2 * x[0] <= 3, lambda x, y: -x >= -5, lambda x, y: x[1] >= -1],
    )
    low, high = problem.model.x_bounds
    np.testing.assert_allclose(low, [-np.inf, -1])
    np.testing.assert_allclose(high, [1.5, 5])
