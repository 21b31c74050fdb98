"""Lower levels that are not convex: problems of Mitsos and Barton (2006)."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.value_cuts import ValueCutRelaxation


def build(name):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    box, unit = [x >= -1, x <= 1], [y >= -1, y <= 1]
    problems = {
        # name: f, upper constraints, g, lower constraints
        "3.13": (x - y, box, x * y**2 / 2 - x**3 * y, unit),
        "3.14": ((x - 0.25) ** 2 + y**2, box, y**3 / 3 - x * y, unit),
        "3.16": (2 * x + y, box, -x * y**2 / 2 - y**4 / 4, unit),
        "3.21": (
            (x + 0.6) ** 2 + y**2,
            box,
            y**4 + 4 * (1 - x) / 30 * y**3 + (0.16 * x - 0.02 * x**2 - 0.4) * y**2
            + (0.004 * x**3 - 0.036 * x**2 + 0.08 * x) * y,
            unit,
        ),
        "3.22": (
            (x + 0.6) ** 2 + y**2,
            box,
            y**4 + 4 * (1 - x) / 30 * y**3 + (0.16 * x - 0.02 * x**2 - 0.4) * y**2
            + (0.004 * x**3 - 0.036 * x**2 + 0.08 * x) * y,
            [*unit, 0.01 * (1 + x**2) <= y**2],
        ),
    }  # fmt: skip
    f, upper, g, below = problems[name]
    lower = bm.Lower(cp.Minimize(g), below, variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), upper, lower), x, y


@pytest.mark.parametrize(
    ("name", "value"), [("3.13", -1.0), ("3.14", 0.25), ("3.16", -2.0), ("3.21", 0.2095)]
)
def test_published_values_are_reached(name, value):
    problem, _, _ = build(name)
    problem.solve(method="value-cuts")
    assert problem.certificate.accepted
    assert problem.value == pytest.approx(value, abs=2e-3)
    # Without a bound nothing may be called optimal, even where the lower answer is proven.
    assert "optimal" not in problem.status
    assert problem.certificate.bound <= problem.value + 1e-9


def test_local_searches_prove_nothing_about_the_lower_level(monkeypatch):
    monkeypatch.setattr("blomodel.model.global_lower.is_installed", lambda: False)
    problem, _, _ = build("3.14")
    problem.solve(method="value-cuts")
    assert "optimal" not in problem.status
    assert "local searches" in str(problem.certificate)


def test_a_kkt_point_of_the_lower_level_is_not_enough():
    """At x = 0.25 the cube is stationary at y = +-1/2, but y = -1/2 is its maximum."""
    problem, x, y = build("3.14")
    problem.solve(method="value-cuts")
    grid = np.linspace(-1, 1, 20001)
    lowest = np.min(grid**3 / 3 - float(x.value) * grid)
    assert float(y.value) ** 3 / 3 - float(x.value) * float(y.value) <= lowest + 1e-6


def test_derivatives_of_the_relaxation():
    problem, _, _ = build("3.22")
    model = problem.model
    relaxation = ValueCutRelaxation(model, np.empty(0), has_kkt=True)
    # At x = 0.3 the second cut point violates the lower row, so that its fade is active.
    program = relaxation.program([np.array([0.4]), np.array([0.05])], 1e-2)
    z = np.concatenate([[0.3, -0.6], np.linspace(0.1, 0.9, relaxation.n_multipliers)])
    for function, derivative in (
        (program.inequalities, program.inequalities_jacobian),
        (program.equalities, program.equalities_jacobian),
        (lambda z: np.array([program.value(z)]), lambda z: program.gradient(z)[None, :]),
    ):
        exact = derivative(z)
        for k, direction in enumerate(np.eye(len(z))):
            step = 1e-6 * direction
            difference = (function(z + step) - function(z - step)) / 2e-6
            np.testing.assert_allclose(exact[:, k], difference, rtol=1e-5, atol=1e-5)


def test_relaxation_at_a_bilevel_point_is_feasible():
    """Cuts and KKT conditions cut off no bilevel point."""
    problem, _, _ = build("3.21")
    model = problem.model
    grid = np.linspace(-1, 1, 200001)
    for value in (-0.5, 0.2, 0.9):
        x = np.array([value])
        g = np.array([float(model.g(x, np.array([y]), np.empty(0))[0]) for y in grid[::200]])
        y = np.array([grid[::200][np.argmin(g)]])
        relaxation = ValueCutRelaxation(model, np.empty(0), has_kkt=False)
        cuts = [np.array([c]) for c in (-0.7, 0.0, 0.6)]
        program = relaxation.program(cuts, 0.0)
        assert program.violation(np.concatenate([x, y])) <= 1e-9
