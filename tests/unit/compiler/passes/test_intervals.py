"""Bounds by interval arithmetic."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from atom_cases import CASES, POSITIVE, SMALL, Case, Leaves
from hypothesis import given, settings
from hypothesis import strategies as st

from blomodel.atoms import sigmoid
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.passes.intervals import intervals

z = cp.Variable(2)
BLOCKS = [Block("z", [z])]
INF = np.inf


def bounds(expression: cp.Expression, low, high) -> tuple[list[float], list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower_bounds, upper_bounds = intervals(lower([expression], BLOCKS), {"z": (low, high)})
    return lower_bounds.tolist(), upper_bounds.tolist()


@pytest.mark.parametrize(
    ("expression", "box", "expected"),
    [
        (2 + cp.nlp.cos(4 * z[0]), (0, 1), (1.0, 3.0)),
        (cp.nlp.cos(z[0]), (0.0, 1.0), (np.cos(1.0), 1.0)),
        (cp.nlp.sin(z[0]), (0.0, 1.0), (0.0, np.sin(1.0))),
        (cp.nlp.sin(z[0]), (1.0, 3.0), (np.sin(3.0), 1.0)),
        (cp.nlp.sin(z[0]), (-INF, INF), (-1.0, 1.0)),
        (cp.nlp.tan(z[0]), (-1.0, 1.0), (np.tan(-1.0), np.tan(1.0))),
        (cp.nlp.tan(z[0]), (0.0, 2.0), (-INF, INF)),
        (cp.exp(z[0]), (0, 1), (1.0, np.e)),
        (cp.exp(z[0]), (-INF, INF), (0.0, INF)),
        (cp.log(z[0]), (-1.0, 1.0), (-INF, 0.0)),
        (cp.sqrt(z[0]), (-1.0, 4.0), (0.0, 2.0)),
        (sigmoid(z[0]), (-INF, INF), (0.0, 1.0)),
        (cp.entr(z[0]), (0.0, 1.0), (0.0, 1 / np.e)),
        (cp.abs(z[0]), (-1.0, 3.0), (0.0, 3.0)),
        (z[0] ** 2, (-1.0, 2.0), (0.0, 4.0)),
        (z[0] * z[0], (-1.0, 2.0), (0.0, 4.0)),
        (cp.multiply(z - 1, z - 1)[0], (-1.0, 2.0), (0.0, 4.0)),
        (z @ z, (-1.0, 2.0), (0.0, 8.0)),
        (cp.sum_squares(z), (-1.0, 2.0), (0.0, 8.0)),
        (z[0] ** 3, (-1.0, 2.0), (-1.0, 8.0)),
        (z[0] ** 4, (-1.0, 2.0), (0.0, 16.0)),
        (cp.power(z[0], -2), (-1.0, 2.0), (0.25, INF)),
        (cp.power(z[0], 1.5), (1.0, 4.0), (1.0, 8.0)),
        (z[0] * z[1], (-1.0, 2.0), (-2.0, 4.0)),
        (0.0 * z[0] + 1.0, (-INF, INF), (1.0, 1.0)),
        (1 / (1 + z[0]), (0.0, 1.0), (0.5, 1.0)),
        (1 / z[0], (0.0, 2.0), (0.5, INF)),
        (1 / z[0], (-1.0, 1.0), (-INF, INF)),
        (z[0] - z[1], (0.0, 1.0), (-1.0, 1.0)),
        (cp.norm(z), (3.0, 4.0), (np.sqrt(18.0), np.sqrt(32.0))),
        (cp.norm1(z), (-1.0, 2.0), (0.0, 4.0)),
        (cp.max(z), (-1.0, 2.0), (-1.0, 2.0)),
        (cp.maximum(z[0], 0.5), (-1.0, 2.0), (0.5, 2.0)),
        (cp.minimum(z[0], 0.5), (-1.0, 2.0), (-1.0, 0.5)),
        (cp.logistic(z[0]), (-INF, 0.0), (0.0, np.log(2.0))),
        (np.array([1.0, -2.0]) @ z, (0.0, 1.0), (-2.0, 1.0)),
        (cp.sum(sp.csr_array([[1.0, -2.0]]) @ z), (0.0, 1.0), (-2.0, 1.0)),
        (cp.cumsum(z)[1], (-1.0, 2.0), (-2.0, 4.0)),
        (cp.Constant(2.0), (0.0, 1.0), (2.0, 2.0)),
    ],
    ids=str,
)
def test_known_bounds(expression, box, expected) -> None:
    low, high = bounds(expression, *box)
    assert (low[0], high[0]) == pytest.approx(expected, rel=1e-15, abs=1e-15)


def test_vectors_of_bounds_and_unnamed_blocks() -> None:
    leaves = Leaves()
    tape = lower([leaves.x, leaves.p[0] * leaves.x[0], cp.exp(leaves.p[1])], leaves.blocks)
    low, high = intervals(tape, {"x": ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])})
    np.testing.assert_array_equal(low, [0.0, 1.0, 2.0, -INF, 0.0])
    np.testing.assert_array_equal(high, [1.0, 2.0, 3.0, INF, INF])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bounds_hold_for_every_atom(case: Case) -> None:
    leaves = Leaves()
    expression = case.build(leaves.x, leaves.y, leaves.p)
    weights = np.cos(1.0 + np.arange(expression.size)).reshape(expression.shape, order="F")
    tape = lower([cp.sum(cp.multiply(weights, expression))], leaves.blocks)
    slope = gradient(tape, ("x", "y", "p"))
    box = {POSITIVE: (0.3, 2.0), SMALL: (-0.8, 0.8)}.get(case.domain, (-1.2, 1.5))
    box_of = {"x": box, "y": box, "p": (1.0, 2.0)}
    rng = np.random.default_rng(0)
    for function in (tape, slope):
        low, high = intervals(function, box_of)
        for _ in range(20):
            sizes = zip("xyp", function.input_sizes, strict=True)
            value = function(*(rng.uniform(*box_of[name], size=n) for name, n in sizes))
            slack = 1e-12 * (1.0 + np.abs(value))
            assert np.all(value >= low - slack)
            assert np.all(value <= high + slack)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    ends=st.tuples(*[st.floats(-6, 6) for _ in range(4)]),
    name=st.sampled_from(["cos", "sin", "tan", "product", "quotient", "power", "entr"]),
    t=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_bounds_hold_on_random_boxes(ends, name: str, t) -> None:
    low, high = np.sort(np.reshape(ends, (2, 2)), axis=0)
    expression = {
        "cos": cp.nlp.cos(z[0]), "sin": cp.nlp.sin(z[0]), "tan": cp.nlp.tan(z[0]),
        "product": z[0] * z[1], "quotient": z[0] / z[1], "power": z[0] ** 5,
        "entr": cp.entr(z[0]),
    }[name]  # fmt: skip
    tape = lower([expression], BLOCKS)
    below, above = intervals(tape, {"z": (low, high)})
    value = tape(np.clip(low + np.array(t) * (high - low), low, high))
    slack = 1e-12 * (1.0 + np.abs(value))
    assert np.all(np.isnan(value) | ((value >= below - slack) & (value <= above + slack)))


def test_a_matrix_of_numbers_times_intervals_with_open_ends():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 3))
    A[1, 2] = 0.0
    low = np.array([-1.0, -np.inf, 2.0])
    high = np.array([0.5, 1.0, np.inf])
    y = cp.Variable(3)
    tape = lower([A @ y], [Block("y", [y])])
    found = intervals(tape, {"y": (low, high)})
    points = np.clip(rng.normal(scale=1e3, size=(2000, 3)), low, high) @ A.T
    assert np.all(found[0] <= points.min(axis=0)) and np.all(points.max(axis=0) <= found[1])
    only_first = A[1, 0] * np.array([low[0], high[0]])
    assert np.isinf(found[0][0]) or np.isinf(found[1][0])
    # Row 1 does not hold the last entry: its end that the second entry leaves finite is exact.
    finite = found[1][1] if A[1, 1] > 0 else found[0][1]
    expected = (max if A[1, 1] > 0 else min)(only_first) + A[1, 1] * high[1]
    assert finite == pytest.approx(expected)
