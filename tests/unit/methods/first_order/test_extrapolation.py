"""Limits at step 0, against the functions that the points were taken from."""

import numpy as np
import pytest

from blomodel.methods.first_order.barrier import extrapolate

STEPS = [0.4, 0.2, 0.1, 0.05]


def test_polynomials_of_low_degree_are_met_exactly():
    points = [np.array([1 + 3 * s, 2 - s + 4 * s**2]) for s in STEPS]
    line, parabola, _ = extrapolate(STEPS, points)
    assert line[0] == pytest.approx(1.0, abs=1e-12)
    assert parabola[1] == pytest.approx(2.0, abs=1e-12)


def test_minimisers_of_a_penalty_are_rational_in_the_step():
    """With s of 0.5 to 4 times the scale on which the curve bends."""
    points = [np.array([2 + (s / 0.1) / (s / 0.1 + 1)]) for s in STEPS]
    polynomial = extrapolate(STEPS, points)[-1]
    rational = extrapolate(STEPS, points, rational=True)[-1]
    assert abs(polynomial[0] - 2) > 1e-2
    assert rational[0] == pytest.approx(2.0, abs=1e-9)


def test_equal_points_stay():
    points = [np.ones(2)] * 4
    for rational in (False, True):
        for limit in extrapolate(STEPS, points, rational=rational):
            np.testing.assert_array_equal(limit, 1.0)


def test_one_point_has_no_limit():
    assert extrapolate(STEPS[:1], [np.ones(2)]) == []
