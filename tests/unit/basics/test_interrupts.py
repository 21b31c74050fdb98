"""The first Ctrl-C waits for a good moment, the second one does not."""

import os
import signal
import threading
import time

import pytest

from blomodel.basics.alarm import enter_shelter, leave_shelter
from blomodel.basics.interrupts import CutShort, Interrupts


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)


def test_the_first_is_kept_where_nothing_may_be_left_half_done():
    told = []
    with Interrupts() as interrupts:
        interrupts.told = lambda: told.append(1)
        press()
        assert interrupts.has_come
    assert told == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_is_raised_where_the_work_may_end():
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.open():
            press()
        assert interrupts.has_come


def test_one_that_was_kept_comes_at_the_next_open_part():
    with Interrupts() as interrupts:
        press()
        with pytest.raises(KeyboardInterrupt), interrupts.open():
            raise AssertionError("not reached")


def test_the_second_is_raised_anywhere():
    with Interrupts():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


@pytest.mark.parametrize("is_early", [True, False])
def test_patience_ends(is_early):
    with Interrupts() as interrupts:
        if is_early:
            press()
        began = time.monotonic()
        with pytest.raises(CutShort), interrupts.patience(0.05):
            if not is_early:
                press()
            busy(20)
        assert time.monotonic() - began < 10
        with interrupts.patience(0.05):
            pass


def test_work_that_ends_in_time_is_not_disturbed():
    with Interrupts() as interrupts:
        with interrupts.patience(0.2):
            press()
            busy(0.01)
        busy(0.3)


def test_one_that_a_shelter_held_back_counts_once():
    with Interrupts() as interrupts:
        enter_shelter()
        press()
        assert not interrupts.has_come
        leave_shelter()
        assert interrupts.has_come
        busy(0.1)  # it is passed on, and is no second press
    busy(0.05)


def test_nothing_comes_after_the_end():
    with Interrupts():
        enter_shelter()
        press()
        leave_shelter()
    busy(0.1)


def test_a_handler_of_the_users_own_stays():
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(1))
    try:
        with Interrupts() as interrupts:
            press()
            assert came == [1]
            assert not interrupts.has_come
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_not_concerned():
    def work() -> None:
        with Interrupts() as interrupts, interrupts.open(), interrupts.patience(1.0):
            done.append(interrupts.has_come)

    done: list[bool] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [False]
