"""Counting who answered and who was in trouble."""

from __future__ import annotations

import pytest

from blomodel.basics.troubles import (
    answers_and_troubles,
    count,
    count_trouble,
    counting,
    is_from_outside,
)
from blomodel.errors import ModelError, SolverError


def test_answers_and_troubles_are_told_apart():
    counts: dict[str, int] = {}
    count("osqp")  # nobody counts
    with counting(counts):
        count("osqp")
        count("osqp")
        count_trouble("osqp")
        count_trouble("scip")
    assert answers_and_troubles(counts) == ({"osqp": 2}, {"osqp": 1, "scip": 1})


@pytest.mark.parametrize(
    ("error", "is_outside"),
    [
        (KeyboardInterrupt(), True),
        (MemoryError(), True),
        (ModelError("the user's"), True),
        (SolverError("the solver's"), False),
        (ValueError("anything"), False),
    ],
)
def test_whose_fault_an_exception_is(error, is_outside):
    assert is_from_outside(error) is is_outside
