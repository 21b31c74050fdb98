"""Cuts at several lower points: rows and slopes against the formula and central differences."""

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.reformulations.forms.value_cuts import FADE, ValueCutRelaxation


def relaxation(has_kkt):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    rows = [y[0] + y[1] <= 1 + x[0], y[0] * y[1] >= -2, y[0] - y[1] == 0.1 * x[1]]
    g = cp.nlp.sin(y[0] * x[1]) + y[1] ** 3 - x[0] * y[1]
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum_squares(x) + y[0]), [x >= -2, x <= 2], bm.Lower(cp.Minimize(g), rows, [y])
    )
    return ValueCutRelaxation(problem.model, np.zeros(0), has_kkt=has_kkt), problem.model


def test_cuts_say_what_the_formula_says_and_their_slopes_fit():
    cuts = [np.array([0.4, 0.3]), np.array([2.0, 1.0]), np.array([-0.2, 0.9])]
    for has_kkt in (True, False):
        form, model = relaxation(has_kkt)
        program = form.program(cuts, 1e-3)
        z = np.random.default_rng(1).normal(size=4 + form.n_multipliers)
        x, y = z[:2], z[2:4]
        found = program.inequalities(z)[-3:]
        here = np.sin(y[0] * x[1]) + y[1] ** 3 - x[0] * y[1]
        for cut, value in zip(cuts, found, strict=True):
            there = np.sin(cut[0] * x[1]) + cut[1] ** 3 - x[0] * cut[1]
            over = max(cut.sum() - 1 - x[0], 0) + max(-2 - cut[0] * cut[1], 0)
            off = abs(cut[0] - cut[1] - 0.1 * x[1])
            assert abs(value - (here - there - FADE * (over + off))) < 1e-6
        step = 1e-6
        slopes = [
            (program.inequalities(z + step * e) - program.inequalities(z - step * e)) / (2 * step)
            for e in np.eye(z.size)
        ]
        assert np.allclose(program.inequalities_jacobian(z), np.transpose(slopes), atol=1e-3)


def test_without_cuts_there_are_the_rows_alone():
    form, model = relaxation(has_kkt=False)
    program = form.program([], 1e-3)
    n_rows = len(model.upper_in) + len(model.lower_in)
    assert program.inequalities(np.zeros(4)).shape == (n_rows,)
    assert program.inequalities_jacobian(np.zeros(4)).shape == (n_rows, 4)
