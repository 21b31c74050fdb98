"""Ranges that span orders of magnitude are spread over them too."""

import numpy as np
import pytest

from blomodel.methods.run.scales import find_scales
from blomodel.methods.run.starts import spread


def scale_of(low, high, center=0.0):
    return find_scales((np.array([low]), np.array([high])), np.array([center]))[0]


@pytest.mark.parametrize(("low", "high"), [(0.5, 1000.0), (0.0, 1000.0), (-1000.0, -0.5), (-50.0, 2e5)])
def test_every_decade_gets_its_share(low, high):
    points = scale_of(low, high).by_magnitude(np.linspace(0, 1, 60))
    assert points[0] == pytest.approx(low, abs=1e-9)
    assert points[-1] == pytest.approx(high, rel=1e-9)
    assert (np.diff(points) >= 0).all()
    sizes = np.abs(points)
    assert np.count_nonzero((sizes >= 1) & (sizes <= 10)) >= 5
    assert np.count_nonzero((sizes >= 10) & (sizes <= 100)) >= 5


def test_a_short_range_is_spread_evenly():
    share = np.linspace(0, 1, 9)
    assert scale_of(-3.0, 3.0).by_magnitude(share) == pytest.approx(-3 + 6 * share)
    assert scale_of(2.0, 5.0).by_magnitude(share) == pytest.approx(2 + 3 * share)


def test_an_open_side_grows_outward_from_the_center():
    scale = scale_of(-np.inf, np.inf, 4.0)
    points = scale.by_magnitude(np.linspace(0, 1, 41))
    assert np.abs(points - 4.0).min() < 1e-9
    assert np.count_nonzero(np.abs(points - 4.0) < 20) >= 10
    assert points[0] < -1000 < 1000 < points[-1]
    assert scale_of(3.0, np.inf).by_magnitude(np.array([0.0]))[0] == 3.0


def test_shares_and_points_belong_together():
    scale = scale_of(0.5, 1000.0)
    shares = scale.share_of(np.array([0.5, 3.0, 1000.0]))
    assert shares[0] == pytest.approx(0.0)
    assert 0.05 < shares[1] < 0.5
    assert shares[2] == pytest.approx(1.0)
    assert scale.step_at(3.0, 0.1) < scale.step_at(900.0, 0.1) <= 0.1 * 999.5


def test_starts_reach_small_sizes():
    points = np.array(spread((np.array([0.5]), np.array([1000.0])), np.array([500.0]), 10, seed=0))
    assert np.count_nonzero(points < 50) >= 2
    assert np.count_nonzero(points > 200) >= 2
