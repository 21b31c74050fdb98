"""The second solver of smooth programs: where cones stall, and against SciPy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

import blomodel as bm
from blomodel.compiler.blocks import Block
from blomodel.programs.lagrangian import Lagrangian
from blomodel.programs.sequential import SequentialQuadratics

FREE = np.array([4.0, 6.0, 2.0, 5.0, 3.0])
SLOPE, ROOM = 0.15 * FREE, np.array([40.0, 40.0, 60.0, 40.0, 40.0])
BALANCE = np.array([[1.0, 1, 0, 0, 0], [-1, 0, 1, 1, 0], [0, -1, -1, 0, 1]])


def network(demand: float) -> tuple[bm.BilevelProblem, cp.Variable]:
    """Traffic on five links in natural units: fifth powers of flows of a hundred and more."""
    room, flow = cp.Variable(5, name="room"), cp.Variable(5, name="flow", nonneg=True)
    crowd = cp.multiply(cp.power(flow, 5), cp.power(ROOM + room, -4))
    g = FREE @ flow + cp.sum(cp.multiply(SLOPE / 5, crowd))
    rows = [BALANCE @ flow == np.array([demand, 0, 0])]
    lower = bm.Lower(cp.Minimize(g), rows, variables=[flow])
    f = FREE @ flow + cp.sum(cp.multiply(SLOPE, crowd)) + 3 * cp.sum_squares(room)
    return bm.BilevelProblem(cp.Minimize(f), [room >= 0, room <= 25], lower), flow


@pytest.mark.parametrize("demand", [1.0, 100.0, 1000.0])
def test_flows_in_any_unit(demand: float) -> None:
    problem, _ = network(demand)
    x = np.full(5, 10.0)
    answer = problem.plain_model.lower_program.solve(x, np.zeros(0), warm=False)
    room = ROOM + x
    unit = demand**5 / room**4  # SciPy needs flows of order one
    by_hand = minimize(
        lambda v: (FREE @ v * demand + (SLOPE / 5 * unit) @ v**5) / demand,
        np.full(5, 0.5),
        jac=lambda v: (FREE * demand + SLOPE * unit * v**4) / demand,
        constraints=LinearConstraint(BALANCE, [1, 0, 0], [1, 0, 0]),
        bounds=[(0, None)] * 5,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert answer.status.has_point
    assert answer.value == pytest.approx(by_hand.fun * demand, rel=1e-8)
    if demand > 1:  # a few cars see no crowd, so that all ways are alike
        assert answer.y == pytest.approx(demand * by_hand.x, rel=1e-4, abs=1e-4 * demand)


def test_the_certificate_has_a_second_solver_too() -> None:
    problem, flow = network(100.0)
    x = np.full(5, 5.0)
    answer = problem.plain_model.lower_program.solve(x, np.zeros(0))
    certificate = bm.certify(problem, x, answer.y)
    assert certificate.accepted and certificate.lower_gap <= 1e-9
    moved = bm.certify(problem, x, answer.y + 0.5 * np.array([1.0, -1, 1, 0, 0]))
    assert not moved.accepted


def test_rows_and_domains_are_kept() -> None:
    y = cp.Variable(3, name="y")
    blocks = (Block("x", ()), Block("y", (y,)), Block("p", ()))
    g = -cp.sum(cp.log(y)) + cp.sum_squares(y) * 50
    rows = [cp.sum(y) <= 1, y >= 0, y[0] - y[1] == 0.1]
    lagrangian = Lagrangian([g], rows, blocks)
    assert SequentialQuadratics.takes(lagrangian)
    none = np.zeros(0)
    solved = SequentialQuadratics(lagrangian).solve(none, none, np.ones(1), np.zeros(3), 1e-9)
    assert solved is not None
    problem = cp.Problem(cp.Minimize(g), rows)
    problem.solve(solver=cp.CLARABEL)
    assert solved[0] == pytest.approx(y.value, abs=1e-6)
    assert solved[1][-1] == pytest.approx(float(rows[2].dual_value), rel=1e-4)
