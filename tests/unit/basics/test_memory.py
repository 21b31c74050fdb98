"""What is found out about an object is found out once, refusals included."""

import contextlib
import gc
import weakref

import numpy as np
import pytest

from blomodel.basics.memory import bare_copy, remembered
from blomodel.errors import DataError, LowerLevelError, NonconvexLowerError


class Model:
    def __init__(self, is_convex):
        self.is_convex, self.builds = is_convex, 0

    @property
    @remembered
    def program(self) -> str:
        """A program."""
        self.builds += 1
        if not self.is_convex:
            raise NonconvexLowerError("'y1 * y2' is not convex")
        return "program"


def test_built_once():
    model = Model(True)
    assert [model.program, model.program] == ["program", "program"]
    assert model.builds == 1
    assert Model.program.__doc__ == "A program."


def test_refused_once_with_the_same_message():
    model, other = Model(False), Model(True)
    for _ in range(3):
        with pytest.raises(NonconvexLowerError, match=r"'y1 \* y2' is not convex"):
            _ = model.program
    assert model.builds == 1
    assert other.program == "program"


class Thing:
    """Something that functions find out about."""


CALLS = []


@remembered
def doubled(thing, values, power=1):
    CALLS.append(1)
    return 2 * values**power


def test_the_last_question_is_remembered_for_each_object():
    CALLS.clear()
    one, other = Thing(), Thing()
    for thing in (one, one, other, one):
        np.testing.assert_array_equal(doubled(thing, np.array([1.0, 2.0])), [2.0, 4.0])
    assert len(CALLS) == 2
    assert doubled(one, np.array([3.0]))[0] == 6.0 and doubled(one, np.array([3.0]), 2)[0] == 18.0
    assert len(CALLS) == 4


@remembered
def judged(thing, error):
    CALLS.append(1)
    raise error


def test_refusals_are_remembered_but_missing_data_are_not():
    CALLS.clear()
    thing, refusal = Thing(), LowerLevelError("no answer", x=3)
    for _ in range(3):
        with pytest.raises(LowerLevelError, match="no answer") as caught:
            judged(thing, refusal)
        assert caught.value.x == 3
    assert len(CALLS) == 1
    missing = DataError("no value yet")
    for _ in range(3):
        with pytest.raises(DataError):
            judged(thing, missing)
    assert len(CALLS) == 4


def test_what_is_remembered_goes_with_the_object():
    thing = Thing()
    doubled(thing, np.array([1.0]))
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_a_bare_copy_keeps_refusals_and_nothing_else_that_was_computed():
    model, refused = Model(True), Model(False)
    _ = model.program
    with pytest.raises(NonconvexLowerError):
        _ = refused.program
    for original in (model, refused):
        bare = bare_copy(original)
        assert bare.is_convex is original.is_convex
        with contextlib.suppress(NonconvexLowerError):
            _ = bare.program
        assert bare.builds == (1 if original is refused else 2)
