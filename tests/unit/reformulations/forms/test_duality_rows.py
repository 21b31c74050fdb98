"""Rows from strong duality: valid at every answer of the lower level, and what they are good for."""

from __future__ import annotations

import types

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

import blomodel as bm
from blomodel.methods.search.pieces import ExactPieces
from blomodel.reformulations.forms.duality_rows import with_duality_rows
from blomodel.solvers.complementarity import ComplementarityStatus, solve_globally

SAFE = 1e-6


def random_lp(seed, n=5, rows=10, strength=0.1, equalities=0):
    """A bounded lower level in y whose rows shift with x."""
    draw = np.random.default_rng(seed)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A, B = draw.standard_normal((rows, n)), strength * draw.standard_normal((rows, n))
    constraints = [A @ y <= draw.uniform(0.5, 1.5, rows) + B @ x, -2 <= y, y <= 2]
    own, wish = draw.standard_normal(n), draw.standard_normal((2, n))
    if equalities:
        shape = (equalities, n)
        constraints += [draw.standard_normal(shape) @ y == 0.2 * draw.standard_normal(shape) @ x]
    lower = bm.Lower(cp.Minimize(own @ y), constraints, variables=[y])
    return bm.BilevelProblem(cp.Minimize(wish[0] @ x + wish[1] @ y), [-1 <= x, x <= 1], lower)


def pieces_of(problem):
    model, p = problem.model, problem.parameter_values()
    plain = ExactPieces(types.SimpleNamespace(model=model, p=p)).qp
    return plain, with_duality_rows(plain, model, p)


def answer(problem, x):
    """(x, y, multipliers) by SciPy; None where the lower level has no point."""
    model, p, zero = problem.model, problem.parameter_values(), np.zeros(problem.model.y.size)
    inside, on = model.lower_in.linearise(x, zero, p), model.lower_eq.linearise(x, zero, p)
    found = linprog(
        model.g_grad(x, zero, p)[-zero.size :],
        A_ub=inside.in_y, b_ub=-inside.value, A_eq=on.in_y, b_eq=-on.value, bounds=(None, None),
    )  # fmt: skip
    if found.status != 0:
        return None
    return np.concatenate([x, found.x, -found.ineqlin.marginals, -found.eqlin.marginals])


@pytest.mark.parametrize("equalities", [0, 2])
def test_every_answer_satisfies_the_rows(equalities):
    draw, seen, tight = np.random.default_rng(0), 0, 0
    for seed in range(4):
        problem = random_lp(seed, strength=0.3, equalities=equalities)
        plain, joined = pieces_of(problem)
        assert joined.A_in.shape[0] > plain.A_in.shape[0]
        rows = joined.A_in.toarray()[plain.A_in.shape[0] :]
        for _ in range(20):
            z = answer(problem, draw.uniform(-1, 1, 5))
            if z is not None:
                assert plain.violation(z) <= 1e-7
                assert np.all(rows @ z <= 1e-7)
                seen += 1
        # They cut off what dropping complementarity lets in.
        free = [solve_globally(qp, node_limit=1).bound for qp in (plain, joined)]
        tight += free[1] > free[0] + 1e-3
    assert seen > 40 and tight >= 1


def largest(qp, cost):
    """Maximum of a linear function over the conditions without complementarity, by SciPy."""
    low = np.full(len(qp.q), -np.inf)
    low[qp.columns] = 0.0
    found = linprog(
        -cost, A_ub=qp.A_in, b_ub=qp.b_in, A_eq=qp.A_eq, b_eq=qp.b_eq,
        bounds=np.column_stack([low, np.full(len(low), np.inf)]),
    )  # fmt: skip
    return -found.fun if found.status == 0 else np.inf


def by_binaries(qp):
    """The optimum as a mixed-integer program whose bounds on slacks and multipliers are proved."""
    n, pairs = len(qp.q), len(qp.rows)
    rows = sp.csr_array(qp.A_in)[qp.rows].toarray()
    price = np.array([largest(qp, unit) for unit in np.eye(n)[qp.columns]])
    slack = qp.b_in[qp.rows] + np.array([largest(qp, -row) for row in rows])
    assert np.all(np.isfinite(price)) and np.all(np.isfinite(slack))  # thanks to the rows
    price, slack = price + SAFE, slack + SAFE
    low = np.concatenate([np.full(n, -np.inf), np.zeros(pairs)])
    low[qp.columns] = 0.0
    high = np.concatenate([np.full(n, np.inf), np.ones(pairs)])
    none = sp.csr_array((qp.A_in.shape[0], pairs))
    found = milp(
        np.concatenate([qp.q, np.zeros(pairs)]),
        integrality=np.repeat([0, 1], [n, pairs]),
        bounds=Bounds(low, high),
        constraints=[
            LinearConstraint(sp.hstack([qp.A_eq, none[: len(qp.b_eq)]]), qp.b_eq, qp.b_eq),
            LinearConstraint(sp.hstack([qp.A_in, none]), -np.inf, qp.b_in),
            LinearConstraint(np.hstack([np.eye(n)[qp.columns], -np.diag(price)]), -np.inf, 0.0),
            LinearConstraint(np.hstack([-rows, np.diag(slack)]), -np.inf, slack - qp.b_in[qp.rows]),
        ],
        options={"mip_rel_gap": 1e-9},
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("seed", range(3))
def test_branching_on_pairs_agrees_with_binaries(seed):
    plain, joined = pieces_of(random_lp(seed))
    assert len(plain.rows) == 20
    expected = by_binaries(joined)
    nodes = []
    for qp in (plain, joined):
        result = solve_globally(qp, node_limit=np.inf)
        assert result.status is ComplementarityStatus.OPTIMAL
        assert result.value == pytest.approx(expected, abs=1e-5)
        nodes.append(result.nodes)
    assert nodes[1] < nodes[0]


def test_a_lower_cost_with_x_leaves_the_problem_as_it_is():
    x, y = cp.Variable(name="toll", nonneg=True), cp.Variable(2, name="flow", nonneg=True)
    lower = bm.Lower(cp.Minimize((1 + x) * y[0] + 4 * y[1]), [cp.sum(y) == 1], variables=[y])
    plain, joined = pieces_of(bm.BilevelProblem(cp.Minimize(x + y[0]), [x <= 10], lower))
    assert joined is plain
