"""A hundred random problems of all classes against brute force; ``python tests/fuzz`` runs 5,000."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from fuzz_verdicts import verdict

pytest.importorskip("pyscipopt")

SEEDS = [*range(80), *range(10_000, 10_100, 5)]  # every class in its share, twice and more


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_false_is_said(seed):
    record = verdict(seed, effort="quick", time_limit=60)
    assert not record["faults"]
    assert record["status"] not in ("failed", "exception")
