"""Examples of Chen, Xiao and Chen on alternating and value-function-free penalty methods.

Numbers are those of the paper; the solutions were found by brute force on fine grids.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

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


# The toy of section 6.2.2: the reference model, and the features of the response to fit, of the
# preferred and of the rejected one. tests/unit/problems/test_peft_toy.py tells how the paper is read.
REFERENCE = -5.34, -9.94
FITTED, PREFERRED, REJECTED = [1.0, 1.0, 0.5, 0.5], [1.0, 0.5, 0.5, 0.5], [0.5, 1.0, 1.0, 1.0]


def margin(features: list[float], x: Any, y: Any) -> Any:
    """Second output of the toy's convolution less the first."""
    return (features[2] - features[0]) * x + (features[3] - features[1]) * y


def fine_tuning_toy() -> BilevelProblem:
    """Section 6.2.2: preferences (DPO) above, the likelihood of one response below."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")

    def log_probability(features: list[float]) -> cp.Expression:
        return -cp.logistic(-margin(features, x, y))

    preference = log_probability(PREFERRED) - log_probability(REJECTED)
    known = sum(
        sign * np.logaddexp(0, -margin(features, *REFERENCE))
        for sign, features in ((-1, PREFERRED), (1, REJECTED))
    )
    ridge = 0.01 * (cp.square(x) + cp.square(y))
    upper = cp.Minimize(cp.logistic(known - preference) + ridge)
    lower = Lower(cp.Minimize(-log_probability(FITTED) + ridge), variables=[y])
    return BilevelProblem(upper, [], lower)
