"""Random bilevel LPs and QPs: value, bound and time beside SCIP and Gurobi on the KKT conditions.

Both are given the same conditions with a set of type SOS1 for each pair. Gurobi is left out where it is
not installed, or where its licence is for smaller models.

Run alone:  pip install ".[test,bench]" && pytest -m benchmark -s tests/benchmarks -k scip
"""

import sys
import time
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

sys.path.append(str(Path(__file__).parent))
from bilevel_qp import BilevelQP

pytestmark = pytest.mark.benchmark
LIMIT = 60.0
NEAR = 1e-4  # relative, at which two values count as the same


def linear_data(n, seed):
    """min c'x + d'y over 0 <= x <= 2; below max q'y s.t. A y <= b + B x, 0 <= y <= 5."""
    draw = np.random.default_rng(seed)
    return {
        "A": draw.uniform(0, 1, (n, n)), "B": draw.uniform(0, 0.5, (n, n)), "b": draw.uniform(1, 2, n),
        "c": draw.uniform(0.5, 1.5, n), "d": draw.uniform(-1, 1, n), "q": draw.uniform(0.5, 1.5, n),
    }  # fmt: skip


def linear_problem(n, seed):
    data = linear_data(n, seed)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    rows = [data["A"] @ y <= data["b"] + data["B"] @ x, y >= 0, y <= 5]
    lower = bm.Lower(cp.Maximize(data["q"] @ y), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(data["c"] @ x + data["d"] @ y), [x >= 0, x <= 2], lower)


def scip(n, objective, stationarity, rows, bounds):
    """Value and bound of SCIP: rows r(x, y) >= 0 with multipliers, each pair a set of type SOS1."""
    model = pytest.importorskip("pyscipopt").Model()
    model.hideOutput()
    model.setParam("limits/time", LIMIT)
    x = [model.addVar(lb=bounds[0], ub=bounds[1]) for _ in range(n)]
    y = [model.addVar(lb=None) for _ in range(n)]
    slack, pressure = [], []
    for row in rows(x, y):
        slack.append(model.addVar(lb=0))
        pressure.append(model.addVar(lb=0))
        model.addCons(slack[-1] == row)
        model.addConsSOS1([slack[-1], pressure[-1]])
    for equation in stationarity(x, y, pressure):
        model.addCons(equation == 0)
    goal = model.addVar(lb=None)
    model.addCons(goal >= objective(x, y))
    model.setObjective(goal)
    began = time.perf_counter()
    model.optimize()
    value = model.getObjVal() if model.getNSols() else np.inf
    return value, model.getDualbound(), time.perf_counter() - began


def scip_on_linear(n, seed):
    from pyscipopt import quicksum as total

    D = linear_data(n, seed)
    return scip(
        n,
        lambda x, y: total(D["c"][j] * x[j] + D["d"][j] * y[j] for j in range(n)),
        lambda x, y, m: [
            -D["q"][j] + total(D["A"][i, j] * m[i] for i in range(n)) - m[n + j] + m[2 * n + j]
            for j in range(n)
        ],
        lambda x, y: [
            *(
                D["b"][i] + total(D["B"][i, j] * x[j] - D["A"][i, j] * y[j] for j in range(n))
                for i in range(n)
            ),
            *y,
            *(5 - each for each in y),
        ],
        (0, 2),
    )


def scip_on_quadratic(n, seed):
    from pyscipopt import quicksum as total

    Q = BilevelQP(n, seed=seed)
    return scip(
        n,
        lambda x, y: total(((x[j] - Q.a[j]) ** 2 + (y[j] - Q.b[j]) ** 2) / 2 for j in range(n)),
        lambda x, y, m: [
            Q.q[j] + total(Q.Q[j, k] * y[k] + Q.C[j, k] * x[k] + Q.A[k, j] * m[k] for k in range(n))
            for j in range(n)
        ],
        lambda x, y: [
            Q.r[i] + total(Q.B[i, j] * x[j] - Q.A[i, j] * y[j] for j in range(n)) for i in range(n)
        ],
        (-5, 5),
    )


def gurobi(kind, n, seed):
    """Value, bound and seconds of Gurobi on the same conditions; None where it cannot be asked."""
    try:
        import gurobipy as gp
    except ImportError:
        return None
    D, Q = linear_data(n, seed), BilevelQP(n, seed=seed)
    low, high = (0, 2) if kind == "LP" else (-5, 5)
    try:
        with gp.Env(params={"OutputFlag": 0, "Threads": 1, "TimeLimit": LIMIT}) as env:
            model = gp.Model(env=env)
            x = model.addMVar(n, lb=low, ub=high)
            y = model.addMVar(n, lb=-gp.GRB.INFINITY)
            if kind == "LP":
                rows = [D["b"] + D["B"] @ x - D["A"] @ y, 1.0 * y, 5 - 1.0 * y]
                m = model.addMVar(3 * n)
                model.addConstr(D["A"].T @ m[:n] - m[n : 2 * n] + m[2 * n :] == D["q"])
                model.setObjective(D["c"] @ x + D["d"] @ y)
            else:
                rows = [Q.r + Q.B @ x - Q.A @ y]
                m = model.addMVar(n)
                model.addConstr(Q.Q @ y + Q.C @ x + Q.q + Q.A.T @ m == 0)
                model.setObjective(((x - Q.a) @ (x - Q.a) + (y - Q.b) @ (y - Q.b)) / 2)
            slack = model.addMVar(m.shape[0])
            for k, part in enumerate(rows):
                model.addConstr(slack[k * n : (k + 1) * n] == part)
            for one, other in zip(slack.tolist(), m.tolist(), strict=True):
                model.addSOS(gp.GRB.SOS_TYPE1, [one, other])
            began = time.perf_counter()
            model.optimize()
            value = model.ObjVal if model.SolCount else np.inf
            return value, model.ObjBound, time.perf_counter() - began
    except gp.GurobiError:
        return None


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("kind", "n"), [("LP", 20), ("LP", 40), ("LP", 60), ("QP", 30), ("QP", 50), ("QP", 100)]
)
def test_never_worse_than_scip(kind, n, seed):
    pytest.importorskip("pyscipopt")
    linear_problem(4, 0).solve()  # loads what every first solve loads
    problem = linear_problem(n, seed) if kind == "LP" else BilevelQP(n, seed=seed).model()[0]
    began = time.perf_counter()
    value = problem.solve(time_limit=LIMIT)
    seconds = time.perf_counter() - began
    theirs, bound, scip_seconds = scip_on_linear(n, seed) if kind == "LP" else scip_on_quadratic(n, seed)
    own_bound = problem.certificate.bound
    print(
        f"\n{kind} n = {n}, seed {seed}: blomodel {value:.4f} [{own_bound}] {problem.status} "
        f"in {seconds:.1f} s; SCIP {theirs:.4f} [{bound:.4f}] in {scip_seconds:.1f} s"
    )
    gurobis = gurobi(kind, n, seed)
    if gurobis is not None:
        print("Gurobi {:.4f} [{:.4f}] in {:.1f} s".format(*gurobis))
        assert value <= gurobis[0] + NEAR * (1 + abs(value))
        assert value >= gurobis[1] - NEAR * (1 + abs(value))
    assert problem.certificate.accepted
    assert value <= theirs + NEAR * (1 + abs(value))
    assert value >= bound - NEAR * (1 + abs(value))  # neither of the two is wrong
    if (kind, n) == ("LP", 20):
        assert problem.status == "optimal"
    if (kind, n) in (("QP", 30), ("QP", 50)):
        assert problem.status == "optimal"
