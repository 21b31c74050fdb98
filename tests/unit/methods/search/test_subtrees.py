"""A tree whose parts are worked on elsewhere proves what one tree proves."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.search import piece_tree, subtrees

joblib = pytest.importorskip("joblib")


def made(size: int = 24) -> bm.BilevelProblem:
    random = np.random.default_rng(1)
    x, y = cp.Variable(size, name="x"), cp.Variable(size, name="y")
    A, B, c = (random.normal(size=shape) for shape in ((size, size), (size, size), size))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ x / size)), [B @ y <= 1 + x], variables=[y])
    above = cp.sum_squares(x - c) + cp.sum_squares(y - 1)
    return bm.BilevelProblem(cp.Minimize(above), [x >= -2, x <= 2], lower)


def test_the_proof_does_not_depend_on_the_number_of_processes(monkeypatch):
    rounds = []

    def counted(run, left, make_tree):
        found = subtrees.branch_elsewhere(run, left, make_tree)
        rounds.append(found["nodes"])
        return found

    for module in (subtrees, piece_tree):
        monkeypatch.setattr(module, "SHARE", 5)
        monkeypatch.setattr(module, "FEWEST_OPEN", 8)
    monkeypatch.setattr(piece_tree, "branch_elsewhere", counted)
    alone = made()
    value = alone.solve("kkt-mip")
    assert not rounds
    seen = []
    for n_jobs in (2, 3):
        shared = made()
        with joblib.parallel_config(backend="threading"):
            shared.solve("kkt-mip", n_jobs=n_jobs)
        assert shared.status == "optimal"
        assert shared.value == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(
            shared.solution.values["x"], alone.solution.values["x"], rtol=0, atol=1e-6
        )
        assert rounds
        seen.append(tuple(rounds))
        rounds.clear()
    assert seen[0] == seen[1]
