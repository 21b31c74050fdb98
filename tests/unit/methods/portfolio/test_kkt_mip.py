"""kkt-mip: known optima with bounds, proofs against brute force, limits, and what it refuses."""

from __future__ import annotations

import itertools
import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import ModelError


def bard_falk():
    """Bilevel LP of Bard and Falk (1982): optimum -3.25 at x = (2, 0), y = (1.5, 0)."""
    x, y = cp.Variable(2, name="x", nonneg=True), cp.Variable(2, name="y", nonneg=True)
    lower = bm.Lower(
        cp.Minimize(-4 * y[0] + y[1]),
        [-2 * x[0] + y[0] + y[1] * -1 <= -2.5, x[0] - 3 * x[1] + y[1] <= 2, x[0] + x[1] <= 2],
        variables=[y],
    )
    return bm.BilevelProblem(cp.Minimize(-2 * x[0] + x[1] + 0.5 * y[0]), [], lower), x, y


def random_problem(seed, *, is_linear, pairs=5):
    """Bounded x, a lower level with a bounded set that always holds a point."""
    draw = np.random.default_rng(seed)
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    rows = draw.standard_normal((pairs - 4, 2))
    constraints = [rows @ y <= 1 + 0.4 * draw.standard_normal((pairs - 4, 2)) @ x, -2 <= y, y <= 2]
    own = (draw.standard_normal((2, 2)) @ x + draw.standard_normal(2)) @ y
    wish = draw.standard_normal(4)
    if is_linear:
        upper = wish[:2] @ x + wish[2:] @ y
    else:
        own += cp.sum_squares(y) / 2
        upper = cp.sum_squares(x - 2 * wish[:2]) + cp.sum_squares(y - 2 * wish[2:])
    lower = bm.Lower(cp.Minimize(own), constraints, variables=[y])
    return bm.BilevelProblem(cp.Minimize(upper), [-1 <= x, x <= 1], lower), x, y


def every_piece(problem, x, y):
    """The least value over all pieces, each written out and solved by cvxpy with Clarabel."""
    rows, slopes, dual = [], 0, []
    for constraint in problem.lower.constraints:
        left = constraint.args[0] - constraint.args[1]
        pressure = cp.Variable(left.size, nonneg=True)
        for k in range(left.size):
            rows.append(left[k])
            dual.append(pressure[k])
            slope = np.array([float(d) for d in _slope(left[k], y)])
            slopes = slopes + pressure[k] * slope
    base = [_gradient_below(problem, x, y) + slopes == 0, *problem.constraints]
    best = np.inf
    for tight in itertools.product((True, False), repeat=len(rows)):
        sides = [row == 0 if is_tight else row <= 0 for row, is_tight in zip(rows, tight, strict=True)]
        sides += [d == 0 for d, is_tight in zip(dual, tight, strict=True) if not is_tight]
        piece = cp.Problem(problem.objective, base + sides)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                piece.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            continue
        if piece.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            best = min(best, piece.value)
    return best


def _slope(affine, y):
    saved = y.value
    values = []
    for point in (np.zeros(2), *np.eye(2)):
        y.value = point
        for leaf in affine.variables():
            if leaf is not y:
                leaf.value = np.zeros(leaf.shape)
        values.append(float(affine.value))
    y.value = saved
    return [values[1] - values[0], values[2] - values[0]]


def _gradient_below(problem, x, y):
    """grad_y of the lower objective, affine in (x, y), from its values at a few points."""

    def value(at_x, at_y):
        x.value, y.value = at_x, at_y
        return float(problem.lower.objective.args[0].value)

    zero = np.zeros(2)
    start = value(zero, zero)
    parts = []
    for i, unit in enumerate(np.eye(2)):
        linear = (value(zero, unit) - value(zero, -unit)) / 2
        curved = value(zero, unit) + value(zero, -unit) - 2 * start
        mixed = [
            value(other, unit) - value(other, zero) - value(zero, unit) + start for other in np.eye(2)
        ]
        parts.append(linear + curved * y[i] + np.array(mixed) @ x)
    x.value = y.value = None
    return cp.hstack(parts)


def assert_proved(problem, value, near=2e-6):
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert problem.certificate.bound == pytest.approx(problem.value, rel=near, abs=near)
    sense = -1 if isinstance(problem.objective, cp.Maximize) else 1
    better = sense * (problem.value - problem.certificate.bound)  # than the point, by the bound
    assert better >= -1e-9 * (1 + abs(problem.value))
    source = problem.certificate.bound_source
    assert "branch and bound" in source or "formula" in source


def test_a_bilevel_lp_of_the_literature():
    problem, x, y = bard_falk()
    problem.solve(method="kkt-mip")
    assert_proved(problem, -3.25)
    assert x.value == pytest.approx([2, 0], abs=1e-6)
    assert y.value == pytest.approx([1.5, 0], abs=1e-6)


@pytest.mark.parametrize("is_linear", [True, False], ids=["LP", "QP"])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_piece_holds_a_better_point(seed, is_linear):
    problem, x, y = random_problem(seed, is_linear=is_linear)
    expected = every_piece(problem, x, y)
    problem.solve(method="kkt-mip")
    assert_proved(problem, expected)


