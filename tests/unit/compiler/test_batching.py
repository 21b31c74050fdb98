"""Tapes in which many short instructions are one, against the tapes as they were lowered."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler import lowering
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import hessian, jacobian
from blomodel.compiler.passes.polynomial import is_jointly_quadratic


def many_followers(n):
    """Followers of different kinds and sizes, as one writes them in a loop."""
    draw = np.random.default_rng(0)
    x, total, leaves = cp.Variable(3, name="x"), 0, []
    for k in range(n):
        y = cp.Variable(3 + k % 2, name=f"y{k}")
        C = draw.standard_normal((4, y.size))
        short = y[:3]
        total += (draw.uniform(1, 2, 3) - x) @ short - cp.sum_squares(C @ y - 1) / 2
        total += cp.exp(x[k % 3]) * cp.sum_squares(y) + cp.sum(cp.power(y, 4)) - cp.norm(y)
        total -= cp.sum(cp.cumsum(cp.logistic(y))) + cp.max(short) + cp.quad_form(short, np.eye(3))
        leaves.append(y)
    return x, leaves, total


def compiled(monkeypatch, expressions, blocks, batched):
    monkeypatch.setattr(lowering, "_LONG", {})
    if not batched:
        monkeypatch.setattr(lowering, "batch_nodes", lambda tape: tape)
    return lower(expressions, blocks)


def test_value_and_derivatives_stay_the_same(monkeypatch):
    x, leaves, total = many_followers(7)
    blocks = (Block("x", [x]), Block("y", leaves), Block("p", []))
    expressions = [total, cp.hstack([2 * y[0] - x[1] for y in leaves])]
    new = compiled(monkeypatch, expressions, blocks, batched=True)
    old = compiled(monkeypatch, expressions, blocks, batched=False)
    assert len(new.nodes) < len(old.nodes) / 3
    assert new.output_slices == old.output_slices
    draw = np.random.default_rng(1)
    for _ in range(3):
        point = [draw.standard_normal(block.size) for block in blocks]
        np.testing.assert_allclose(new(*point), old(*point), rtol=1e-12, atol=1e-12)
        slopes = [jacobian(tape, ("x", "y"), point).toarray() for tape in (new, old)]
        np.testing.assert_allclose(*slopes, rtol=1e-10, atol=1e-10)


def test_the_value_is_that_of_cvxpy():
    x, leaves, total = many_followers(9)
    blocks = (Block("x", [x]), Block("y", leaves), Block("p", []))
    draw = np.random.default_rng(2)
    for leaf in (x, *leaves):
        leaf.value = draw.standard_normal(leaf.size)
    tape = lower([total], blocks)
    found = tape(x.value, np.concatenate([y.value for y in leaves]), np.empty(0))
    assert found[0] == pytest.approx(total.value, rel=1e-12)


def test_a_number_of_instructions_that_does_not_grow_with_the_followers():
    sizes = []
    for n in (20, 60):
        x, leaves = cp.Variable(5, name="x"), [cp.Variable(5, name=f"y{k}") for k in range(n)]
        total = sum((k - x) @ y - cp.sum_squares(y) / (2 + k) for k, y in enumerate(leaves))
        tape = lower([total], (Block("x", [x]), Block("y", leaves), Block("p", [])))
        assert is_jointly_quadratic(tape)
        point = (np.zeros(5), np.zeros(5 * n), np.empty(0))
        assert hessian(tape, ("x", "y"), point).nnz == 5 * n * 3  # y with y, and x with y twice
        sizes.append(len(tape.nodes))
    assert sizes[0] == sizes[1] < 30


def test_a_long_expression_is_compiled_once():
    x, leaves, total = many_followers(8)
    blocks = (Block("x", [x]), Block("y", leaves), Block("p", []))
    first = lower([total], blocks)
    assert lower([total], blocks) is first
    both = lower([total, x], blocks)
    point = [np.linspace(-1, 1, block.size) for block in blocks]
    np.testing.assert_allclose(both(*point), np.concatenate([first(*point), point[0]]))
    other = (Block("x", [x]), Block("y", leaves[::-1]), Block("p", []))
    assert lower([total], other) is not first
