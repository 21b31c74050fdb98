"""The first random problems of every class against brute force; ``python tests/fuzz`` runs all 2,000."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from fuzz_models import ORDER
from fuzz_verdicts import verdict

pytest.importorskip("pyscipopt")

COUNT = 2 * len(ORDER)  # every class in its share, twice


@pytest.mark.parametrize("seed", range(COUNT))
def test_nothing_false_is_said(seed):
    record = verdict(seed, effort="quick", time_limit=60)
    assert not record["faults"]
    assert record["status"] not in ("failed", "exception")
