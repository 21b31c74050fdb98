"""Examples of Chen, Xiao and Chen on alternating and value-function-free penalty methods.

Numbers are those of the paper; the solutions were found by brute force on fine grids.
"""

from __future__ import annotations

import cvxpy as cp

from blomodel.problem import BilevelProblem, Lower


def example_1() -> BilevelProblem:
    """Example 1, on which PBGD-Free must go wrong: the slope of phi is 2x + 10, that of f in x is 2x."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = Lower(cp.Minimize(cp.square(y - x + 1)), variables=[y])
    return BilevelProblem(cp.Minimize(cp.square(x) + 10 * y), [], lower)


def example_3() -> BilevelProblem:
    """Example 3 on [0, 3] x [0, 3]: y has bounds of its own, and g waves in both variables."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = 2 * cp.square(y - x) + x / 2 * cp.square(cp.nlp.sin(x + y))
    lower = Lower(cp.Minimize(g), [0 <= y, y <= 3], variables=[y])
    f = cp.exp(-y + 1) / (2 + cp.nlp.cos(4 * x)) + cp.log((4 * x - 2) ** 2 + 1) / 2 + x**2
    return BilevelProblem(cp.Minimize(f), [0 <= x, x <= 3], lower)


def example_4() -> BilevelProblem:
    """Example 4, coupled by y <= x: the best x = y is 0.300705, with f = 2.654498."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])
    f = cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)) + cp.log((4 * x - 2) ** 2 + 1) / 2 + x**2
    return BilevelProblem(cp.Minimize(f), [0 <= x, x <= 3], lower)
