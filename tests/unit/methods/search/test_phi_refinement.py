"""Ties and boundaries are found to the last digits, and valleys apart from each other."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio.sampled import SampleOfPhi
from blomodel.methods.run.run import Run
from blomodel.methods.search.phi_refinement import (
    Segment,
    find_ties,
    refine_brackets,
    refine_patterns,
    scan_axes,
    valleys,
    valleys_along_axes,
)
from blomodel.methods.search.phi_sample import PhiSample


def sample_of(problem):
    return PhiSample(Run(problem.model, np.empty(0), None, 1e-6, 0))


def double_well(slope):
    x, y = cp.Variable(), cp.Variable()
    lower = bm.Lower(
        cp.Minimize(y**4 / 4 - y**2 / 2 + slope * (x - 0.3) * y), [y >= -3, y <= 3], variables=[y]
    )
    return bm.BilevelProblem(cp.Minimize((x - 0.5) ** 2 + (y - 2) ** 2), [x >= -2, x <= 2], lower)


@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_a_follower_between_two_wells_is_indifferent_at_one_x(slope):
    sample = sample_of(double_well(slope))
    sample.look_at(np.linspace(-2, 2, 12)[:, None])
    ties = find_ties(sample, sample.looks)
    assert sorted(round(float(tie.y[0]), 6) for tie in ties) == [-1.0, 1.0]
    assert [float(tie.x[0]) for tie in ties] == pytest.approx([0.3, 0.3], abs=1e-12)


def test_a_linear_follower_that_jumps_between_vertices():
    x, y = cp.Variable(), cp.Variable(2)
    rows = [y >= 0, cp.sum(y) <= 1 + x]
    lower = bm.Lower(cp.Minimize(-y[0] - (0.4 + x**3) * y[1]), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x - y[1]), [x >= 0, x <= 2], lower)
    sample = sample_of(problem)
    sample.look_at(np.linspace(0, 2, 9)[:, None])
    ties = find_ties(sample, sample.looks)
    assert float(ties[0].x[0]) == pytest.approx(0.6 ** (1 / 3), abs=1e-9)
    assert min(tie.value for tie in ties) == pytest.approx(-1.0, abs=1e-6)


def test_steep_but_continuous_answers_are_no_tie():
    x, y = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Minimize((y - 40 * x) ** 2), [y >= -1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y**2), [x >= -2, x <= 2], lower)
    sample = sample_of(problem)
    sample.look_at(np.linspace(-2, 2, 8)[:, None])
    assert find_ties(sample, sample.looks) == []


def test_the_boundary_of_a_row_that_holds_y():
    x, y = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Minimize(cp.exp(y) - x * y), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-x), [x >= 1, x <= 50, y + x <= 6], lower)  # y = log(x)
    sample = sample_of(problem)
    sample.look_at(np.array([[1.0], [2.0], [20.0], [50.0]]))
    end = Segment(sample, sample.looks[1], sample.looks[2]).last_allowed()
    assert float(end.x[0] + np.log(end.x[0])) == pytest.approx(6.0, abs=1e-7)
    assert end.is_allowed


def test_brackets_find_each_valley_of_a_flat_and_wavy_phi():
    x, y = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 6], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.nlp.sin(2 * y) + 0.1 * y), [x >= 0, x <= 500], lower)
    sample = sample_of(problem)
    sample.look_at(sample.corners())
    sample.look_at(sample.spread(40))
    ends = refine_brackets(sample, 3)
    grid = np.linspace(0, 6, 100001)
    assert min(end.value for end in ends) == pytest.approx(
        (np.sin(2 * grid) + 0.1 * grid).min(), abs=1e-7
    )


def test_valleys_are_apart():
    x, y = cp.Variable(2), cp.Variable()
    lower = bm.Lower(cp.Minimize((y - x[0]) ** 2), [], variables=[y])
    f = cp.square(cp.square(y) - 1) + cp.square(x[1])
    sample = sample_of(bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower))
    sample.look_at(sample.spread(100))
    found = valleys(sample, 2)
    assert sorted(np.sign(look.x[0]) for look in found) == [-1.0, 1.0]


def narrow_valley():
    """phi = |x1| + x2 but for a valley of width 0.025 around x1 = 0.86, which few looks meet."""
    x, y = cp.Variable(2), cp.Variable()
    lower = bm.Lower(cp.Minimize(cp.square(y - 80 * (x[0] - 0.86))), [y >= -1, y <= 1], variables=[y])
    f = cp.abs(x[0]) - 2 * (1 - cp.square(y)) + x[1]
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= [1, 1]], lower)


def test_fine_lines_along_the_variables_meet_narrow_valleys():
    sample = sample_of(narrow_valley())
    start = sample.look(np.array([0.0, 0.0]))
    assert scan_axes(sample, start).x == pytest.approx([0.0, 0.0])
    best, *_ = valleys_along_axes(sample, start, 4)
    assert best.x == pytest.approx([0.86, 0.0], abs=0.02)
    assert best.merit < start.merit
    end, *_ = refine_patterns(sample, [best], 0.01, 25)
    assert end.merit < -1.13


def test_a_limit_is_used_to_look_along_fine_lines():
    problem = narrow_valley()
    run = Run(problem.model, np.empty(0), None, 1e-6, 0)
    step = SampleOfPhi(4)
    sample = run.once(PhiSample, lambda: PhiSample(run))
    sample.look(np.array([0.0, 0.0]))
    before = run.best().value
    step.look_again(run)
    assert before == pytest.approx(0.0, abs=1e-9)
    assert run.best().value < -1.13
