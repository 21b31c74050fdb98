"""Random bilevel QPs with coupled constraints, and IPOPT on their KKT conditions for comparison.

upper: min 1/2 |x - a|^2 + 1/2 |y - b|^2 over -5 <= x <= 5
lower: min 1/2 y'Qy + (Cx + q)'y  s.t.  Ay <= r + Bx,  Q positive definite, as many rows as variables
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import blomodel as bm

BEST_KNOWN = {10: 1.6829, 50: 21.891, 200: 147.12}  # best of the tools measured on these instances


@dataclass
class BilevelQP:
    """One instance; the order of the draws fixes it."""

    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        draw, n = np.random.default_rng(self.seed), self.n
        square = draw.standard_normal((n, n))
        self.Q = square @ square.T / n + np.eye(n)
        self.C = draw.standard_normal((n, n)) / np.sqrt(n)
        self.q = draw.standard_normal(n)
        self.A = draw.standard_normal((n, n)) / np.sqrt(n)
        self.r = draw.uniform(0.2, 1.0, n)
        self.B = 0.3 * draw.standard_normal((n, n)) / np.sqrt(n)
        self.a = draw.standard_normal(n)
        self.b = draw.standard_normal(n)

    def model(self) -> tuple[bm.BilevelProblem, cp.Variable, cp.Variable]:
        """The instance in cvxpy."""
        x, y = cp.Variable(self.n, name="x"), cp.Variable(self.n, name="y")
        lower = bm.Lower(
            cp.Minimize(cp.quad_form(y, cp.psd_wrap(self.Q)) / 2 + (self.C @ x + self.q) @ y),
            [self.A @ y <= self.r + self.B @ x],
            variables=[y],
        )
        upper = cp.Minimize((cp.sum_squares(x - self.a) + cp.sum_squares(y - self.b)) / 2)
        return bm.BilevelProblem(upper, [x >= -5, x <= 5], lower), x, y

    def value(self, x: np.ndarray) -> float:
        """Upper objective at x with the lower level solved apart, by cvxpy."""
        y = cp.Variable(self.n)
        cp.Problem(
            cp.Minimize(cp.quad_form(y, cp.psd_wrap(self.Q)) / 2 + (self.C @ x + self.q) @ y),
            [self.A @ y <= self.r + self.B @ x],
        ).solve(solver=cp.CLARABEL)
        return float(np.sum((x - self.a) ** 2) + np.sum((y.value - self.b) ** 2)) / 2


def solve_with_ipopt(instance: BilevelQP) -> tuple[np.ndarray, float, float]:
    """KKT conditions with relaxed complementarity driven to zero; x, set-up time, solve time."""
    import casadi as ca

    d, n = instance, instance.n
    began = time.perf_counter()
    x, y, dual, relax = (
        ca.MX.sym("x", n), ca.MX.sym("y", n), ca.MX.sym("l", n), ca.MX.sym("t")
    )  # fmt: skip
    slack = d.r + ca.mtimes(d.B, x) - ca.mtimes(d.A, y)
    stationarity = ca.mtimes(d.Q, y) + ca.mtimes(d.C, x) + d.q + ca.mtimes(d.A.T, dual)
    objective = (ca.sumsqr(x - d.a) + ca.sumsqr(y - d.b)) / 2
    rows = ca.vertcat(stationarity, slack, relax - slack * dual)
    solver = ca.nlpsol(
        "kkt",
        "ipopt",
        {"x": ca.vertcat(x, y, dual), "p": relax, "f": objective, "g": rows},
        {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"},
    )
    ready = time.perf_counter()
    point = np.zeros(3 * n)
    lower_bound = np.concatenate([np.full(n, -5), np.full(n, -np.inf), np.zeros(n)])
    upper_bound = np.concatenate([np.full(n, 5), np.full(2 * n, np.inf)])
    for level in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
        answer = solver(
            x0=point,
            p=level,
            lbx=lower_bound,
            ubx=upper_bound,
            lbg=np.zeros(3 * n),
            ubg=np.concatenate([np.zeros(n), np.full(2 * n, np.inf)]),
        )
        point = np.array(answer["x"]).ravel()
    return point[:n], ready - began, time.perf_counter() - ready
