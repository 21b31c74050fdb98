"""Examples of the papers on GALET and on perturbed gradient descent: smooth, free lower levels."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from blomodel.problem import BilevelProblem, Lower


def flat_lower() -> BilevelProblem:
    """Example 1 of the GALET paper: a nonconvex lower level that satisfies the PL condition."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    rest = y[0] - cp.nlp.sin(y[1])
    lower = Lower(cp.Minimize(0.5 * (x + rest) ** 2), [], variables=[y])
    return BilevelProblem(cp.Minimize(x**2 + rest), [], lower)


def rotated(n: int = 20, condition: float = 3.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The matrix H of C.1.1 with a given condition, and the vectors c, d and the start as rows."""
    random = np.random.default_rng(seed)
    left, _ = np.linalg.qr(random.standard_normal((n, n)))
    right, _ = np.linalg.qr(random.standard_normal((n, n)))
    h = left @ np.diag(np.geomspace(1, condition, n) / np.sqrt(condition)) @ right.T
    return h, random.standard_normal((3, n)) / np.sqrt([[n], [n], [1]])


def waves(
    n: int = 20, condition: float = 3.0, seed: int = 0, is_nonconvex: bool = False
) -> BilevelProblem:
    """C.1.1 of the paper on perturbed gradient descent, or C.1.3 with a cosine below; random data."""
    h, (c, d, start) = rotated(n, condition, seed)
    x, y = cp.Variable(n, name="x", value=start), cp.Variable(n, name="y")
    distance = 0.5 * cp.sum_squares(h @ y - x)
    lower = Lower(cp.Minimize(cp.nlp.cos(distance) if is_nonconvex else distance), [], variables=[y])
    upper = cp.nlp.sin(c @ x + d @ y) + cp.log(cp.sum_squares(x + y) + 1)
    return BilevelProblem(cp.Minimize(upper), [], lower)


def coreset() -> BilevelProblem:
    """C.1.2 of that paper: softmax weights of four points, whose mean shall be near a target.

    The paper does not print its numbers; these are ours.
    """
    corners = np.array([[1.0, 3.0, -2.0, 0.0], [3.0, 1.0, 0.0, -2.0]])
    x, y = cp.Variable(4, name="x", value=np.zeros(4)), cp.Variable(2, name="y")
    shares = cp.exp(x) / cp.sum(cp.exp(x))
    lower = Lower(cp.Minimize(cp.sum_squares(y - corners @ shares)), [], variables=[y])
    return BilevelProblem(cp.Minimize(cp.sum_squares(y - np.array([1.0, 0.5]))), [], lower)
