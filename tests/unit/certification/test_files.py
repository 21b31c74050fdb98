"""Data in files are not handed to cvxpy's solvers, which would copy them."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.deadline import NEVER
from blomodel.certification import bounds
from blomodel.certification.below import lower_check
from tests.support.files import in_file

ROWS = 60_000


def _problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bm.BilevelProblem:
    """Ridge regression, both of whose objectives are sums over the rows of a file."""
    small = limits.Limit(1000, "numbers", "so that a small file is a large one")
    monkeypatch.setattr(limits, "WHOLE_FILE", small)
    stored = in_file(tmp_path / "rows.bin", np.random.default_rng(0).standard_normal((ROWS, 2)))
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    losses = cp.sum_squares(bm.data(stored) @ y - 1) / ROWS
    lower = bm.Lower(cp.Minimize(losses + cp.exp(x) * cp.sum_squares(y)), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(losses), [x >= -5, x <= 1], lower)


def test_the_lower_answer_is_checked_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(*_: object) -> None:
        raise AssertionError("cvxpy was asked")

    model = _problem(tmp_path, monkeypatch).plain_model
    monkeypatch.setattr(lower_check, "bound_by_duality", lambda *_: None)
    monkeypatch.setattr(lower_check, "_solve_by_cvxpy", copied)
    found = lower_check.check_lower(model, np.zeros(0), np.zeros(1), np.zeros(2), NEVER)
    assert found.status.name == "OPTIMAL"
    answer = model.solve_lower(np.zeros(1), np.zeros(0), np.zeros(2))[0]
    np.testing.assert_allclose(found.y, answer.y, atol=1e-7)


def test_no_bound_is_looked_for_by_a_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _problem(tmp_path, monkeypatch).plain_model
    found = bounds.high_point(model, np.zeros(0), NEVER)
    assert not found.is_known
    assert "file" in found.source
