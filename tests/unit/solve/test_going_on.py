"""auto goes on where its certificate sees f fall."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.basics.deadline import NEVER
from blomodel.declare.point import Point
from blomodel.methods.run.run import Run
from blomodel.solve.going_on import descend, upper_direction


def test_a_move_of_the_certificate_leads_to_a_better_point() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = cp.sum(cp.logistic(2 * y)) - x[0] * y[0] + 0.2 * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(g), [-2 * y[0] + 2 * y[1] <= 1.22], variables=[y])
    upper = cp.Minimize(0.67 * x[0] - 0.77 * x[1] - 0.58 * y[0] + 0.78 * y[1] + 2)
    problem = bm.BilevelProblem(upper, [x >= [-2.3, -2], x <= [2.9, 0]], lower)
    model, p = problem.model, np.zeros(0)
    at = np.array([0.0, -1.0])
    point = Point(problem.chain.end.levels, at, model.lower_program.solve(at, p).y)
    certificate = bm.certify(problem, point.x, point.y)
    assert certificate.descent is not None
    run = Run(model=model, p=p, start=None, tolerance=1e-6, seed=0)
    move = upper_direction(problem, point, certificate.descent)
    found = descend(run, point, move, NEVER)
    assert found is not None and found.value < certificate.objective - 0.1
    assert descend(run, point, np.zeros(2), NEVER) is None


def test_auto_does_not_end_where_f_falls() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = cp.square(y[0] + 3 * x - 2.24) + cp.square(y[1] + 1.86 * x)
    rows = [0.5 * y[0] - 0.5 * y[1] - 0.63 * x == -0.718113265886912, y[1] - 1.14 * x <= -0.88]
    upper = cp.Minimize(-x * y[0] + x - 1.5 * y[0] + 1.5 * y[1] - 1.67)
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    problem = bm.BilevelProblem(upper, [x >= 0, x <= 3.3], lower)
    assert problem.solve() < 0.4022
    assert problem.status in ("locally_optimal", "optimal")
