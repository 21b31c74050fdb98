"""Ctrl-C at some moments of some solves; ``python tests/reliability`` presses it 200 times."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import interrupted_models
import interrupts


@pytest.mark.parametrize("name", ["quadratic tree", "alt-pbgd", "independent"])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_nothing_is_lost(name, share):
    make, arguments = interrupted_models.CASES[name]
    problem = make()
    value = problem.solve(**arguments)
    delay = share * problem.solution.total_time
    outcome = interrupts._interrupt(make(), arguments, value, delay) or []
    assert not set(outcome) & set(interrupts.FAULTS), outcome
