"""Families of cases: some in every run of the tests, the others among the slow ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_few(cases: Iterable[Any], count: int) -> list[Any]:
    """The first so many cases in every run, the others in ``pytest -m slow``."""
    return [
        case if place < count else pytest.param(case, marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]
