"""Weights that are exponentials of upper variables: claims with several multipliers, which must hold."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.exponentials import with_linear_conditions
from blomodel.certification.surroundings import Place


def doubled(*, form: str = "leaf", extra: float = 0.0) -> bm.BilevelProblem:
    """y = min(x, exp(v)), with the row y <= x stated twice: its multipliers are never unique."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    v = cp.Variable(2 if form == "entry" else (), name="v", bounds=[-1, 1] if form == "bounds" else None)
    part = v[0] if form == "entry" else v
    rows = [x >= 0.5, x <= 3] + ([] if form == "bounds" else [v >= -1, v <= 1])
    lower = bm.Lower(cp.Minimize(y**2 / 2 - cp.exp(part) * y), [y <= x, 2 * y <= 2 * x], variables=[y])
    f = 2 * y - x + (extra * cp.square(part - np.log(2)) if extra else 0)
    return bm.BilevelProblem(cp.Minimize(f), rows, lower, variables=[x, v])


def claim(problem: bm.BilevelProblem, x: float, v: float) -> str:
    upper = {leaf: np.full(leaf.shape, x if leaf.name() == "x" else v) for leaf in problem.levels.upper}
    return str(bm.certify(problem, upper, {problem.levels.lower[0]: min(x, np.exp(v))}).claim)


@pytest.mark.parametrize("form", ["leaf", "entry", "bounds"])
def test_a_local_optimum_with_several_multipliers_is_told(form: str) -> None:
    # Where exp(v) > x, y is x and f is x, as small as it can be at 0.5; v = -1 and x = 3 are better.
    assert claim(doubled(form=form), 0.5, np.log(2)) == "locally_optimal"


@pytest.mark.parametrize("form", ["leaf", "entry"])
def test_at_a_tie_f_falls_with_the_exponential(form: str) -> None:
    assert claim(doubled(form=form), 0.5, np.log(0.5)) == "feasible"
    assert claim(doubled(form=form), 1.0, np.log(2)) == "feasible"  # x may be smaller, and f with it


def test_a_variable_that_occurs_elsewhere_is_not_exchanged() -> None:
    assert claim(doubled(extra=0.1), 0.5, np.log(2)) == "stationary"


def test_one_stands_for_the_value_at_the_point() -> None:
    """Slopes are those in v, and a bound that is far away stays so however small exp(v) is."""
    v, w = cp.Variable(name="v"), cp.Variable(2, name="w")
    y = cp.Variable(2, name="y")
    g = cp.sum_squares(y) / 2 - 1e9 * cp.exp(v) * cp.sum(y) + w @ y
    lower = bm.Lower(cp.Minimize(g), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [v >= -30, v <= 5, w <= 1], lower)
    model = problem.plain_model
    at = {v: -20.0, w: np.zeros(2)}
    x = model.x.join(at)
    there = with_linear_conditions(Place(model, np.zeros(0), x, np.full(2, 2.0), np.zeros(2)))
    assert there.model.has_linear_kkt and not model.has_linear_kkt
    assert sorted(there.x) == [0.0, 0.0, 1.0] and list(there.p) == [-20.0]
    stated = model.g_grad(x, there.y, np.zeros(0))
    assert np.allclose(stated, there.model.g_grad(there.x, there.y, there.p))
    slack = there.model.upper_in.values(there.x, there.y, there.p)
    assert np.sort(slack)[-3:].max() < -0.9  # none of the bounds counts as tight


@pytest.mark.parametrize("seed", range(4))
def test_what_is_claimed_of_a_support_vector_machine_holds_around_the_point(seed: int) -> None:
    r = np.random.default_rng(seed)
    n, k = 8, 3
    a, b = r.standard_normal((n, k)), r.standard_normal((12, k))
    truth = r.standard_normal(k)
    c, d = np.sign(a @ truth + 0.3 * r.standard_normal(n)), np.sign(b @ truth)
    log_c, bound = cp.Variable(name="log_c"), cp.Variable(k, name="bound")
    w, slack = cp.Variable(k, name="w"), cp.Variable(n, name="slack", nonneg=True)
    rows = [cp.multiply(c, a @ w) >= 1 - slack, w <= bound, -bound <= w]
    g = cp.sum_squares(w) / 2 + cp.exp(log_c) * cp.sum(slack)
    f = cp.sum(cp.pos(1 - cp.multiply(d, b @ w)))
    own = [-3 <= log_c, log_c <= 3, bound >= 0.01, bound <= 2]
    lower = bm.Lower(cp.Minimize(g), rows, variables=[w, slack])
    problem = bm.BilevelProblem(cp.Minimize(f), own, lower)
    problem.solve(method="phi-descent", seed=seed)
    if problem.status not in ("locally_optimal", "optimal"):
        pytest.skip("nothing is claimed")
    at, value = (float(log_c.value), np.array(bound.value)), float(problem.value)
    weight, reach = cp.Parameter(nonneg=True), cp.Parameter(k)
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(w) / 2 + weight * cp.sum(slack)),
        [cp.multiply(c, a @ w) >= 1 - slack, w <= reach, -reach <= w],
    )
    for _ in range(60):
        size = 10.0 ** r.uniform(-4, -2)
        weight.value = np.exp(np.clip(at[0] + size * r.standard_normal(), -3, 3))
        reach.value = np.clip(at[1] + size * r.standard_normal(k), 0.01, 2)
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assert np.maximum(0, 1 - d * (b @ w.value)).sum() >= value - 1e-6
