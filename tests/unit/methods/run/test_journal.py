"""What loops remember is found in their closures, copied, and put back."""

import functools

import numpy as np
import pytest

from blomodel.errors import FileFormatError
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.run.journal import Memory


def made():
    point, numbers, tape = np.zeros(2), [1.0, 2.0], (np.zeros(3, dtype=np.int64), np.zeros(4))
    random = np.random.default_rng(0)
    counter = np.zeros(1)

    def inner(n):
        point[:] += random.standard_normal(2)
        tape[1][:] += n
        return float(n)

    def report():
        numbers.append(point[0])
        return {}

    def count(by):
        counter[0] += by

    return Scheduled(inner, np.zeros(1), {}), report, functools.partial(count, 1), point, tape


def test_what_is_put_back_gives_the_same_steps():
    loop, report, count, point, tape = made()
    memory = Memory(loop, report, count)
    loop(3)
    report()
    kept = memory.copy()
    loop(1)
    count()
    first, done = point.copy(), loop.done
    memory.put_back(kept)
    assert loop.done == done - 1
    loop(1)
    assert np.array_equal(point, first)
    assert loop.done == done
    # Workspaces of tapes are written anew by whoever runs them.
    assert all(part is not tape[1] for part in memory._items)


def test_a_state_of_something_else_is_refused():
    loop, report, count, *_ = made()
    memory = Memory(loop, report, count)
    kept = memory.copy()
    for wrong in (kept[1:], [*kept, 1.0], ["word", *kept[1:]], [None] * len(kept)):
        with pytest.raises(FileFormatError):
            memory.put_back(wrong)
