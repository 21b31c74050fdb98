"""Every registered method keeps the registry's promises."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

METHODS = [info.name for info in bm.methods()]


def tracking_problem():
    """y follows x up to 1; the upper level wants both near 2: x = 2, y = 1, or x = y in between."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1 + x / 2], variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 2) ** 2)
    return bm.BilevelProblem(upper, [-3 <= x, x <= 1.5], lower), x, y


def test_the_promised_methods_exist():
    assert {"auto", "blocc", "reduced-penalty"} <= set(METHODS)


@pytest.mark.parametrize("info", bm.methods(), ids=lambda info: info.name)
def test_entries_are_complete(info):
    for text in (info.summary, info.assumes, info.claims, info.reference):
        assert len(text) > 10
    for name, (_, meaning) in info.settings.items():
        assert name.isidentifier()
        assert meaning


@pytest.mark.parametrize("name", METHODS)
def test_solves_without_any_setting(name):
    problem, x, y = tracking_problem()
    problem.solve(method=name)
    # On y = x: minimise (x-1)^2 + (x-2)^2 over x <= 1.5, so x = y = 1.5 with f = 0.5.
    accuracy = 2e-3 if name == "auto" else 0.1  # the others use a finite penalty weight
    assert x.value == pytest.approx(1.5, abs=accuracy)
    assert problem.certificate.accepted
    assert problem.status.has_point
    assert abs(float(y.value) - float(x.value)) < 1e-3


@pytest.mark.parametrize("name", METHODS)
def test_same_call_same_answer(name):
    answers = []
    for _ in range(2):
        problem, x, _ = tracking_problem()
        problem.solve(method=name)
        answers.append(float(x.value))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", METHODS)
def test_time_limit_is_respected_and_a_point_is_kept(name):
    problem, x, _ = tracking_problem()
    problem.solve(method=name)  # compiled now
    problem.solve(method=name, time_limit=0.05)
    assert problem.solution.solve_time < 1.0
    assert x.value is None or np.isfinite(x.value)
