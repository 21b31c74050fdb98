"""Proximal steps against plain NumPy, and against what defines them."""

from __future__ import annotations

import numpy as np
import pytest
from blomodel.kernels.prox import GROUP, L1, build_penalty, penalty_values, prox
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from numba.core.runtime import _nrt_python, rtsys

numbers = st.floats(-100, 100, allow_nan=False)
fives = arrays(float, 5, elements=numbers)
weights_of_five = arrays(float, 5, elements=st.floats(0, 50))
steps = st.floats(1e-3, 10)


def stepped(spec, weights, step, v) -> np.ndarray:
    result = np.array(v, dtype=float)
    prox(spec, np.asarray(weights, dtype=float), step, result)
    return result


def soft(v: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return np.sign(v) * np.maximum(np.abs(v) - amount, 0.0)


@given(fives, weights_of_five, steps)
def test_l1(v: np.ndarray, weights: np.ndarray, step: float) -> None:
    spec = build_penalty([(L1, np.arange(5), 0)])
    assert np.array_equal(stepped(spec, weights, step, v), soft(v, step * weights))


@given(fives, weights_of_five, steps)
def test_groups(v: np.ndarray, weights: np.ndarray, step: float) -> None:
    groups = [[4, 0, 2], [1, 3]]
    spec = build_penalty([(GROUP, group, k) for k, group in enumerate(groups)])
    expected = v.copy()
    for group, weight in zip(groups, weights, strict=False):
        size = np.linalg.norm(v[group])
        expected[group] *= max(0.0, 1.0 - step * weight / size) if size > 0 else 0.0
    np.testing.assert_allclose(stepped(spec, weights, step, v), expected, atol=1e-12)


SPECS = {
    "l1": build_penalty([(L1, [0, 2, 3], 0)]),
    "groups": build_penalty([(GROUP, [0, 2], 0), (GROUP, [1, 3, 4], 1)]),
    "l1 inside a group": build_penalty([(L1, [0, 1, 2], 0), (GROUP, np.arange(5), 3)]),
    "nothing": build_penalty(()),
}


def value_of(spec, weights: np.ndarray, v: np.ndarray) -> float:
    """The penalty, by plain NumPy."""
    rows, places = spec
    total = 0.0
    for kind, first, count, weight, _ in rows:
        part = v[places[first : first + count]]
        if kind == GROUP:
            total += weights[weight] * np.linalg.norm(part)
        else:
            total += weights[weight : weight + count] @ np.abs(part)
    return total


@pytest.mark.parametrize("name", list(SPECS))
def test_no_other_point_is_better(name: str, rng: np.random.Generator) -> None:
    spec, step = SPECS[name], 0.3
    for _ in range(50):
        weights, v = 3 * rng.random(5), 2 * rng.normal(size=5)
        best = stepped(spec, weights, step, v)

        def objective(u: np.ndarray, weights=weights, v=v) -> float:
            return step * value_of(spec, weights, u) + np.sum((u - v) ** 2) / 2

        for size in (1e-3, 0.1, 1.0):
            other = best + size * rng.normal(size=5) * (rng.random(5) < 0.6)
            # strong convexity: away from the minimiser the objective grows at least this much
            growth = np.sum((other - best) ** 2) / 2
            assert objective(other) >= objective(best) + growth - 1e-12


@pytest.mark.parametrize("name", list(SPECS))
def test_value_is_weights_times_penalties(name: str, rng: np.random.Generator) -> None:
    weights, v, out = rng.random(5), rng.normal(size=5), np.zeros(5)
    penalty_values(SPECS[name], v, out)
    assert value_of(SPECS[name], weights, v) == pytest.approx(weights @ out, abs=1e-14)


def test_zero_and_nan() -> None:
    spec = build_penalty([(GROUP, [0, 1], 0), (L1, [2], 1)])
    assert np.array_equal(stepped(spec, [1.0, 1.0], 1.0, [0.0, 0.0, 0.0]), np.zeros(3))
    assert np.array_equal(stepped(spec, [0.0, 0.0], 1.0, [0.0, 0.0, 2.0]), [0.0, 0.0, 2.0])
    assert np.isnan(stepped(spec, [1.0, 1.0], 1.0, [np.nan, 1.0, np.nan])[[0, 2]]).all()


@njit
def repeat(spec, weights, v, out, times):
    for _ in range(times):
        prox(spec, weights, 0.1, v)
        penalty_values(spec, v, out)
        v[0] += out[0]


def test_proximal_steps_do_not_allocate(rng: np.random.Generator) -> None:
    _nrt_python.memsys_enable_stats()
    state = [rng.random(5), rng.normal(size=5), np.zeros(5)]

    def allocations(times: int) -> int:
        before = rtsys.get_allocation_stats().alloc
        repeat(SPECS["l1 inside a group"], *state, times)
        return rtsys.get_allocation_stats().alloc - before

    allocations(1)
    assert allocations(100) == allocations(1) <= 6
