"""Variables that never meet: groups from tapes, against second derivatives by hand."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.meetings import Meetings

Y = cp.Variable((3, 2), name="Y")
PAIRS = [0, 1, 2, 0, 1, 2]  # the rows of Y, column by column
CHAIN = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])

CASES = {
    "squares": (cp.sum_squares(Y), [0, 1, 2, 3, 4, 5]),
    "rows": (cp.sum(cp.multiply(Y[:, 0], Y[:, 1])), PAIRS),
    "inner product": (Y[:, 0] @ Y[:, 1], PAIRS),
    "exponential of sums": (cp.sum(cp.exp(cp.sum(Y, axis=1))), PAIRS),
    "product with numbers": (cp.sum(cp.square(CHAIN @ Y[:, 0])), [0, 0, 0, 1, 2, 3]),
    "largest": (cp.max(Y) + cp.sum(Y), [0] * 6),
    "norms of rows": (cp.sum(cp.norm(Y, axis=1)), PAIRS),
    "linear": (cp.sum(CHAIN @ Y) - 3 * Y[0, 0], [0, 1, 2, 3, 4, 5]),
    "square of a sum": (cp.square(cp.sum(Y[:, 0])) + cp.sum(Y), [0, 0, 0, 1, 2, 3]),
    "product of matrices": (cp.sum(Y @ cp.transpose(Y)), [0, 0, 0, 1, 1, 1]),
}


@pytest.mark.parametrize("name", CASES)
def test_terms_of_a_sum_do_not_meet(name: str) -> None:
    expression, groups = CASES[name]
    meetings = Meetings({"y": 6})
    meetings.add(lower([expression], [Block("y", [Y])]), is_sum=True)
    assert meetings.groups()["y"].tolist() == groups


def test_entries_of_a_row_meet_and_rows_do_not() -> None:
    meetings = Meetings({"y": 6})
    meetings.add(lower([CHAIN[:1] @ Y], [Block("y", [Y])]), is_sum=False)
    assert meetings.groups()["y"].tolist() == [0, 0, 1, 2, 2, 3]


def test_parameters_tie_nothing() -> None:
    p = cp.Parameter(name="p")
    blocks = [Block("y", [Y]), Block("p", [p])]
    meetings = Meetings({"y": 6})
    meetings.add(lower([cp.sum(p * Y)], blocks), is_sum=True)
    assert meetings.groups()["y"].tolist() == [0, 1, 2, 3, 4, 5]
