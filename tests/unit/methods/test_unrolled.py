"""Iterative differentiation, and the two methods built on it: BDA and IAPTT."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels.backwards import go_back, record_path
from smooth_problems import logistic, lower_answer, quadratic, true_gradient

import blomodel as bm
from blomodel.model.oracle import Oracle
from blomodel.structure.sets import simple_set
from tests.support.slow_cases import first_few

NONE = np.zeros(0)


def unrolled_gradient(model, x, y, steps, step):
    """Gradient of f(x, y_T(x)), y_T and the derivative by the first inner point."""
    o, y_set = Oracle(model, NONE), simple_set(model, "y", NONE).spec
    path, slope = np.zeros((steps + 1, o.n_y)), model.f_grad(x, y, NONE)[: o.n_x]
    path[0] = y
    record_path(o.g_grad_y, y_set, x, path, steps, step, np.zeros(o.n_y))
    both = model.f_grad(x, path[steps], NONE)
    slope, adjoint = both[: o.n_x].copy(), both[o.n_x :].copy()
    product, image = np.zeros(o.n_x), np.zeros(o.n_y)
    go_back(
        o.g_grad_y, o.g_hessian_y, o.g_cross, y_set, not model.lower_constraints, x, path, steps, step,
        slope, product, adjoint, image, np.zeros((3, o.n_y)),
    )  # fmt: skip
    return slope, path[steps], adjoint


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("steps", [1, 7])
def test_reverse_differentiation_agrees_with_central_differences_of_the_truncated_map(make, steps):
    model = make()[0].model
    random = np.random.default_rng(3)
    x, y = random.standard_normal(model.x.size), random.standard_normal(model.y.size)
    slope, _, adjoint = unrolled_gradient(model, x, y, steps, 0.05)

    def value(x, y):
        return model.f(x, unrolled_gradient(model, x, y, steps, 0.05)[1], NONE)[0]

    for i, unit in enumerate(1e-5 * np.eye(x.size)):
        assert slope[i] == pytest.approx(
            (value(x + unit, y) - value(x - unit, y)) / 2e-5, rel=1e-6, abs=1e-7
        )
    for i, unit in enumerate(1e-5 * np.eye(y.size)):
        assert adjoint[i] == pytest.approx(
            (value(x, y + unit) - value(x, y - unit)) / 2e-5, rel=1e-6, abs=1e-7
        )


SETS = {
    "box": lambda y: [y >= -1, y <= 1],
    "simplex": lambda y: [y >= 0, cp.sum(y) == 1],
    "ball": lambda y: [cp.norm(y, 2) <= 0.5],
    "polyhedron": lambda y: [y[0] + y[1] <= 0.1, y[0] - 2 * y[2] <= 0, y[1] >= -0.5],
}


def constrained(kind):
    """A strongly convex quadratic problem with y in a set.

    f holds x to a place of its own, so that the best x does not lie where the lower answer has a kink.
    """
    free, x, y, *_ = quadratic()
    lower = bm.Lower(free.lower.objective, SETS[kind](y), variables=[y])
    place = np.random.default_rng(7).uniform(-2, 2, 5)
    upper = cp.Minimize(free.objective.expr + cp.sum_squares(x - place))
    return bm.BilevelProblem(upper, [x >= -2, x <= 2], lower), x, y


@pytest.mark.parametrize("kind", SETS)
def test_projected_steps_are_differentiated(kind):
    """Against central differences of the map that ends after 6 projected steps."""
    model = constrained(kind)[0].model
    random = np.random.default_rng(5)
    x = random.standard_normal(model.x.size)
    y = simple_set(model, "y", NONE).project(random.standard_normal(model.y.size))
    slope = unrolled_gradient(model, x, y, 6, 0.08)[0]

    def value(x):
        return model.f(x, unrolled_gradient(model, x, y, 6, 0.08)[1], NONE)[0]

    for i, unit in enumerate(1e-5 * np.eye(x.size)):
        assert slope[i] == pytest.approx((value(x + unit) - value(x - unit)) / 2e-5, rel=1e-5, abs=1e-6)


@cache
def best_value(kind):
    return constrained(kind)[0].solve()


@pytest.mark.parametrize("kind", first_few(SETS, 2))
@pytest.mark.parametrize("name", ["unrolled", "bda", "iaptt"])
def test_y_may_live_in_a_set(name, kind):
    problem = constrained(kind)[0]
    problem.solve(method=name, max_steps=400)
    assert problem.certificate.accepted
    assert problem.value == pytest.approx(best_value(kind), abs=1e-3)


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_many_steps_give_the_implicit_gradient(make):
    model = make()[0].model
    x = np.random.default_rng(4).standard_normal(model.x.size)
    slope, end, _ = unrolled_gradient(model, x, np.zeros(model.y.size), 2000, 0.05)
    np.testing.assert_allclose(end, lower_answer(model, x), atol=1e-9)
    np.testing.assert_allclose(slope, true_gradient(model, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["unrolled", "bda", "iaptt"])
def test_converges_without_settings(name):
    problem, x, y, x_best, y_best = quadratic(seed=1)
    problem.solve(method=name)
    assert problem.status == "locally_optimal"
    np.testing.assert_allclose(x.value, x_best, atol=1e-3)
    np.testing.assert_allclose(y.value, y_best, atol=1e-3)


def test_unrolled_chooses_enough_steps_for_a_badly_conditioned_lower_level():
    problem, x, _, x_best, _ = quadratic(condition=100.0, seed=2)
    problem.solve(method="unrolled")
    np.testing.assert_allclose(x.value, x_best, atol=1e-3)


def test_few_steps_from_a_fixed_start_are_biased_as_the_theory_says():
    errors = []
    for steps in (5, 20, 80):
        problem, x, _, x_best, _ = quadratic()
        x.value = np.zeros(5)
        problem.solve(method="unrolled", lower_steps=steps, restart=True)
        errors.append(np.abs(x.value - x_best).max())
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


def test_bda_lets_the_upper_level_choose_among_lower_answers():
    """g does not see y[1]: plain unrolling leaves it where it started, BDA moves it to its best."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((y[0] - x) ** 2), [], variables=[y])
    upper = cp.Minimize((y[0] - 2) ** 2 + (y[1] - 1) ** 2 + (x - y[1]) ** 2)
    problem = bm.BilevelProblem(upper, [], lower)
    x.value, y.value = 0.0, np.zeros(2)
    problem.solve(method="unrolled")
    assert problem.value > 0.9
    x.value, y.value = 0.0, np.zeros(2)
    problem.solve(method="bda")
    assert problem.value == pytest.approx(1 / 3, abs=0.05)


def test_iaptt_moves_its_start_out_of_the_wrong_valley():
    """g has the minima y = -1 and y = 1 for every x; f wants y near 1, the start is near -1."""

    def solve(name, **settings):
        x, y = cp.Variable(name="x", bounds=[-1, 1]), cp.Variable(name="y")
        lower = bm.Lower(cp.Minimize((y**2 - 1) ** 2), [], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + (x - y / 2) ** 2), [], lower)
        x.value, y.value = 0.0, -0.3
        problem.solve(method=name, **settings)
        return problem.solution.history["value"][-1], x.value, y.value

    value, x_value, y_value = solve(
        "iaptt", step_size=0.05, lower_step=0.05, lower_steps=5, max_steps=2000
    )
    assert value == pytest.approx(0.0, abs=1e-4)
    assert x_value == pytest.approx(0.5, abs=1e-2)
    assert y_value == pytest.approx(1.0, abs=1e-3)
