"""Reformulations as objects: formulas, requirements, exactness, and functions against other means."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from reformulation_problems import coupled_example, tracking

import blomodel as bm
from blomodel.errors import DataError, ReformulationError

NAMES = ("value-function", "value-function-reduced", "moreau", "stationarity", "kkt", "strong-duality")


def difference(function, point, step=1e-5):
    """Central differences in every entry of a vector."""
    point = np.asarray(point, dtype=float)
    return np.array(
        [
            (function(point + step * way) - function(point - step * way)) / (2 * step)
            for way in np.eye(len(point))
        ]
    )


def nonconvex():
    """sin(y) + x y has many stationary points."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(
        cp.Minimize(cp.nlp.sin(3 * y) + x * y + y**2 / 10), [y >= -3, y <= 3], variables=[y]
    )
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [x >= -1, x <= 1], lower), x, y


@pytest.mark.parametrize("name", NAMES)
def test_every_form_writes_itself_down(name):
    problem, _, _ = tracking(rows=name != "stationarity")
    form = problem.reformulate(name)
    assert form.name == name
    assert form.exactness in ("equivalent", "relaxation", "approximation") and len(form.reason) > 20
    assert form.requires and all(item.evidence for item in form.requires)
    for part in ("exp(x[0])", "minimise over x"):  # the problem's own functions
        assert part in form.text
    assert r"e^{x_{0}}" in form.latex and r"\min" in form.latex
    assert form.latex.count("{") == form.latex.count("}")
    assert form.latex.count(r"\left") == form.latex.count(r"\right")
    for word in (form.exactness, form.requires[0].statement, "Functions:", form.abstract_text):
        assert word in str(form)
    assert form._repr_latex_().startswith("$$") and form.latex in form._repr_latex_()
    assert form.exactness in form._repr_html_() and "<li>" in form._repr_html_()
    assert all(function.__doc__ for function in form.functions.values())


def test_unknown_names_are_told_the_nearest():
    problem, _, _ = tracking()
    with pytest.raises(ReformulationError, match="did you mean 'moreau'"):
        problem.reformulate("moraeu")


# -- value function --------------------------------------------------------------------------


def test_the_value_function_of_example_4():
    """The answer is y = x for x >= 0, so v(x) = x^2 with slope 2 x (through the multiplier)."""
    problem, _, _ = coupled_example()
    functions = problem.reformulate("value-function").functions
    for x in (0.3, 1.7):
        assert functions.value(x) == pytest.approx(x**2, abs=1e-6)
        assert functions.value_gradient(x) == pytest.approx([2 * x], abs=1e-4)
    assert functions.gap(1.0, 0.5) == pytest.approx((0.5 - 2) ** 2 - 1, abs=1e-6)
    value = functions.objective(1.0, 0.5)
    assert functions.penalty(1.0, 0.5, 10.0) == pytest.approx(value + 10 * 1.25, abs=1e-5)


def test_value_function_gradients():
    problem, _, _ = tracking()
    functions = problem.reformulate("value-function").functions
    z = np.array([0.2, -0.4, 0.3, 0.1])
    slope = functions.penalty_gradient(z[:2], z[2:], 5.0)
    other = difference(lambda w: functions.penalty(w[:2], w[2:], 5.0), z)
    np.testing.assert_allclose(slope, other, atol=1e-4)


def test_the_value_function_of_a_nonconvex_lower_level():
    problem, _, _ = nonconvex()
    form = problem.reformulate("value-function")
    assert form.exactness == "equivalent" and "searches" in form.requires[0].evidence
    grid = np.linspace(-3, 3, 200001)
    for x in (-0.7, 0.4):
        lowest = np.min(np.sin(3 * grid) + x * grid + grid**2 / 10)
        assert form.functions.value(x) == pytest.approx(lowest, abs=1e-6)
    slope = difference(lambda w: form.functions.value(w[0]), [0.4])
    np.testing.assert_allclose(form.functions.value_gradient(0.4), slope, atol=1e-4)


