"""Which elements an output depends on, and which variables meet nowhere."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from atom_cases import CASES, Case, Leaves

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.dependence import dependence, independent_groups
from blomodel.compiler.passes.derivatives import gradient, vjp


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_dependence_is_missed(case: Case) -> None:
    leaves = Leaves()
    tape = lower([case.build(leaves.x, leaves.y, leaves.p)], leaves.blocks)
    with_slopes = [tape, vjp(tape, ("y",))]
    for seed in range(3):
        x, y, p = leaves.set(case.domain, seed)
        moved = leaves.set(case.domain, seed + 10)[1]
        for function in with_slopes:
            rest = (p, np.ones(tape.n_outputs))[: len(function.input_names) - 2]
            depends = dependence(function, "y")
            here = function(x, y, *rest)
            for k in range(y.size):
                there = y.copy()
                there[k] = moved[k]
                changes = function(x, there, *rest) != here
                assert not np.any(changes & ~depends[:, k])


def groups(g, constraints=(), *, y):
    blocks = [Block("x", ()), Block("y", (y,)), Block("p", ())]
    slope = gradient(lower([g], blocks), ("y",))
    rows = [lower([constraint.expr], blocks) for constraint in constraints]
    return [list(group) for group in independent_groups(slope, rows)]


def test_groups() -> None:
    y = cp.Variable(4, name="y")
    waves = cp.sum_squares(y) - cp.sum(cp.nlp.cos(5 * y))
    assert groups(waves, y=y) == [[0], [1], [2], [3]]
    assert groups(waves + y[0] * y[2], y=y) == [[0, 2], [1], [3]]
    assert groups(waves, [y[1] + y[3] <= 1], y=y) == [[0], [1, 3], [2]]
    assert groups(waves, [y <= 1], y=y) == [[0], [1], [2], [3]]
    assert groups(cp.exp(cp.sum(y)), y=y) == [[0, 1, 2, 3]]
    assert groups(cp.max(y[:2]) + cp.abs(y[2]) + cp.norm(y[2:]), y=y) == [[0, 1], [2, 3]]
