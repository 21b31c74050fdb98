"""Cutting the largest flow, where x stands in the lower constraints: against all whole edges."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import blomodel as bm

EDGES = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (2, 5), (3, 5), (1, 5), (4, 6), (5, 6), (3, 6)]
ROOM = np.array([7, 9, 4, 6, 5, 3, 6, 2, 9, 8, 5])


def cutting(budget: float) -> bm.BilevelProblem:
    """Edges are weakened within a budget; as much as possible flows from the first node to the last."""
    incidence = np.zeros((7, len(EDGES)))
    for k, (start, end) in enumerate(EDGES):
        incidence[start, k], incidence[end, k] = 1, -1
    ends = np.array([1.0, 0, 0, 0, 0, 0])
    x, flow = cp.Variable(len(EDGES), name="x"), cp.Variable(len(EDGES), name="flow", nonneg=True)
    v = cp.Variable(name="v")
    rows = [incidence[:-1] @ flow == ends * v, flow <= cp.multiply(ROOM, 1 - x)]
    lower = bm.Lower(cp.Maximize(v), rows, variables=[flow, v])
    return bm.BilevelProblem(cp.Minimize(v), [0 <= x, x <= 1, cp.sum(x) <= budget], lower)


def least_flow(n_cut: int) -> float:
    """By trying all edges; with a whole budget some whole edges are best, since the value is concave."""
    flows = []
    for cut in itertools.combinations(range(len(EDGES)), n_cut):
        room = ROOM.copy()
        room[list(cut)] = 0
        start, end = zip(*EDGES, strict=True)
        flows.append(maximum_flow(csr_array((room, (start, end)), shape=(7, 7)), 0, 6).flow_value)
    return float(min(flows))


@pytest.mark.parametrize("budget", [1, 2])
def test_turns_find_the_best_cut(budget: int) -> None:
    problem = cutting(float(budget))
    assert "x and multipliers in turn" in [step.name for step in problem.plan().steps]
    problem.solve(time_limit=20)
    assert problem.value == pytest.approx(least_flow(budget), abs=1e-5)
    assert problem.certificate.accepted
