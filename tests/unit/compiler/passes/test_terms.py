"""The summands of a function: together they are the function, and each belongs to one group."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.terms import owners_of_terms, terms

N = 7
X, Y = cp.Variable(N, name="x"), cp.Variable(N, name="y")
BLOCKS = (Block("x", [X]), Block("y", [Y]), Block("p", ()))
A = np.arange(1.0, N + 1)
EACH = [np.array([k]) for k in range(N)]
SEPARABLE = {
    "waves": cp.sum(cp.nlp.cos(cp.multiply(A, Y))) + cp.sum_squares(Y - X) / 10 - X @ Y,
    "weights": A @ cp.exp(Y)
    + cp.exp(X[0]) * cp.sum_squares(Y)
    - cp.sum(cp.power(Y, 4)) / (2 + X[1] ** 2),
    "one by one": sum(cp.nlp.sin(Y[k] * X[k]) * A[k] - Y[k] ** 3 for k in range(N)) + 5 * X[1],
    "sparse": cp.sum(sp.csr_array(np.diag(A)) @ cp.square(Y)) + cp.sum(cp.multiply(Y[::-1], A)),
    "a number for all": cp.sum(cp.multiply(A, X) + cp.nlp.sin(Y[2])) + cp.sum(Y[3] - X),
    "sums of pieces": cp.sum(cp.hstack([cp.square(Y[:3]), -cp.exp(Y[2:])])),
}


def at(seed: int) -> tuple[np.ndarray, ...]:
    x, *ys = np.random.default_rng(seed).uniform(-1, 1, (3, N))
    return x, *ys


@pytest.mark.parametrize("name", SEPARABLE)
def test_summands_are_the_function_and_one_entry_moves_its_own(name: str) -> None:
    tape = lower([SEPARABLE[name]], BLOCKS)
    summands = terms(tape)
    owners = owners_of_terms(summands, EACH)
    assert owners is not None
    x, here, there = at(0)
    p = np.zeros(0)
    for k in range(N):
        moved = here.copy()
        moved[k] = there[k]
        change = summands(x, moved, p) - summands(x, here, p)
        assert np.all(change[owners != k] == 0)
        assert change.sum() == pytest.approx((tape(x, moved, p) - tape(x, here, p))[0], abs=1e-12)


def test_a_summand_of_two_groups_is_seen() -> None:
    summands = terms(lower([cp.sum_squares(Y) + Y[0] * Y[1]], BLOCKS))
    assert owners_of_terms(summands, EACH) is None
    assert owners_of_terms(summands, [np.arange(2), *EACH[2:]]) is not None


def test_elements_that_are_left_out_may_be_undefined() -> None:
    summands = terms(lower([cp.sum(cp.log(Y)[:3]) + cp.sum_squares(Y)], BLOCKS))
    y = np.where(np.arange(N) < 3, 1.0, -1.0)
    assert np.all(np.isfinite(summands(np.zeros(N), y, np.zeros(0))))