def test_the_reduced_penalty():
    problem, _, _ = coupled_example()
    form = problem.reformulate("value-function-reduced")
    assert form.exactness == "approximation"
    x, gamma = 0.8, 10.0
    grid = np.linspace(0, x, 200001)
    f = [form.functions.objective(x, y) for y in grid[::20000]]
    both = np.exp(2 - grid) / (2 + np.cos(4 * x)) + gamma * (grid - 2 * x) ** 2
    rest = np.log((4 * x - 2) ** 2 + 1) / 2 + x**2
    np.testing.assert_allclose(f, np.exp(2 - grid[::20000]) / (2 + np.cos(4 * x)) + rest, rtol=1e-12)
    assert form.functions.penalty(x, gamma) == pytest.approx(both.min() + rest - gamma * x**2, abs=1e-5)
    slope = difference(lambda w: form.functions.penalty(w[0], gamma), [x])
    np.testing.assert_allclose(form.functions.penalty_gradient(x, gamma), slope, atol=1e-3)
    # It never exceeds the bilevel value, and approaches it.
    exact = form.functions.objective(x, x)
    assert form.functions.penalty(x, 1.0) <= exact + 1e-6


def test_the_reduced_penalty_needs_convexity():
    problem, _, _ = nonconvex()
    with pytest.raises(ReformulationError, match="convex"):
        problem.reformulate("value-function-reduced")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    wave = bm.BilevelProblem(cp.Minimize(cp.nlp.sin(5 * y) + x**2), [], lower)
    with pytest.raises(ReformulationError, match="'value-function' and 'kkt' do not need this."):
        wave.reformulate("value-function-reduced")


# -- Moreau envelope -------------------------------------------------------------------------


def test_the_moreau_envelope_against_a_direct_minimisation():
    problem, _, _ = tracking()
    functions = problem.reformulate("moreau").functions
    x, y, gamma = np.array([0.3, -0.2]), np.array([0.9, -0.5]), 0.7
    theta = cp.Variable(2)
    g = cp.quad_form(theta, np.array([[2.0, 0.5], [0.5, 1.0]])) / 2 - x @ theta + np.exp(0.3) * theta[1]
    direct = cp.Problem(
        cp.Minimize(g + cp.sum_squares(theta - y) / (2 * gamma)),
        [cp.sum(theta) <= 1 + x[1], theta >= -2],
    )
    direct.solve(solver="CLARABEL")
    assert functions.envelope(x, y, gamma) == pytest.approx(direct.value, abs=1e-6)
    np.testing.assert_allclose(functions.proximal_point(x, y, gamma), theta.value, atol=1e-5)
    z = np.concatenate([x, y])
    slope = difference(lambda w: functions.penalty(w[:2], w[2:], gamma, 3.0), z)
    np.testing.assert_allclose(functions.penalty_gradient(x, y, gamma, 3.0), slope, atol=1e-4)


def test_the_moreau_envelope_touches_exactly_at_the_answer():
    problem, _, _ = coupled_example()
    form = problem.reformulate("moreau")
    assert form.exactness == "equivalent"
    assert form.functions.gap(1.0, 1.0, 0.5) == pytest.approx(0.0, abs=1e-6)
    assert form.functions.gap(1.0, 0.4, 0.5) > 0.1


def test_the_moreau_envelope_of_a_nonconvex_lower_level():
    problem, _, _ = nonconvex()
    form = problem.reformulate("moreau")
    assert form.exactness == "relaxation"
    x, y, gamma = 0.3, 0.8, 0.05  # below the curvature's inverse, 1 / 9
    theta = np.linspace(-3, 3, 400001)
    lowest = np.min(np.sin(3 * theta) + x * theta + theta**2 / 10 + (theta - y) ** 2 / (2 * gamma))
    assert form.functions.envelope(x, y, gamma) == pytest.approx(lowest, abs=1e-7)