def test_the_sense_of_both_levels():
    problem, *_ = bard_falk()
    lower = bm.Lower(
        cp.Maximize(-problem.lower.objective.args[0]),
        problem.lower.constraints,
        variables=list(problem.levels.lower),
    )
    turned = bm.BilevelProblem(cp.Maximize(-problem.objective.args[0]), [], lower)
    turned.solve(method="kkt-mip")
    assert turned.status == "optimal"
    assert turned.value == pytest.approx(3.25, abs=1e-6)
    assert turned.certificate.bound == pytest.approx(3.25, abs=1e-6)


def test_prices_are_convex_by_duality():
    """A toll x on one of two roads of cost 1 and 4: the most that can be asked is 3."""
    x, y = cp.Variable(name="toll", nonneg=True), cp.Variable(2, name="flow", nonneg=True)
    lower = bm.Lower(cp.Minimize((1 + x) * y[0] + 4 * y[1]), [cp.sum(y) == 1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x * y[0]), [x <= 10], lower)
    problem.solve(method="kkt-mip")
    assert_proved(problem, 3.0)


def cournot(bound=None):
    """A leader and a follower with demand 13 - total and unit cost 1: x = 6, y = 3, profit 18."""
    x, y = cp.Variable(name="leader", nonneg=True), cp.Variable(name="follower", nonneg=True)
    lower = bm.Lower(cp.Maximize(12 * y - x * y - y**2), [y <= 20], variables=[y])
    rows = [] if bound is None else [x <= bound]
    return bm.BilevelProblem(cp.Maximize(12 * x - x * y - x**2), rows, lower), x, y


def test_an_upper_objective_that_is_convex_on_each_piece_only():
    problem, x, y = cournot()
    problem.solve(method="kkt-mip")
    assert_proved(problem, 18.0)
    assert float(x.value) == pytest.approx(6, abs=1e-4)


def falling_answer(objective, *rows):
    """The lower level minimises exp(x) y^2 / 2 - y over -5 <= y <= 5, so that y = exp(-x) for x > -1."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.exp(x) * cp.square(y) / 2 - y), [-5 <= y, y <= 5], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize(objective(x, y)), [-1 <= x, *(row(x) for row in rows)], lower
    )
    return problem, x, y


def test_nonlinear_terms_are_left_to_scip():
    problem, _, _ = falling_answer(lambda x, y: (y - 0.5) ** 2 + x / 10, lambda x: x <= 3)
    problem.solve(method="kkt-mip")
    grid = np.linspace(-1, 3, 400_001)
    assert_proved(problem, ((np.exp(-grid) - 0.5) ** 2 + grid / 10).min(), near=1e-5)
    assert "SCIP" in problem.certificate.bound_source


def test_nonlinear_terms_without_scip(monkeypatch):
    monkeypatch.setattr("blomodel.methods.portfolio.kkt_mip.is_installed", lambda: False)
    problem, _, _ = falling_answer(lambda x, y: (y - 0.5) ** 2 + x / 10, lambda x: x <= 3)
    problem.solve(method="kkt-mip")
    grid = np.linspace(-1, 3, 400_001)
    assert problem.value == pytest.approx(((np.exp(-grid) - 0.5) ** 2 + grid / 10).min(), abs=1e-5)
    assert problem.status in ("locally_optimal", "stationary")  # and nothing about better points


def test_pieces_bound_what_the_constraints_leave_open():
    """Zlobec (2001): stationarity has price * x >= 1, so that x >= 1 where the price is 1."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y", nonneg=True)
    lower = bm.Lower(cp.Maximize(cp.sum(y)), [y[0] + x * y[1] <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-y[0] / x), [], lower)
    problem.solve(method="kkt-mip")
    assert_proved(problem, -1.0, near=1e-5)


def test_boxes_without_any_point():
    problem, _, y = falling_answer(lambda x, y: x + y, lambda x: x <= 2, lambda x: x >= 0)
    wish = bm.BilevelProblem(problem.objective, [*problem.constraints, y >= 1.5], problem.lower)
    assert wish.solve(method="kkt-mip") == np.inf  # y = exp(-x) is at most 1
    assert wish.status == "infeasible"


def test_exponentials_that_scip_cannot_count_prove_nothing():
    """f falls without end, but exp(x) is beyond SCIP's infinity where x is 47."""
    problem, _, _ = falling_answer(lambda x, y: (y - 0.5) ** 2 - x / 10 + cp.nlp.cos(x))
    problem.solve(method="global", max_nodes=5)
    assert problem.status != "optimal" and problem.certificate.bound is None


def test_a_lower_level_without_linear_rows_is_refused():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(x * y[0]), [cp.norm(y) <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y[0]), [-1 <= x, x <= 1], lower)
    with pytest.raises(ModelError, match="kkt-mip needs a lower level that is an LP or a convex QP"):
        problem.solve(method="kkt-mip")


def test_a_limit_leaves_a_point_and_a_valid_bound():
    problem, x, y = random_problem(3, is_linear=True, pairs=30)
    problem.solve(method="kkt-mip")
    best = problem.value
    assert problem.status == "optimal"
    x.value = y.value = None
    problem.solve(method="kkt-mip", max_nodes=3)
    assert problem.certificate.accepted
    assert problem.certificate.bound <= best + 1e-7 <= problem.value + 2e-7


def test_no_point_on_any_piece():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y), [y >= x], variables=[y])  # y = x
    problem = bm.BilevelProblem(cp.Minimize(x), [-1 <= x, x <= 1, y >= x + 1], lower)
    assert problem.solve(method="kkt-mip") == np.inf
    assert problem.status == "infeasible"
