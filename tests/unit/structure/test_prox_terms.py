"""The lower objective split into a smooth part and weighted norms."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels.calls import call_at
from blomodel.kernels.jit import compiled
from blomodel.kernels.prox import prox
from hypothesis import given
from hypothesis import strategies as st

import blomodel as bm
from blomodel.compiler.passes.derivatives import gradient
from blomodel.errors import ModelError
from blomodel.model.oracle import loop_tape
from blomodel.structure.prox_terms import split_objective

MATRIX = np.random.default_rng(1).normal(size=(5, 4))


@dataclass
class Leaves:
    """The variables that the terms below may hold."""

    x: cp.Variable
    s: cp.Variable
    y: cp.Variable
    Y: cp.Variable
    u: cp.Variable
    p: cp.Parameter


def build(make, sign: float = 1.0):
    """A problem whose lower objective is smooth plus ``make(leaves)``."""
    leaves = Leaves(
        cp.Variable(4, name="x"),
        cp.Variable(name="s"),
        cp.Variable(4, name="y"),
        cp.Variable((4, 3), name="Y"),
        cp.Variable(name="u"),
        cp.Parameter(name="p", nonneg=True, value=2.0),
    )
    smooth = cp.sum_squares(MATRIX @ leaves.y - 1) + cp.sum_squares(leaves.Y)
    smooth += cp.square(leaves.u - leaves.s) + leaves.x @ leaves.y
    sense = cp.Minimize if sign > 0 else cp.Maximize
    variables = [leaves.y, leaves.Y, leaves.u]
    lower = bm.Lower(sense(sign * (smooth + make(leaves))), [], variables=variables)
    objective = cp.Minimize(cp.sum_squares(leaves.x) + leaves.s**2 + leaves.p + cp.sum(leaves.y))
    return bm.BilevelProblem(objective, [leaves.x >= 0, leaves.s >= 0], lower)


TERMS = {
    "norm1": (lambda v: cp.norm1(v.y), 4),
    "norm 1": (lambda v: v.s * cp.norm(v.y, 1), 4),
    "sum of abs": (lambda v: 3 * v.p * cp.sum(cp.abs(v.y)), 4),
    "multiply": (lambda v: cp.sum(cp.multiply(v.x, cp.abs(v.y))), 4),
    "constant weights": (lambda v: cp.sum(cp.multiply(np.arange(4), cp.abs(v.y))), 4),
    "product": (lambda v: v.x @ cp.abs(v.y) + cp.abs(v.u), 5),
    "product from the right": (lambda v: cp.abs(v.y) @ v.x, 4),
    "overlapping selections": (lambda v: cp.exp(v.s) * cp.norm1(2 * v.y[1:3]) + cp.norm1(-v.y), 4),
    "stacked": (lambda v: v.s * cp.norm1(cp.hstack([v.y[2:], v.u])), 3),
    "groups": (lambda v: v.x[0] * cp.norm(v.y[:2], 2) + v.x[1] * cp.norm(3 * v.y[2:], 2) / 4, 2),
    "rows": (lambda v: cp.sum(cp.multiply(v.x, cp.norm(v.Y, 2, axis=1))), 4),
    "each row": (lambda v: sum(v.x[i] * cp.norm(v.Y[i], 2) for i in range(4)), 4),
    "columns": (lambda v: v.s * cp.sum(cp.norm(v.Y, 2, axis=0)), 3),
    "mixed norm": (lambda v: v.s * cp.mixed_norm(v.Y, 2, 1), 4),
    "whole matrix": (lambda v: v.s * cp.norm(v.Y, "fro"), 1),
    "sparse groups": (lambda v: cp.norm(v.Y, "fro") + v.s * cp.norm1(v.Y), 13),
    "norms along an axis": (lambda v: v.x @ cp.norm1(v.Y, axis=1) + cp.norm1(v.Y, axis=1)[0], 12),
    "elastic net": (lambda v: v.s * (cp.norm1(v.y) + v.p * cp.sum_squares(v.y)), 4),
    "negations": (lambda v: -(-v.s * cp.norm1(v.y) - 2 * cp.abs(v.u)), 5),
    "beside smooth atoms": (
        lambda v: cp.norm1(v.y) + cp.norm(v.y) ** 2 + cp.sum_squares(cp.pos(1 - v.y)) + cp.huber(v.u),
        4,
    ),
}


WEIGHTS_BELOW_THE_BARS = {
    "norm of a product": lambda v: cp.norm1(cp.multiply(v.x, v.y)),
    "a number times y": lambda v: cp.norm1(v.s * v.y),
    "negative weight": lambda v: cp.sum(cp.abs(cp.multiply(-v.x - 1, 2 * v.y))),
    "parameter": lambda v: cp.norm1(cp.multiply(v.p * cp.exp(v.x), v.y)),
    "two weights": lambda v: cp.norm1(cp.multiply(v.s + 1, cp.multiply(v.y, v.x))),
}


@pytest.mark.parametrize("name", list(WEIGHTS_BELOW_THE_BARS))
def test_weights_with_a_known_sign_may_stand_below_the_bars(name: str, rng: np.random.Generator) -> None:
    problem = build(WEIGHTS_BELOW_THE_BARS[name])
    model, p = problem.model, problem.parameter_values()
    split = split_objective(model)
    assert split.n_weights == 4
    for _ in range(3):
        x, y = np.abs(rng.normal(size=model.x.size)), rng.normal(size=model.y.size)
        assert split.weights(x, y, p).min() >= 0
        assert split.value(x, y, p) == pytest.approx(model.g(x, y, p)[0], abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", list(TERMS))
def test_the_parts_add_up(name: str, sign: float, rng: np.random.Generator) -> None:
    make, n_weights = TERMS[name]
    problem = build(make, sign)
    model, p = problem.model, problem.parameter_values()
    split = split_objective(model)
    assert split.n_weights == n_weights and not split.is_smooth
    assert split.weights.input_names == ("x", "y", "p")
    smooth_slope = gradient(split.smooth, ("x",))
    for _ in range(3):
        x, y = rng.normal(size=model.x.size), rng.normal(size=model.y.size)
        assert split.value(x, y, p) == pytest.approx(model.g(x, y, p)[0], abs=1e-12)
        slope = smooth_slope(x, y, p) + split.weights_vjp(x, y, p, split.penalties(y))
        np.testing.assert_allclose(slope, model.g_grad(x, y, p)[: x.size], atol=1e-11)


@pytest.mark.parametrize("name", list(TERMS))
def test_the_smooth_part_has_no_kink_at_zero(name: str, rng: np.random.Generator) -> None:
    problem = build(TERMS[name][0])
    model, p = problem.model, problem.parameter_values()
    slope = gradient(split_objective(model).smooth, ("y",))
    x, direction = np.abs(rng.normal(size=model.x.size)), rng.normal(size=model.y.size)
    sides = [slope(x, 1e-9 * side * direction, p) for side in (-1.0, 1.0)]
    np.testing.assert_allclose(*sides, atol=1e-6)


@given(st.lists(st.floats(0.0, 5.0), min_size=5, max_size=5), st.floats(0.01, 2.0), st.integers(0, 99))
def test_proximal_step_minimises(x: list[float], step: float, seed: int) -> None:
    split, p = SPARSE_GROUPS
    rng = np.random.default_rng(seed)
    v = 2 * rng.normal(size=17)
    weights = split.weights(np.array(x), v, p)
    best = v.copy()
    prox(split.spec, weights, step, best)

    def objective(y: np.ndarray) -> float:
        return step * weights @ split.penalties(y) + np.sum((y - v) ** 2) / 2

    for size in (1e-3, 0.3):
        other = best + size * rng.normal(size=v.size)
        assert objective(other) >= objective(best) + np.sum((other - best) ** 2) / 2 - 1e-10


def _sparse_groups():
    problem = build(lambda v: v.x @ cp.norm(v.Y, 2, axis=1) + v.s * cp.norm1(v.Y) + v.x @ cp.abs(v.y))
    return split_objective(problem.model), problem.parameter_values()


SPARSE_GROUPS = _sparse_groups()


def test_smooth_objectives_stay_as_they_are() -> None:
    model = build(lambda v: cp.sum(cp.huber(v.y)) + cp.sum(cp.logistic(v.y)) + cp.abs(v.s)).model
    split = split_objective(model)
    assert split.smooth is model.g and split.is_smooth and split.text == "smooth"
    y = np.ones(model.y.size)
    prox(split.spec, np.zeros(0), 1.0, y)
    assert np.array_equal(y, np.ones(model.y.size))
    point = np.zeros(model.x.size), y, np.ones(1)
    assert split.penalty(*point) == 0.0


def test_text() -> None:
    assert SPARSE_GROUPS[0].text == (
        "smooth part + weighted l1 norm of 16 entries + 4 weighted group norms of 3 entries"
    )


@pytest.mark.parametrize(
    ("make", "named", "why"),
    [
        (lambda v: cp.norm1(v.y - 1), "norm1(y - 1)", "no selection"),
        (lambda v: cp.norm1(v.y - v.x), "norm1(y - x)", "no selection"),
        (lambda v: cp.norm1(cp.multiply(v.x - v.p, v.y)), "norm1(", "no selection"),
        (lambda v: cp.norm1(cp.multiply(v.x - 1, v.y)), "norm1(multiply(x - 1, y))", "no selection"),
        (lambda v: cp.norm1(MATRIX @ v.y), "norm1(", "mixes"),
        (lambda v: cp.tv(v.y), "norm1(", "mixes"),
        (lambda v: cp.norm1(v.y) ** 2, "norm1(y)", "linearly"),
        (lambda v: cp.exp(cp.norm1(v.y)), "exp(norm1(y))", "linearly"),
        (lambda v: v.u * cp.norm1(v.y), "u * norm1(y)", "linearly"),
        (lambda v: cp.norm(cp.multiply([1, 2, 3, 4], v.y)), "norm(", "different coefficients"),
        (lambda v: cp.norm(cp.hstack([v.y, v.y])), "norm(", "twice"),
        (lambda v: cp.norm(v.y, 3), "norm(", "norms 1 and 2"),
        (lambda v: cp.norm(v.y, "inf"), "norm_inf(y)", "no sum"),
        (lambda v: cp.max(v.y), "max(y", "no sum"),
        (lambda v: cp.sum(cp.pos(1 - v.y)), "maximum(", "no sum"),
        (lambda v: cp.norm(v.y[:2]) + cp.norm(v.y[1:]), "norm(", "disjoint"),
    ],
)
def test_other_kinks_are_refused(make, named: str, why: str) -> None:
    with pytest.raises(ModelError) as error:
        split_objective(build(make).model)
    assert named in str(error.value) and why in str(error.value) and "auto" in str(error.value)


@compiled
def proximal_gradient(times, slope, weights_of, spec, step, x, y, work, weights):
    call_at(weights_of, x, y, weights)
    for _ in range(times):
        call_at(slope, x, y, work)
        for i in range(len(y)):
            y[i] -= step * work[i]
        prox(spec, weights, step, y)


def test_a_compiled_loop_solves_the_lower_level(rng: np.random.Generator) -> None:
    problem = build(lambda v: v.x @ cp.abs(v.y) + v.p * v.s * cp.norm(v.Y, "fro") + cp.sum(v.Y))
    model, p = problem.model, problem.parameter_values()
    split = split_objective(model)
    x, y = 3 * rng.random(model.x.size), rng.normal(size=model.y.size)
    tapes = [loop_tape(tape, p) for tape in (gradient(split.smooth, ("y",)), split.weights)]
    step = 0.5 / np.linalg.norm(MATRIX, 2) ** 2
    proximal_gradient(
        20_000, *tapes, split.spec, step, x, y, np.zeros(y.size), np.zeros(split.n_weights)
    )
    answer = model.lower_program.solve(x, p)
    assert split.value(x, y, p) <= answer.value + 1e-7
    np.testing.assert_allclose(y, answer.y, atol=1e-4)
