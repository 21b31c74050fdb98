"""Expressions in messages: the notation one types, on one line, at a cost that does not grow."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.text.shorten import counted, shorten, some_of

x, y = cp.Variable(name="x"), cp.Variable(name="y")
z = cp.Variable(400, name="z")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (cp.nlp.cos(3 * y) + x * y, "cos(3 * y) + x * y"),
        (cp.norm(z, 2) <= 1, "norm(z, 2) <= 1"),
        (cp.Minimize((x - 1) ** 2), "minimise (x - 1)**2"),
        (cp.Maximize(x), "maximise x"),
        ("words", "words"),
    ],
)
def test_the_notation_one_types(part, text: str) -> None:
    assert shorten(part) == text


def test_long_texts_are_cut_in_the_middle() -> None:
    text = shorten(cp.exp(cp.Variable(name="a" * 80)) + cp.Variable(name="b" * 80), 60)
    assert len(text) <= 60 and text.startswith("exp(aaa") and text.endswith("bbb") and " ... " in text


def test_long_sums_show_their_ends() -> None:
    terms = [k * z[k] for k in range(100)]
    assert shorten(sum(terms[1:], terms[0])) == (
        "0 * z[0] + 1 * z[1] + 2 * z[2] + 3 * z[3] + ... + 98 * z[98] + 99 * z[99]"
    )


def _nested(depth: int) -> cp.Expression:
    part = y
    for _ in range(depth):
        part = cp.exp(-part)
    return part


@pytest.mark.parametrize(
    "part",
    [
        np.arange(1e5).reshape(250, 400) @ z,
        sp.random_array((5000, 400), density=0.5, rng=np.random.default_rng(0)) @ z <= np.arange(5000.0),
        sum((k * z[k] for k in range(1, 400)), y) <= 1,
        cp.hstack([k * z[k] for k in range(400)]),
        cp.sum(cp.multiply(np.arange(400.0), z)) + z[np.arange(0, 400, 3)].sum(),
        z[np.arange(400) % 2 == 0] >= np.arange(200.0),
        _nested(150),
        sum((cp.exp(sum((z[j] * z[k] for j in range(12)), y)) for k in range(12)), x),
    ],
    ids=["dense", "sparse", "sum", "stack", "picked", "mask", "deep", "wide"],
)
def test_the_cost_does_not_grow_with_the_expression(part) -> None:
    assert len(shorten(part)) <= 90
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        shorten(part)
        best = min(best, time.perf_counter() - begin)
    assert best < 2e-3


def test_long_lists_show_the_first_few() -> None:
    assert some_of(["a", "b", "c"]) == "a, b, c"
    assert some_of(map(str, range(30)), 3) == "0, 1, 2 and 27 more"


def test_one_thing_and_many() -> None:
    assert [counted(number, "node") for number in (0, 1, 2000)] == ["0 nodes", "1 node", "2,000 nodes"]
