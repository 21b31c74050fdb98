"""Looks at phi: all of the range, the upper level's choice among lower answers, its rows."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.run.run import Run
from blomodel.methods.search.phi_sample import PhiSample


def sample_of(problem):
    return PhiSample(Run(problem.model, np.empty(0), None, 1e-6, 0))


def test_points_fill_the_range_in_every_number_of_variables():
    for n in (1, 2, 3):
        x, y = cp.Variable(n), cp.Variable()
        lower = bm.Lower(cp.Minimize((y - cp.sum(x)) ** 2), [], variables=[y])
        sample = sample_of(bm.BilevelProblem(cp.Minimize(y), [x >= 0.5, x <= 1000], lower))
        first, second = sample.spread(60), sample.spread(60)
        points = np.vstack([first, second])
        assert len(np.unique(points, axis=0)) == 120
        assert ((points >= 0.5) & (points <= 1000)).all()
        assert (np.count_nonzero(points < 10, axis=0) >= 8).all()
        assert (np.count_nonzero(points > 500, axis=0) >= 8).all()


def test_the_upper_level_chooses_where_the_lower_one_does_not_care():
    x, y = cp.Variable(), cp.Variable(2)
    lower = bm.Lower(cp.Minimize((y[0] - x) ** 2), [y >= 0, y <= 3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x - 2 * y[1]), [x >= 0, x <= 2], lower)
    sample = sample_of(problem)
    for at in (0.0, 0.7, 1.3, 2.0, 1.9, 0.2):
        assert sample.look(np.array([at])).value == pytest.approx(at - 6, abs=1e-5)


def test_rows_that_hold_y_are_measured_and_rows_without_are_kept():
    x, y = cp.Variable(2), cp.Variable()
    lower = bm.Lower(cp.Minimize((y - x[0]) ** 2), [], variables=[y])
    rows = [x >= 0, x <= 4, cp.sum(x) <= 3, y >= 1]
    sample = sample_of(bm.BilevelProblem(cp.Minimize(x[1] + y), rows, lower))
    looks = sample.look_at(np.array([[0.5, 0.5], [2.0, 0.5], [4.0, 4.0]]))
    assert all(look.x.sum() <= 3 + 1e-6 for look in looks)
    assert all(look.is_allowed == (look.x[0] >= 1 - 1e-6) for look in looks)
    assert sample.run.best().value == pytest.approx(min(look.merit for look in looks), abs=1e-6)
