"""The problem with lower variables for its kinks: the same answers, and pieces to prove them by."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.transformations.kinks import without_kinks

RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((8, 4)), RANDOM.standard_normal(8)
C, D = RANDOM.standard_normal((6, 4)), RANDOM.standard_normal(6)


def build(penalty, constraints=lambda x, y: []):
    """Least squares with a penalty below, the same on other data above."""
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    g = 0.5 * cp.sum_squares(A @ y - B) + penalty(x, y)
    lower = bm.Lower(cp.Minimize(g), constraints(x, y), variables=[y])
    upper = cp.Minimize(cp.sum_squares(C @ y - D))
    return bm.BilevelProblem(upper, [x >= 0, x <= 2], lower), x, y


KINKS = {
    "weighted l1": lambda x, y: x @ cp.abs(y),
    "weights below the bars": lambda x, y: cp.norm1(cp.multiply(x, y)),
    "largest entry": lambda x, y: x[0] * cp.norm_inf(y),
    "maximum": lambda x, y: x[0] * cp.max(y) + cp.sum(cp.maximum(y, 0.1, -2 * y)),
    "differences": lambda x, y: x[0] * cp.tv(y),
    "huber": lambda x, y: x[0] * cp.sum(cp.abs(y)) + cp.sum(cp.huber(y, 0.2)),
    "nested": lambda x, y: x[0] * cp.maximum(cp.norm1(y[:2]), cp.abs(y[2])),
}


@pytest.mark.parametrize("name", list(KINKS))
def test_lower_answers_and_values_agree(name: str) -> None:
    problem, _, _ = build(KINKS[name])
    model, nothing = problem.model, np.zeros(0)
    equivalent = without_kinks(model)
    assert equivalent.model.y.size > 4 and equivalent.n_further == equivalent.model.y.size - 4
    for x in RANDOM.uniform(0.1, 2, (3, 4)):
        answer = equivalent.model.lower_program.solve(x, nothing)
        own = model.lower_program.solve(x, nothing)
        assert answer.value == pytest.approx(own.value, abs=1e-7)
        np.testing.assert_allclose(answer.y[:4], own.y, atol=1e-5)
        _, lifted = equivalent.forward(x, own.y, nothing)
        assert equivalent.model.g(x, lifted, nothing)[0] == pytest.approx(own.value, abs=1e-7)
        assert equivalent.model.lower_in.values(x, lifted, nothing).max() <= 1e-9
        back_x, back_y = equivalent.invert(x, lifted)
        np.testing.assert_array_equal(back_x, x)
        np.testing.assert_array_equal(back_y, own.y)


def test_smooth_and_conic_lower_levels_stay_as_they_are() -> None:
    for penalty in (lambda x, y: x @ y, lambda x, y: x[0] * cp.norm(y, 2) + cp.norm1(y)):
        model = build(penalty)[0].model
        equivalent = without_kinks(model)
        assert equivalent.is_same and equivalent.model is model and equivalent.n_further == 0
        x, y = RANDOM.random(4), RANDOM.random(4)
        for there in (equivalent.forward(x, y, np.zeros(0)), equivalent.invert(x, y)):
            np.testing.assert_array_equal(there, (x, y))


@pytest.mark.parametrize("name", ["weighted l1", "weights below the bars", "differences"])
@pytest.mark.parametrize("method", ["auto", "kkt-mip"])
def test_answer_is_proved_and_none_of_a_grid_is_better(name: str, method: str) -> None:
    problem, x, y = build(KINKS[name])
    problem.solve(method)
    assert problem.status == "optimal" and problem.certificate.stationarity <= 1e-6
    assert "further variables for kinks" in str(problem.explain())
    model, nothing = problem.model, np.zeros(0)
    for point in RANDOM.uniform(0, 2, (200, 4)):
        answer = model.lower_program.solve(point, nothing)
        assert model.f(point, answer.y, nothing)[0] >= problem.value - 1e-6


def test_neighbourhood_of_a_wrong_point_is_judged_by_its_pieces() -> None:
    """At x = 1, y lies on kinks; moving x improves f, and the certificate sees it."""
    problem, x, y = build(KINKS["weighted l1"])
    best = problem.solve()
    at = np.ones(4)
    answer = problem.model.lower_program.solve(at, np.zeros(0)).y
    certificate = bm.certify(problem, at, answer)
    assert certificate.accepted and certificate.objective > best + 1e-3
    assert certificate.claim == "feasible" and certificate.stationarity > 1e-3


def test_kinks_in_constraints_get_variables_too() -> None:
    problem, x, y = build(lambda x, y: 0, lambda x, y: [cp.norm1(y) <= x[0]])
    problem.solve()
    assert problem.status == "optimal"
    assert np.abs(y.value).sum() <= x.value[0] + 1e-6


def test_a_start_for_both_levels_is_kept() -> None:
    problem, x, y = build(KINKS["weighted l1"])
    x.value, y.value = np.full(4, 0.5), np.full(4, -0.25)
    problem.solve(time_limit=20)
    assert problem.status == "optimal"


UPPER_KINKS = {
    "absolute errors": lambda x, y: cp.norm1(C @ y - D) + 0.1 * cp.sum_squares(x),
    "largest error": lambda x, y: cp.max(cp.abs(C @ y - D)) + 0.3 * cp.norm1(x),
    "hinge": lambda x, y: cp.sum(cp.pos(C @ y - D)) + 0.1 * cp.sum_squares(x),
}


@pytest.mark.parametrize("sense", [cp.Minimize, cp.Maximize])
@pytest.mark.parametrize("name", list(UPPER_KINKS))
def test_kinks_of_the_upper_objective_are_solved_exactly(name: str, sense: type) -> None:
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    lower = bm.Lower(
        cp.Minimize(0.5 * cp.sum_squares(A @ y - B) - x @ y), [y <= 1, y >= -0.2], variables=[y]
    )
    f, sign = UPPER_KINKS[name](x, y), 1.0 if sense is cp.Minimize else -1.0
    problem = bm.BilevelProblem(sense(sign * f), [x >= -1, x <= 1], lower)
    problem.solve()
    assert problem.status == "optimal" and problem.certificate.stationarity <= 1e-6
    model, nothing = problem.model, np.zeros(0)
    equivalent = without_kinks(model)
    lifted = equivalent.forward(x.value, y.value, nothing)
    assert equivalent.model.f(*lifted, nothing)[0] == pytest.approx(f.value, abs=1e-9)
    for point in RANDOM.uniform(-1, 1, (200, 4)):
        answer = model.lower_program.solve(point, nothing)
        assert model.f(point, answer.y, nothing)[0] >= f.value - 1e-6


def test_a_concave_kink_above_keeps_its_form() -> None:
    """-|y| must not be replaced by its epigraph, which would have no lower end."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(x) - 3 * cp.abs(y)), [x >= -1, x <= 2], lower)
    problem.solve()
    assert x.value == pytest.approx(1.5, abs=1e-4) and problem.value == pytest.approx(-2.25, abs=1e-6)
