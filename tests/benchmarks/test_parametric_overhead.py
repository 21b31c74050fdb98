"""What the parametric program costs on top of the solver calls inside it."""

from statistics import median
from time import perf_counter

import cvxpy as cp
import numpy as np
import osqp
import pytest
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.programs.parametric import ParametricProgram

NO_P = np.zeros(0)
GAMMA = 100.0
pytestmark = pytest.mark.benchmark


def instance(n, seed=0):
    """Random bilevel QP: .5 y'Qy + (Cx + q)'y s.t. Ay <= b + Bx below, least squares above."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    data = {"Q": root @ root.T / n + np.eye(n)}
    data["C"] = rng.standard_normal((n, n)) / np.sqrt(n)
    data["q"] = rng.standard_normal(n)
    data["A"] = rng.standard_normal((n, n)) / np.sqrt(n)
    data["b"] = rng.uniform(0.2, 1.0, n)
    data["B"] = 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
    data["goal"] = rng.standard_normal(n), rng.standard_normal(n)
    return data


def declare(d, x, y):
    f = 0.5 * cp.sum_squares(x - d["goal"][0]) + 0.5 * cp.sum_squares(y - d["goal"][1])
    g = 0.5 * cp.quad_form(y, cp.psd_wrap(d["Q"])) + (d["C"] @ x + d["q"]) @ y
    return f, g, [d["A"] @ y <= d["b"] + d["B"] @ x]


def compile_programs(d):
    n = len(d["q"])
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    f, g, constraints = declare(d, x, y)
    blocks = {"x": Block("x", [x]), "y": Block("y", [y]), "p": Block("p", [])}
    return (
        ParametricProgram([g], constraints, **blocks),
        ParametricProgram([f, g], constraints, **blocks),
    )


def raw_osqp(d, with_upper):
    n = len(d["q"])
    P = d["Q"] + (np.eye(n) / GAMMA if with_upper else 0.0)
    solver = osqp.OSQP()
    solver.setup(
        P=sp.csc_matrix(np.triu(P)),
        q=d["q"].copy(),
        A=sp.csc_matrix(d["A"]),
        l=np.full(n, -np.inf),
        u=d["b"].copy(),
        eps_abs=1e-9,
        eps_rel=1e-9,
        max_iter=100000,
        verbose=False,
    )
    return solver


@pytest.mark.parametrize(("n", "limit"), [(10, 3.5), (50, 2.5), (200, 2.5)])
def test_penalty_function_and_gradient_against_raw_osqp(n, limit):
    d = instance(n)
    lower, both = compile_programs(d)
    solvers = raw_osqp(d, False), raw_osqp(d, True)
    steps = 0.01 * np.random.default_rng(1).standard_normal((100, n))
    ours, theirs, error = [], [], 0.0
    weights = np.array([1 / GAMMA, 1.0])
    for x in np.cumsum(steps, axis=0):
        start = perf_counter()
        v = lower.solve(x, NO_P)
        v_gamma = both.solve(x, NO_P, weights)
        value = GAMMA * (v_gamma.value - v.value)
        slope = both.gradient(x, NO_P, weights, v_gamma) - lower.gradient(x, NO_P, (1.0,), v)
        ours.append(perf_counter() - start)
        assert np.isfinite(value) and np.isfinite(slope).all()
        q, u = d["q"] + d["C"] @ x, d["b"] + d["B"] @ x
        q_gamma = q - d["goal"][1] / GAMMA
        start = perf_counter()
        solvers[0].update(q=q, u=u)
        first = solvers[0].solve(raise_error=False)
        solvers[1].update(q=q_gamma, u=u)
        second = solvers[1].solve(raise_error=False)
        theirs.append(perf_counter() - start)
        error = max(error, np.abs(first.x - v.y).max(), np.abs(second.x - v_gamma.y).max())
    ratio = median(ours) / median(theirs)
    print(
        f"\nn={n}: {1e6 * median(ours):.0f} us against {1e6 * median(theirs):.0f} us of raw OSQP "
        f"at 1e-9, ratio {ratio:.2f} (largest difference in y {error:.1e})"
    )
    assert error <= 1e-6
    assert ratio <= limit


def test_compilation_against_canonicalisation():
    n, ours, theirs = 50, [], []
    for seed in range(7):
        d = instance(n, seed)
        start = perf_counter()
        x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
        _, g, constraints = declare(d, x, y)
        blocks = {"x": Block("x", [x]), "y": Block("y", [y]), "p": Block("p", [])}
        ParametricProgram([g], constraints, **blocks)
        ours.append(perf_counter() - start)
        start = perf_counter()
        x, y = cp.Parameter(n, value=np.zeros(n)), cp.Variable(n)
        _, g, constraints = declare(d, x, y)
        cp.Problem(cp.Minimize(g), constraints).get_problem_data(cp.OSQP)
        theirs.append(perf_counter() - start)
    ratio = median(ours) / median(theirs)
    print(
        f"\nn={n}: compiled in {1e3 * median(ours):.1f} ms, cvxpy's canonicalisation "
        f"{1e3 * median(theirs):.1f} ms, ratio {ratio:.2f}"
    )
    assert ratio <= 3.0
