"""Settings that change with the iterations."""

from __future__ import annotations

import math

import pytest

import blomodel as bm
from blomodel.errors import UnknownSettingError
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.schedules import changes, value_at


def test_the_values_are_those_of_the_formulas():
    s = bm.schedules
    assert [s.constant(2.0)(k) for k in (0, 9)] == [2.0, 2.0]
    assert s.power(3.0, 0.49)(7) == pytest.approx(3 * 8**0.49)
    assert s.annealing(0.1, 0.5, 2.0)(4) == pytest.approx(0.1 / 9)
    assert [round(s.cosine(1.0, 0.2, 10)(k), 12) for k in (0, 5, 10, 99)] == [1.0, 0.6, 0.2, 0.2]
    assert [s.geometric(1.0, 2.0, every=3, last=5.0)(k) for k in (0, 2, 3, 6, 9)] == [1, 1, 2, 4, 5]
    assert s.geometric(1.0, 2.0)(10_000) == math.inf


def test_numbers_and_functions_are_asked_alike():
    assert value_at(0.5, 7) == 0.5
    assert value_at(None, 7) is None
    assert value_at(lambda k: k + 1, 7) == 8
    assert changes(bm.schedules.constant(1.0))
    assert not changes(1.0)


def test_a_schedule_is_shown_as_it_was_made():
    assert repr(bm.schedules.power(1.0, 0.5)) == "power(1.0, 0.5)"


def test_what_gives_no_step_is_refused():
    for wrong, text in (
        (lambda k: 1.0 - k, "gives 0 at iteration 1; it must be larger than 0"),
        (lambda k: "long", "gives no number at iteration 0"),
        (lambda: 1.0, "gives no number at iteration 0"),
    ):
        with pytest.raises(UnknownSettingError, match=text):
            create_method("alt-pbgd", {"step_x": wrong})
    with pytest.raises(UnknownSettingError, match="every = 0"):
        bm.schedules.geometric(1.0, 2.0, every=0)
    with pytest.raises(UnknownSettingError, match="steps = 0"):
        bm.schedules.cosine(1.0, 0.0, 0)
