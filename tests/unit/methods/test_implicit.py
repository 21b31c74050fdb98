"""Implicit gradients: against central differences, and the solvers of the linear system."""

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels.linalg import conjugate_gradients
from blomodel.kernels.loops.implicit import hypergradient, neumann
from smooth_problems import logistic, lower_answer, new_run, quadratic, true_gradient

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.limits import Limit
from blomodel.errors import ModelError
from blomodel.methods.run.registry import create_method
from blomodel.model.oracle import Oracle

NONE = np.zeros(0)
METHODS = [
    "implicit-cg",
    "implicit-neumann",
    "unrolled",
    "galet",
    "bome",
    "perturbed-gd",
    "bda",
    "iaptt",
]


def implicit_gradient(model, x, y, *, is_series, steps=200, step=0.05):
    o = Oracle(model, NONE)
    slope, product, v = np.zeros(o.n_x), np.zeros(o.n_x), np.zeros(o.n_y)
    hypergradient(
        o.f_grad_x, o.f_grad_y, o.g_hessian_y, o.g_cross, x, y, v, is_series, step, steps, 1e-14, slope,
        product, np.zeros((4, o.n_y)),
    )  # fmt: skip
    return slope


@pytest.mark.parametrize("is_series", [False, True])
@pytest.mark.parametrize("make", [quadratic, logistic])
def test_the_hypergradient_agrees_with_central_differences(make, is_series):
    model = make()[0].model
    x = np.random.default_rng(1).standard_normal(model.x.size)
    slope = implicit_gradient(
        model, x, lower_answer(model, x), is_series=is_series, steps=5000 if is_series else 200
    )
    np.testing.assert_allclose(slope, true_gradient(model, x), rtol=1e-6, atol=1e-7)


def test_conjugate_gradients_solve_exactly_in_as_many_steps_as_there_are_variables():
    model = quadratic(n_y=8)[0].model
    o = Oracle(model, NONE)
    right = np.random.default_rng(2).standard_normal(8)
    x, y = np.zeros(o.n_x), np.zeros(8)
    hessian = model.g_hessian(x, y, NONE)[o.n_x :, o.n_x :]
    solution, work = np.zeros(8), np.zeros((3, 8))
    steps = conjugate_gradients(o.g_hessian_y, x, y, right, solution, *work, 8, 0.0)
    assert steps == 8
    np.testing.assert_allclose(solution, np.linalg.solve(hessian, right), rtol=1e-8)
    again = conjugate_gradients(o.g_hessian_y, x, y, right, solution, *work, 8, 1e-6)
    assert again == 0


def test_the_series_is_the_sum_it_says():
    model = quadratic(n_y=4)[0].model
    o = Oracle(model, NONE)
    right = np.arange(1.0, 5.0)
    x, y = np.zeros(o.n_x), np.zeros(4)
    hessian = model.g_hessian(x, y, NONE)[o.n_x :, o.n_x :]
    solution, work, step = np.zeros(4), np.zeros((2, 4)), 0.07
    neumann(o.g_hessian_y, x, y, right, solution, *work, step, 5, 0.0)
    power = np.eye(4) - step * hessian
    wanted = step * sum(np.linalg.matrix_power(power, q) for q in range(5)) @ right
    np.testing.assert_allclose(solution, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["implicit-cg", "implicit-neumann"])
@pytest.mark.parametrize("condition", [10.0, 100.0])
def test_converges_without_settings(name, condition):
    problem, x, y, x_best, y_best = quadratic(condition=condition)
    problem.solve(method=name)
    assert problem.status == "locally_optimal"
    np.testing.assert_allclose(x.value, x_best, atol=1e-4)
    np.testing.assert_allclose(y.value, y_best, atol=1e-4)


@pytest.mark.parametrize("name", ["implicit-cg", "implicit-neumann"])
def test_converges_where_the_lower_hessian_changes(name):
    problem, x, _ = logistic()
    problem.solve(method=name)
    assert problem.status == "locally_optimal"
    assert np.abs(true_gradient(problem.model, x.value)).max() < 1e-4


