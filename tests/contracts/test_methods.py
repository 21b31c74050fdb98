"""Every registered method keeps the registry's promises."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.solvers.nlp import installed_solvers

METHODS = [info.name for info in bm.methods()]


# Methods of the papers that take no constraints on y, or none that hold x.
TAKES_COUPLED_ROWS = {
    "auto", "bic-gaffa", "blocc", "gam", "grid-search", "kkt", "kkt-mip", "lv-hba",
    "random-search", "reduced-penalty", "value-cuts",
}  # fmt: skip


def tracking_problem(name):
    """y follows x; the upper level wants x near 1 and y near 2: x = y = 3/2, with f = 1/2.

    The coupled row of the lower level is not active there.
    """
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y <= 1 + x / 2] if name in TAKES_COUPLED_ROWS else []
    lower = bm.Lower(cp.Minimize((y - x) ** 2), rows, variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 2) ** 2)
    return bm.BilevelProblem(upper, [-3 <= x, x <= 4], lower), x, y


def solve(name, **limits):
    if name == "kkt" and not installed_solvers():
        pytest.skip("comes with the extra blomodel[nlp]")
    problem, x, y = tracking_problem(name)
    if name == "pbgd-free":  # f is not flat here, which it must say
        with pytest.warns(UserWarning, match="flat"):
            problem.solve(method=name, **limits)
    else:
        problem.solve(method=name, **limits)
    return problem, x, y


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
    problem, x, y = solve(name)
    # Without flatness pbgd-free steps along grad_x f alone, which vanishes at x = 1.
    target = 1.0 if name == "pbgd-free" else 1.5
    accuracy = 2e-3 if name == "auto" else 0.1  # the others use a finite penalty weight or grid
    assert x.value == pytest.approx(target, abs=accuracy)
    assert problem.certificate.accepted
    assert problem.status.has_point
    assert abs(float(y.value) - float(x.value)) < 1e-3


@pytest.mark.parametrize("name", METHODS)
def test_gradient_evaluations_are_counted(name):
    """At least one for each iteration of the methods that iterate."""
    solution = solve(name)[0].solution
    assert solution.evaluations > 0
    if name not in {"value-cuts", "reduced-penalty", "auto", "blocc"}:
        assert solution.evaluations >= solution.iterations


# Gradients in an iteration with 5 inner steps, counted in the papers' formulas.
GRADIENTS = [
    ("alt-pbgd", {}, 5 + 5 * 2 + 3),  # g_y; f_y, g_y; f_x and g_x at two points
    ("f2sa", {}, 5 + 5 * 2 + 3),
    ("jnt-pbgd", {}, 5 + 3 + 2),  # g_y; f_x and g_x at two points; f_y, g_y
    ("v-pbgd", {}, 5 + 3 + 2),
    ("pbgd", {"order": "jacobi"}, 5 + 3 + 2),
    ("pbgd", {"order": "gauss-seidel"}, 5 + 5 * 2 + 3),
    ("pbgd-free", {}, 5 * 2 + 1),  # f_y, g_y; f_x
]


@pytest.mark.parametrize(("name", "settings", "per_iteration"), GRADIENTS)
def test_every_gradient_of_the_papers_formulas_is_counted(name, settings, per_iteration):
    solution = solve(name, gamma=10.0, inner_steps=5, max_steps=7, **settings)[0].solution
    assert 0 < solution.iterations <= 7
    assert solution.evaluations == solution.iterations * per_iteration


def test_meha_takes_six_gradients_in_an_iteration():
    """g_y for theta; f_x and g_x at two points for x; f_y and g_y for y."""
    solution = solve("meha", c=10.0, max_steps=7)[0].solution
    assert 0 < solution.iterations <= 7
    assert solution.evaluations == solution.iterations * 6


@pytest.mark.parametrize("name", METHODS)
def test_same_call_same_answer(name):
    answers = [float(solve(name)[1].value) for _ in range(2)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", METHODS)
def test_time_limit_is_respected_and_a_point_is_kept(name):
    solve(name)  # compiled now
    problem, x, _ = solve(name, time_limit=0.5)
    assert problem.solution.solve_time < 2.0
    assert x.value is None or np.isfinite(x.value)
