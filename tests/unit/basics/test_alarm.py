"""Work that does not look at the clock ends all the same, and work that does is left alone."""

import cProfile
import time

import pytest

from blomodel.basics.alarm import alarm, enter_shelter, leave_shelter
from blomodel.basics.deadline import NEVER, Deadline


class Over(Exception):
    pass


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def test_endless_work_ends():
    began = time.perf_counter()
    with pytest.raises(Over), alarm(Deadline.after(0.1), Over):
        busy(20)
    assert time.perf_counter() - began < 2


def test_work_that_ends_in_time_goes_on_undisturbed():
    with alarm(Deadline.after(0.1), Over):
        busy(0.01)
    busy(0.2)  # nothing comes later


def test_a_grace_is_given():
    with alarm(Deadline.after(0.01), Over, grace=5.0):
        busy(0.1)


def test_there_need_not_be_a_limit():
    with alarm(NEVER, Over):
        busy(0.01)


def test_a_profiler_does_not_mind():
    profile = cProfile.Profile()
    profile.enable()
    with alarm(Deadline.after(5), Over):
        busy(0.01)
    busy(0.01)
    profile.disable()


def test_an_error_of_the_work_is_passed_on():
    with pytest.raises(KeyError), alarm(Deadline.after(5), Over):
        raise KeyError


def test_work_in_a_shelter_is_finished_first():
    reached = []
    with pytest.raises(Over), alarm(Deadline.after(0.05), Over):
        enter_shelter()
        busy(0.3)
        reached.append("end of the shelter")
        leave_shelter()
        busy(20)
    assert reached


def test_numba_is_not_stopped_half_way():
    import numba

    import blomodel.model.model  # where the shelter is set up

    assert blomodel.model.model

    @numba.njit
    def work(x):
        return x + 1

    with pytest.raises(Over), alarm(Deadline.after(0.02), Over):
        work(1)
        assert work.signatures  # the alarm has waited
        busy(20)
