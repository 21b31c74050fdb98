"""Every registered method keeps the registry's promises."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import method_classes

CLASSES = method_classes()
METHODS = list(CLASSES)


def tracking_problem(name):
    """y follows x; the upper level wants x near 1 and y near 2: x = y = 3/2, with f = 1/2.

    Methods that take a coupled row below get one, which is not active there.
    """
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    takes_row = Capability.COUPLED_LOWER in CLASSES[name].capabilities
    rows = [y <= 1 + x / 2] if takes_row else []
    lower = bm.Lower(cp.Minimize((y - x) ** 2), rows, variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 2) ** 2)
    return bm.BilevelProblem(upper, [-3 <= x, x <= 4], lower), x, y


# Methods for another problem, of which the last x is not that of the bilevel one.
ANOTHER = {"alright": 4 / 3}  # the least (f + g) / 2, with x and y for both levels


def steps_along_f_alone(name):
    """Whether a method assumes that f holds x itself and follows that part of its slope only."""
    return Assumption.DIRECT_DEPENDENCE in CLASSES[name].assumptions


def solve(name, **limits):
    if not all(extra.is_installed for extra in CLASSES[name].packages):
        pytest.skip("a package of the method is not installed")
    problem, x, y = tracking_problem(name)
    if steps_along_f_alone(name):  # f is not flat here, which it must say
        with pytest.warns(UserWarning, match="flat"):
            problem.solve(method=name, **limits)
    else:
        problem.solve(method=name, **limits)
    return problem, x, y


@cache
def solved(name):
    """One solution by each method, which several tests look at and none changes."""
    return solve(name)


def test_the_promised_methods_exist():
    assert {"auto", "blocc", "reduced-penalty"} <= set(METHODS)


@pytest.mark.parametrize("info", bm.methods(), ids=lambda info: info.name)
def test_entries_are_complete(info):
    for text in (info.summary, info.assumes, info.costs, info.claims, info.reference, info.takes):
        assert len(text) > 10
    for name, (_, meaning) in info.settings.items():
        assert name.isidentifier()
        assert meaning


@pytest.mark.parametrize("name", METHODS)
def test_capabilities_imply_those_that_they_contain(name):
    capabilities = CLASSES[name].capabilities
    for larger, smaller in (
        (Capability.KINKS, Capability.PROX_TERMS),
        (Capability.COUPLED_LOWER, Capability.LOWER_CONSTRAINTS),
        (Capability.MATRIX_INEQUALITIES, Capability.LOWER_CONSTRAINTS),
    ):
        assert larger not in capabilities or smaller in capabilities


@pytest.mark.parametrize("name", METHODS)
def test_solves_without_any_setting(name):
    problem, x, y = solved(name)
    # Without flatness, steps along grad_x f alone end where that vanishes, at x = 1.
    target = 1.0 if steps_along_f_alone(name) else ANOTHER.get(name, 1.5)
    # Those that stop at a finite weight claim no more than feasibility; blocc's is 10, which costs 1/42.
    accuracy = {"optimal": 1e-6, "locally_optimal": 1e-4}.get(str(problem.status), 0.03)
    assert x.value == pytest.approx(target, abs=accuracy)
    assert problem.certificate.accepted
    assert problem.status.has_point
    assert abs(float(y.value) - float(x.value)) < 1e-3


@pytest.mark.parametrize("name", METHODS)
def test_evaluations_are_counted(name):
    """At least one gradient, lower solve or program for each iteration."""
    solution = solved(name)[0].solution
    assert solution.evaluations >= solution.iterations > 0


@pytest.mark.parametrize("name", METHODS)
def test_same_call_same_answer(name):
    assert float(solve(name)[1].value) == float(solved(name)[1].value)


@pytest.mark.parametrize("name", METHODS)
def test_time_limit_is_respected_and_a_point_is_kept(name):
    solved(name)  # compiled now
    problem, x, _ = solve(name, time_limit=0.5)
    assert problem.solution.solve_time < 2.0
    assert np.isfinite(x.value)