# -- stationarity and KKT --------------------------------------------------------------------


def test_stationarity_functions():
    problem, _, _ = tracking(rows=False)
    form = problem.reformulate("stationarity")
    x, y = np.array([0.3, -0.2]), np.array([0.9, -0.5])
    expected = np.array([[2.0, 0.5], [0.5, 1.0]]) @ y - x + [0, np.exp(0.3)]
    np.testing.assert_allclose(form.functions.gradient(x, y), expected)
    assert form.functions.residual(x, y) == pytest.approx(expected @ expected)
    slope = difference(lambda w: form.functions.residual(w[:2], w[2:]), np.concatenate([x, y]))
    np.testing.assert_allclose(form.functions.residual_gradient(x, y), slope, atol=1e-6)
    assert form.exactness == "equivalent" and form.problem.is_dnlp()


def test_stationarity_requirements():
    problem, _, _ = tracking()
    with pytest.raises(ReformulationError, match="unconstrained.*'kkt'"):
        problem.reformulate("stationarity")
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y) + x * cp.norm1(y)), [], variables=[y])
    kinked = bm.BilevelProblem(cp.Minimize(cp.sum(y) + x), [], lower)
    with pytest.raises(ReformulationError, match="kinks"):
        kinked.reformulate("stationarity")


def test_kkt_functions_vanish_at_the_answer():
    problem, _, _ = coupled_example()
    functions = problem.reformulate("strong-duality").functions
    multipliers = [2 * 0.5, 0.0, 0.0]  # grad = 2 (y - 2x) + lambda at y = x = 1/2
    np.testing.assert_allclose(functions.stationarity(0.5, 0.5, multipliers), [0], atol=1e-12)
    np.testing.assert_allclose(functions.inequalities(0.5, 0.5), [0, -0.5, -2.5], atol=1e-12)
    assert functions.duality_gap(0.5, 0.5, multipliers) == pytest.approx(0, abs=1e-12)
    # Away from the answer the gap is that of the values: g = 0.81 against d = v = 0.25.
    off = [2 * (1.0 - 0.1), 0.0, 0.0]
    assert functions.duality_gap(0.5, 0.1, off) == pytest.approx(1.8 * 0.4)
    assert len(functions.equalities(0.5, 0.5)) == 0


def test_a_kkt_point_of_a_nonconvex_level_is_a_relaxation():
    problem, _, _ = nonconvex()
    form = problem.reformulate("kkt")
    assert form.exactness == "relaxation" and "not convex" in form.reason
    with pytest.raises(ReformulationError, match="linear or convex quadratic.*nonconvex"):
        problem.reformulate("strong-duality")


# -- arguments -------------------------------------------------------------------------------


def test_points_may_be_numbers_arrays_or_one_array_for_each_variable():
    x, u = cp.Variable(name="x"), cp.Variable(2, name="u")
    y = cp.Variable((2, 2), name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y) + cp.sum(u) + x), [x >= 0, u >= 0], lower)
    objective = problem.reformulate("value-function").functions.objective
    below = np.array([[1.0, 2.0], [3.0, 4.0]])
    order = [variable.name() for variable in problem.levels.upper]
    upper = {"x": 0.5, "u": np.array([1.0, 2.0])}
    flat = np.concatenate([np.atleast_1d(upper[name]) for name in order])
    for point in (flat, [upper[name] for name in order]):
        assert objective(point, below) == pytest.approx(13.5)
    with pytest.raises(DataError, match="upper variables have 3 entries, but 2 numbers came"):
        objective([1.0, 2.0], below)
    functions = problem.reformulate("value-function").functions
    with pytest.raises(AttributeError, match="there are objective"):
        _ = functions.nothing
    assert "objective" in dir(functions) and len(functions) == len(list(functions))
