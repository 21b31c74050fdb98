"""Attacks on statuses: no end, no answer, answers that depended on what was solved before."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

QUICK = 15.0  # seconds of CPU time, on any machine; these take about one


def lower(objective, constraints, *variables):
    return bm.Lower(cp.Minimize(objective), constraints, variables=list(variables))


def endless(name):
    x, y = cp.Variable(), cp.Variable()
    if name == "an exponential and a free variable":
        x = cp.Variable(2)
        f = cp.exp(0.3 * x[0]) + cp.exp(-0.5 * y) + 0.5 * x[0] + 0.7 * x[1]
        return bm.BilevelProblem(cp.Minimize(f), [], lower(y, [y >= -1, y <= 2], y))
    if name == "an exponential below":
        g = cp.exp(0.7 * y) - (x + 1.5) * y + 0.2 * y**2
        return bm.BilevelProblem(cp.Minimize(-2.5 * x - 0.5 * y), [], lower(g, [y >= -0.6, y <= 4.2], y))
    if name == "a concave objective":
        return bm.BilevelProblem(cp.Minimize(-(x**2) + y), [], lower((y - x) ** 2, [], y))
    if name == "an objective that overflows":
        return bm.BilevelProblem(cp.Maximize(cp.exp(x) + y), [x >= 0], lower((y - 1) ** 2, [], y))
    y = cp.Variable(2)  # an indifferent follower whose second entry nothing bounds
    return bm.BilevelProblem(
        cp.Minimize(x + y[1]), [x >= 0, x <= 1], lower((y[0] - x) ** 2 + 0 * y[1], [], y)
    )


@pytest.mark.parametrize(
    "name",
    [
        "an exponential and a free variable",
        "an exponential below",
        "a concave objective",
        "an objective that overflows",
        "an indifferent follower",
    ],
)
def test_problems_without_an_end_are_unbounded_and_soon(name):
    problem = endless(name)
    began = time.process_time()
    value = problem.solve()
    assert time.process_time() - began < QUICK
    assert problem.status == "unbounded" and value == -np.inf * problem.sign
    assert problem.value == value and all(v.value is None for v in problem.variables)


def test_a_far_optimum_is_not_taken_for_infinity():
    x, y = cp.Variable(), cp.Variable()
    problem = bm.BilevelProblem(cp.Minimize(-x + 1e-9 * x**2 + 0 * y), [], lower((y - x) ** 2, [], y))
    assert problem.solve() == pytest.approx(-2.5e8, rel=1e-5)
    bounded = bm.BilevelProblem(cp.Minimize(-x + 0 * y), [x >= 0, x <= 1e9], lower((y - x) ** 2, [], y))
    assert bounded.solve() == pytest.approx(-1e9, rel=1e-6)


# Models of the fuzzer that once were `stationary`, `feasible` or `failed` with a huge value.
UNBOUNDED_SEEDS = [119, 599, 1118, 1438]


@pytest.mark.parametrize("seed", UNBOUNDED_SEEDS)
def test_unbounded_models_of_the_fuzzer(seed):
    sys.path.append(str(Path(__file__).parent.parent / "fuzz"))
    from fuzz_models import draw_model
    from fuzz_states import state

    problem, _ = state(draw_model(seed))
    value = problem.solve(time_limit=60)
    assert problem.status == "unbounded" and value == -np.inf * problem.sign


def test_a_point_at_the_edge_of_lower_feasibility_gives_way_to_one_inside():
    sys.path.append(str(Path(__file__).parent.parent / "fuzz"))
    from fuzz_models import draw_model
    from fuzz_states import state

    problem, _ = state(draw_model(1984))
    assert problem.solve(time_limit=60) == pytest.approx(4.58906, abs=1e-3)
    assert problem.status.has_point


def test_failed_returns_no_value_and_sets_nothing(monkeypatch):
    from blomodel.certification import checks

    x, y = cp.Variable(), cp.Variable()
    problem = bm.BilevelProblem(
        cp.Minimize((x - 1) ** 2 + y), [0 <= x, x <= 2], lower((y - x) ** 2, [y <= 1], y)
    )
    monkeypatch.setattr(
        "blomodel.certification.certifying.objections", lambda *_, **__: ["refused by the test"]
    )
    assert checks.objections is not None
    value = problem.solve()
    assert problem.status == "failed" and value == np.inf and problem.value == np.inf
    assert x.value is None and y.value is None and problem.solution.values == {}
    assert "refused by the test" in str(problem.certificate)


# Parameters that change curvature


def curved_below():
    a, x, y = cp.Parameter(), cp.Variable(), cp.Variable()
    below = lower(a * (y - x) ** 2, [y >= -1, y <= 2], y)
    return a, bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [x >= 0, x <= 1], below)


def curved_above():
    a, x, y = cp.Parameter(), cp.Variable(), cp.Variable()
    f = a * (x - 0.3) ** 2 + 0.1 * x * y
    return a, bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1], lower((y - x) ** 2, [y <= 0.5], y))


def in_units():
    a, x, y = cp.Parameter(), cp.Variable(), cp.Variable()
    below = lower(a**5 * (y - 2 * x) ** 2, [y >= -1, y <= 2], y)
    return a, bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [x >= 0, x <= 1], below)


@pytest.mark.parametrize(
    ("make", "values"),
    [(curved_below, (1.0, -1.0)), (curved_above, (1.0, -1.0)), (in_units, (1.0, 1e-2))],
)
def test_answers_do_not_depend_on_history(make, values):
    fresh = {}
    for value in values:
        a, problem = make()
        a.value = value
        fresh[value] = problem.solve(), str(problem.status)
    for order in (values, values[::-1]):
        a, problem = make()
        for value in (*order, *order):
            a.value = value
            found = problem.solve(warm_start=False), str(problem.status)
            assert found[0] == pytest.approx(fresh[value][0], abs=1e-9) and found[1] == fresh[value][1]
            assert problem.explain()  # the plan is that of the present value


def test_a_parameter_that_changes_nothing_keeps_what_is_compiled():
    a, problem = curved_below()
    a.value = 1.0
    problem.solve()
    model = problem.model
    a.value = 2.0
    problem.solve()
    assert problem.model is model


@pytest.mark.parametrize("method", ["grid-search", "random-search"])
@pytest.mark.parametrize("count", [1, 7, 60])
def test_points_of_a_sample_count_as_iterations(method, count):
    x, y = cp.Variable(), cp.Variable()
    problem = bm.BilevelProblem(
        cp.Minimize((x - 1) ** 2 + y), [0 <= x, x <= 2], lower((y - x) ** 2, [], y)
    )
    problem.solve(method, max_iterations=count)
    assert problem.solution.evaluations == problem.solution.iterations == count


# The end of a search where the certificate still saw f fall


def test_answers_that_are_not_left_while_f_falls():
    x, y = cp.Variable(2), cp.Variable(2)
    g = cp.sum(cp.logistic(2 * y)) - x[0] * y[0] + 0.2 * cp.sum_squares(y)
    f = 0.67 * x[0] - 0.77 * x[1] - 0.58 * y[0] + 0.78 * y[1] + 2
    below = lower(g, [-2 * y[0] + 2 * y[1] <= 1.22], y)
    first = bm.BilevelProblem(cp.Minimize(f), [x >= [-2.3, -2], x <= [2.9, 0]], below)
    x = cp.Variable()
    g = cp.square(y[0] + 3 * x - 2.24) + cp.square(y[1] + 1.86 * x)
    rows = [
        0.5 * y[0] - 0.5 * y[1] - 0.63 * x == -0.718113265886912,
        y[1] - 1.14 * x <= -0.88,
    ]
    f = -x * y[0] + x - 1.5 * y[0] + 1.5 * y[1] - 1.67
    second = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 3.3], lower(g, rows, y))
    g = cp.norm(y - cp.hstack([2.5 * x, -x])) + 0.2 * cp.sum_squares(y)
    f = cp.nlp.sin(2 * x) - 0.5 * x - 1.5 * y[0] + 3 * y[1] - 1.78
    third = bm.BilevelProblem(cp.Minimize(f), [x >= -2.1, x <= -0.5], lower(g, [], y))
    for problem, truth in ((first, 0.295159), (second, 0.402164), (third, 1.003529)):
        assert problem.solve() == pytest.approx(truth, abs=1e-4)
