"""Start points spread over the range of x."""

from __future__ import annotations

import time

import numpy as np
import pytest

from blomodel.methods.run.starts import spread_by_scale


@pytest.mark.parametrize("n", [3, 60_000])
def test_points_lie_in_the_box_and_do_not_take_long(n):
    low, high = np.zeros(n), np.full(n, 2.0)
    began = time.process_time()
    points = spread_by_scale((low, high), np.zeros(n), 4, seed=0)
    assert time.process_time() - began < 3.0  # a Halton sequence in 60,000 dimensions takes longer
    assert len(points) == 4 and all(np.all((low <= x) & (x <= high)) for x in points)
    assert np.abs(points[0] - points[2]).max() > 0.1
    again = spread_by_scale((low, high), np.zeros(n), 4, seed=0)
    np.testing.assert_array_equal(points, again)
