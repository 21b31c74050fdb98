"""A panic inside Clarabel is a failure of one solve, wherever it is called; Ctrl-C is not.

pyo3's PanicException derives from BaseException, so that ``except Exception`` let it through.
"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.clarabel import Clarabel
from blomodel.solvers.convex_qp import ConvexProgram
from blomodel.solvers.question import QuadraticQuestion


class PanicException(BaseException):
    """Like pyo3_runtime.PanicException, which cannot be imported."""


def by_the_entry() -> InnerStatus:
    unit, ones = sp.csc_array(np.eye(2)), np.ones(2)
    question = QuadraticQuestion(unit, ones, unit, ones, np.zeros(2, bool))
    return Clarabel().solve(question).status


def by_a_piece() -> InnerStatus:
    return ConvexProgram(np.eye(2), -np.ones(2), None, None, np.eye(2), np.zeros(2)).solve().status


@pytest.mark.parametrize("solve", [by_the_entry, by_a_piece])
def test_a_panic_is_a_failure(solve, monkeypatch) -> None:
    def panic(*arguments):
        raise PanicException("index out of bounds")

    monkeypatch.setattr(clarabel, "DefaultSolver", panic)
    assert solve() is InnerStatus.FAILED


@pytest.mark.parametrize("solve", [by_the_entry, by_a_piece])
@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_the_program_still_does(solve, ending, monkeypatch) -> None:
    def end(*arguments):
        raise ending

    monkeypatch.setattr(clarabel, "DefaultSolver", end)
    with pytest.raises(ending):
        solve()


def test_a_real_panic_derives_from_base_exception_only() -> None:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.GenPowerConeT([0.9, 0.9], 1)]  # exponents must add up to one
    data = sp.csc_matrix((3, 3)), np.zeros(3), sp.csc_matrix(np.eye(3)), np.ones(3)
    with pytest.raises(BaseException, match="assertion failed") as caught:
        clarabel.DefaultSolver(*data, cones, settings)
    assert not isinstance(caught.value, Exception)
