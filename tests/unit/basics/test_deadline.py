"""Deadlines: moments that are passed along."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

from blomodel.basics.deadline import NEVER, Deadline


def test_never_is_never_over():
    assert Deadline.after(None) is NEVER
    assert NEVER.is_never and not NEVER.is_over
    assert NEVER.remaining == np.inf and NEVER.keeping(5.0).is_never


def test_a_moment_passes():
    soon = Deadline.after(0.02)
    assert not soon.is_over and 0 < soon.remaining <= 0.02
    time.sleep(0.03)
    assert soon.is_over and soon.remaining < 0


def test_the_earlier_of_two():
    far, near = Deadline.after(100.0), Deadline.after(1.0)
    assert far.earlier(10.0).remaining == pytest.approx(10.0, abs=0.1)
    assert near.earlier(10.0) == near
    assert NEVER.earlier(np.inf).is_never
    assert far.keeping(40.0).remaining == pytest.approx(60.0, abs=0.1)


def test_it_is_a_value():
    near = Deadline.after(1.0)
    assert pickle.loads(pickle.dumps(near)) == near
    with pytest.raises(AttributeError):
        near.at = 0.0