def test_given_steps_are_taken_as_they_are():
    """One iteration by hand: two gradient steps in y, one conjugate gradient step, a step in x."""
    problem, x, y, *_ = quadratic()
    model = problem.model
    x.value, y.value = np.ones(5), np.zeros(6)
    problem.solve(
        method="implicit-cg",
        step_size=0.1,
        lower_step=0.05,
        lower_steps=2,
        linear_steps=1,
        max_steps=1,
    )
    start = np.ones(5)
    inner = np.zeros(6)
    for _ in range(2):
        inner = inner - 0.05 * model.g_grad(start, inner, NONE)[5:]
    hessian = model.g_hessian(start, inner, NONE)
    f_grad = model.f_grad(start, inner, NONE)
    right = f_grad[5:]
    v = right * (right @ right) / (right @ hessian[5:, 5:] @ right)
    wanted = start - 0.1 * (f_grad[:5] - hessian[:5, 5:] @ v)
    np.testing.assert_allclose(x.value, wanted, rtol=1e-10)


SETS = {
    "box": lambda x: [x >= -0.2, x <= 0.3],
    "simplex": lambda x: [x >= 0, cp.sum(x) == 1],
    "polyhedron": lambda x: [x[0] + x[1] <= 0.1, x[0] - 2 * x[2] <= 0, x[1] >= -0.5],
}


# Every method in a box, two in every set; polyhedra come again for all of them below.
PAIRS = [
    pytest.param(
        kind,
        name,
        marks=() if kind == "box" or name in ("implicit-cg", "unrolled") else pytest.mark.slow,
    )
    for kind in SETS
    for name in METHODS
]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_x_may_live_in_a_set(kind, name):
    """Against the problem with y eliminated, solved by a convex solver."""
    free, x, y, _, _ = quadratic()
    problem = bm.BilevelProblem(free.objective, SETS[kind](x), free.lower)
    hessian = free.model.g_hessian(np.zeros(5), np.zeros(6), NONE)
    shift = free.model.g_grad(np.zeros(5), np.zeros(6), NONE)[5:]
    answer = -np.linalg.inv(hessian[5:, 5:]) @ (hessian[5:, :5] @ x + shift)
    best = cp.Problem(free.objective, [*SETS[kind](x), y == answer]).solve()
    x.value, y.value = None, None
    problem.solve(method=name)
    assert problem.value == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize("name", METHODS)
def test_a_polyhedron_too_large_for_compiled_loops_gives_the_same_steps(name, monkeypatch):
    """Projections by a QP in interpreted loops, against compiled projections row by row."""
    answers = []
    for limit in (100_000, 0):
        monkeypatch.setattr(limits, "COMPILED_POLYHEDRON", Limit(limit, "numbers", "for the test"))
        free, x, y, *_ = quadratic()
        problem = bm.BilevelProblem(free.objective, SETS["polyhedron"](x), free.lower)
        run = new_run(problem)
        create_method(name, {"max_steps": 3, "step_size": 0.01}).run(run)
        answers.append(run.candidates[0].x)
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-6)


@pytest.mark.parametrize("name", ["implicit-cg", "implicit-neumann", "galet", "perturbed-gd"])
def test_a_constrained_lower_level_is_refused(name):
    problem, _, y, *_ = quadratic()
    lower = bm.Lower(problem.lower.objective, [y >= 0], variables=[y])
    constrained = bm.BilevelProblem(problem.objective, [], lower)
    with pytest.raises(ModelError, match=f"{name}: the lower level has the constraint '0 <= y'"):
        constrained.solve(method=name)


@pytest.mark.parametrize("name", [*METHODS, "pbgd", "jnt-pbgd", "alt-pbgd", "f2sa", "meha"])
def test_coupled_constraints_are_refused_by_name(name):
    problem, x, y, *_ = quadratic()
    lower = bm.Lower(problem.lower.objective, [y[0] <= x[0]], variables=[y])
    coupled = bm.BilevelProblem(problem.objective, [], lower)
    with pytest.raises(ModelError, match=rf"{name}: the constraint y\[0\] <= x\[0\].*blocc or auto"):
        coupled.solve(method=name)


@pytest.mark.parametrize("name", [*METHODS, "pbgd", "jnt-pbgd", "v-pbgd"])
def test_a_lower_objective_with_kinks_is_refused(name):
    problem, x, y, *_ = quadratic()
    lower = bm.Lower(problem.lower.objective + cp.Minimize(cp.norm1(y)), [], variables=[y])
    kinked = bm.BilevelProblem(problem.objective, [], lower)
    with pytest.raises(ModelError, match=f"{name}: .*has kinks.*try meha or alt-pbgd"):
        kinked.solve(method=name)
