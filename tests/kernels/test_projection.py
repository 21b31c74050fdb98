"""Projections against plain NumPy, and against what defines a projection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from blomodel.kernels.projection import (
    AFFINE,
    BALL,
    BOX,
    BUDGET,
    CAPPED,
    FREE,
    L1_BALL,
    SIMPLEX,
    build_set,
    project,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from numba.core.runtime import _nrt_python, rtsys
from scipy.optimize import brentq

numbers = st.floats(-1e3, 1e3, allow_nan=False)
vectors = st.integers(1, 9).flatmap(lambda n: arrays(float, n, elements=numbers))


def projected(kind: int, numbers, v) -> np.ndarray:
    result = np.array(v, dtype=float)
    project(build_set([(kind, np.arange(result.size), numbers)]), result)
    return result


def simplex_by_sorting(v: np.ndarray, total: float) -> np.ndarray:
    falling = np.sort(v)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, v.size + 1)
    last = np.flatnonzero(falling > thresholds).max(initial=0)
    return np.maximum(v - thresholds[last], 0.0)


@given(vectors, st.floats(1e-3, 1e3))
def test_simplex(v: np.ndarray, total: float) -> None:
    result = projected(SIMPLEX, [total], v)
    np.testing.assert_allclose(result, simplex_by_sorting(v, total), atol=1e-10)
    assert abs(result.sum() - total) <= 1e-12 * (total + v.size)


@given(vectors, st.floats(1e-3, 1e3))
def test_capped_simplex(v: np.ndarray, total: float) -> None:
    clipped = np.maximum(v, 0.0)
    expected = clipped if clipped.sum() <= total else simplex_by_sorting(v, total)
    np.testing.assert_allclose(projected(CAPPED, [total], v), expected, atol=1e-10)


@given(vectors, st.floats(1e-3, 1e3))
def test_l1_ball(v: np.ndarray, total: float) -> None:
    sizes = np.abs(v)
    expected = v if sizes.sum() <= total else np.sign(v) * simplex_by_sorting(sizes, total)
    np.testing.assert_allclose(projected(L1_BALL, [total], v), expected, atol=1e-10)


@given(vectors, st.data())
def test_box(v: np.ndarray, data) -> None:
    bounds = arrays(float, v.size, elements=st.one_of(numbers, st.sampled_from([-np.inf, np.inf])))
    one, other = data.draw(bounds), data.draw(bounds)
    lower, upper = np.minimum(one, other), np.maximum(one, other)
    lower[lower == np.inf], upper[upper == -np.inf] = -np.inf, np.inf
    assert np.array_equal(projected(BOX, [*lower, *upper], v), np.clip(v, lower, upper))


@given(vectors, st.floats(0.0, 1e3))
def test_ball(v: np.ndarray, radius: float) -> None:
    centre = np.linspace(-1.0, 2.0, v.size)
    distance = np.linalg.norm(v - centre)
    expected = v if distance <= radius else centre + radius * (v - centre) / distance
    np.testing.assert_allclose(projected(BALL, [*centre, radius], v), expected, atol=1e-10)


@given(vectors, st.data())
def test_budget(v: np.ndarray, data) -> None:
    slopes = data.draw(arrays(float, v.size, elements=st.sampled_from([-2.0, -0.5, 1.0, 1.0, 3.0])))
    lower = data.draw(arrays(float, v.size, elements=st.sampled_from([-np.inf, -3.0, 0.0])))
    upper = data.draw(arrays(float, v.size, elements=st.sampled_from([0.0, 2.0, np.inf])))
    inside = np.clip(data.draw(arrays(float, v.size, elements=st.floats(-5, 5))), lower, upper)
    low = high = slopes @ inside
    if data.draw(st.booleans()):
        low -= data.draw(st.sampled_from([0.5, np.inf]))
    result = projected(BUDGET, [*lower, *upper, *slopes, low, high], v)

    def spent(price: float) -> float:
        return slopes @ np.clip(v - price * slopes, lower, upper)

    price = 0.0
    if not low <= spent(0.0) <= high:
        target = high if spent(0.0) > high else low
        reach = 1e5
        gaps = spent(-reach) - target, spent(reach) - target
        if gaps[0] * gaps[1] < 0:
            price = brentq(lambda t: spent(t) - target, -reach, reach, xtol=1e-13, maxiter=2000)
        else:  # the target is the largest or smallest amount there is
            price = -reach if abs(gaps[0]) < abs(gaps[1]) else reach
    np.testing.assert_allclose(result, np.clip(v - price * slopes, lower, upper), atol=1e-8)
    assert low - 1e-9 <= slopes @ result <= high + 1e-9


def test_affine_subspace(rng: np.random.Generator) -> None:
    matrix, point = rng.normal(size=(3, 7)), rng.normal(size=7)
    _, _, basis = np.linalg.svd(matrix, full_matrices=False)
    v = rng.normal(size=7)
    expected = v - np.linalg.pinv(matrix) @ (matrix @ (v - point))
    result = projected(AFFINE, [3, *(basis @ point), *basis.ravel()], v)
    np.testing.assert_allclose(result, expected, atol=1e-13)


def _cases(rng: np.random.Generator) -> dict[str, tuple[int, np.ndarray, Callable[[], np.ndarray]]]:
    """Kind, numbers, and a way to draw points of the set that does not project."""
    _, _, basis = np.linalg.svd(rng.normal(size=(2, 5)), full_matrices=False)
    lower, upper = -rng.random(5), rng.random(5)
    slopes, signs = rng.normal(size=5), np.array([1, -1, 1, -1, 1])

    def of_subspace() -> np.ndarray:
        u = rng.normal(size=5)
        return u - basis.T @ (basis @ u - [0.3, -1.0])

    def of_ball() -> np.ndarray:
        u = rng.normal(size=5)
        return 1.0 + 2.0 * rng.random() * u / np.linalg.norm(u)

    def of_budget() -> np.ndarray:
        while True:
            u = lower + (upper - lower) * rng.random(5)
            if slopes @ u <= 0.1:
                return u

    return {
        "box": (BOX, np.append(lower, upper), lambda: lower + (upper - lower) * rng.random(5)),
        "simplex": (SIMPLEX, np.array([2.0]), lambda: 2.0 * rng.dirichlet(np.ones(5))),
        "capped": (CAPPED, np.array([2.0]), lambda: 2.0 * rng.random() * rng.dirichlet(np.ones(5))),
        "ball": (BALL, np.append(np.ones(5), 2.0), of_ball),
        "affine": (AFFINE, np.array([2, 0.3, -1.0, *basis.ravel()]), of_subspace),
        "budget": (BUDGET, np.concatenate([lower, upper, slopes, [-np.inf, 0.1]]), of_budget),
        "l1": (L1_BALL, np.ones(1), lambda: rng.random() * rng.dirichlet(np.ones(5)) * signs),
    }


@pytest.mark.parametrize("name", list(_cases(np.random.default_rng(0))))
def test_defining_properties(name: str, rng: np.random.Generator) -> None:
    kind, data, draw = _cases(rng)[name]
    for _ in range(100):
        v = 4.0 * rng.normal(size=5)
        nearest = projected(kind, data, v)
        np.testing.assert_allclose(projected(kind, data, nearest), nearest, atol=1e-13)
        inside = draw()
        np.testing.assert_allclose(projected(kind, data, inside), inside, atol=1e-13)
        # the variational inequality: no point of the set lies on v's side of the tangent plane
        assert (v - nearest) @ (inside - nearest) <= 1e-11


def test_products_over_scattered_and_consecutive_blocks(rng: np.random.Generator) -> None:
    v = rng.normal(size=12)
    spec = build_set(
        [
            (SIMPLEX, [0, 2, 4], [1.0]),
            (BOX, [5, 6], [0.0, 0.0, 0.1, 0.1]),
            (L1_BALL, [11, 7, 9], [0.5]),
            (BUDGET, [10, 8], [-np.inf, -np.inf, np.inf, np.inf, 1.0, 1.0, 0.0, 0.0]),
            (FREE, [1], []),
        ]
    )
    result = v.copy()
    project(spec, result)
    np.testing.assert_allclose(result[[0, 2, 4]], simplex_by_sorting(v[[0, 2, 4]], 1.0), atol=1e-14)
    np.testing.assert_allclose(result[[5, 6]], np.clip(v[[5, 6]], 0.0, 0.1))
    np.testing.assert_allclose(result[[11, 7, 9]], projected(L1_BALL, [0.5], v[[11, 7, 9]]))
    np.testing.assert_allclose(result[[8, 10]], v[[8, 10]] - v[[8, 10]].mean(), atol=1e-14)
    assert np.array_equal(result[[1, 3]], v[[1, 3]])


def test_hard_points() -> None:
    np.testing.assert_allclose(projected(SIMPLEX, [1.0], [1e20, 1e20, 0.0]), [0.5, 0.5, 0.0])
    assert np.array_equal(projected(SIMPLEX, [0.0], [3.0, 3.0, -1.0]), np.zeros(3))
    assert np.array_equal(projected(CAPPED, [0.0], [3.0, -1.0]), np.zeros(2))
    assert np.array_equal(projected(BALL, [1.0, 2.0, 0.0], [5.0, 5.0]), [1.0, 2.0])
    assert np.isnan(projected(SIMPLEX, [1.0], [np.nan, 0.0])).any()
    assert np.isnan(projected(BOX, [0.0, 1.0], [np.nan])).all()


@njit
def repeat(spec, v, times):
    for _ in range(times):
        project(spec, v)
        v[0] += 10.0


def test_projections_do_not_allocate(rng: np.random.Generator) -> None:
    cases = _cases(rng).values()
    blocks = [(kind, 10 * k + np.arange(5), data) for k, (kind, data, _) in enumerate(cases)]
    blocks += [(kind, 10 * k + np.array([7, 5, 6, 9, 8]), d) for k, (kind, d, _) in enumerate(cases)]
    spec, v = build_set(blocks), rng.normal(size=100)
    _nrt_python.memsys_enable_stats()

    def allocations(times: int) -> int:
        before = rtsys.get_allocation_stats().alloc
        repeat(spec, v, times)
        return rtsys.get_allocation_stats().alloc - before

    allocations(1)
    assert allocations(100) == allocations(1) <= 4
