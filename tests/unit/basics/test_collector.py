"""Python's collector rests while modules are imported, and is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from blomodel.basics.collector import resting_collector


def test_nothing_is_collected_inside_and_it_goes_on_afterwards() -> None:
    rounds: list[str] = []
    gc.callbacks.append(lambda phase, info: rounds.append(phase))
    try:
        with resting_collector():
            rounds.clear()
            kept = [[k] for k in range(10 * gc.get_threshold()[0])]
            assert not rounds
        kept += [[k] for k in range(10 * gc.get_threshold()[0])]
        assert rounds
    finally:
        gc.callbacks.pop()


def test_a_collector_that_the_user_has_stopped_stays_so() -> None:
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError), resting_collector():
            raise ZeroDivisionError
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(ZeroDivisionError), resting_collector():
        raise ZeroDivisionError
    assert gc.isenabled()
