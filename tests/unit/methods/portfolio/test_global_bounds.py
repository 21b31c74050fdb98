"""Global bounds as a member of auto: proofs, its place, its absence, and limits of time."""

import time

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio.global_bounds import GlobalBounds, GlobalBoundsAfterSearch, formula_size
from blomodel.methods.portfolio.step import Outlook
from blomodel.methods.run.run import Run
from blomodel.methods.search.bounding import Bounding
from tests.support.small_problems import brute_force, random_problem

pytest.importorskip("pyscipopt")


def price(seller=8.0):
    """A price for a buyer with decreasing marginal utility."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(x * y - cp.log(1 + y)), [y >= 0, y <= seller], variables=[y])
    return bm.BilevelProblem(cp.Maximize((x - 0.2) * y), [0.05 <= x, x <= 2], lower), x, y


def waves():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(
        cp.Minimize(cp.nlp.sin(5 * y) + 0.5 * (y - x) ** 2), [-2 <= y, y <= 2], variables=[y]
    )
    return (
        bm.BilevelProblem(cp.Minimize((x - 0.3) ** 2 + (y + 0.4) ** 2), [-1 <= x, x <= 1], lower),
        x,
        y,
    )


def test_a_convex_problem_with_a_nonconvex_phi_is_proven():
    problem, x, _ = price()
    value = problem.solve()
    prices = np.linspace(0.05, 2, 1_000_001)
    revenue = (prices - 0.2) * np.clip(1 / prices - 1, 0, 8)
    assert problem.status == "optimal"
    assert value == pytest.approx(revenue.max(), rel=1e-6)
    assert problem.certificate.bound >= value


def test_a_lower_level_that_is_not_convex_is_proven():
    problem, x, y = waves()
    value = problem.solve()
    grid_x, grid_y = np.linspace(-1, 1, 2001), np.linspace(-2, 2, 8001)
    g = np.sin(5 * grid_y) + 0.5 * (grid_y - grid_x[:, None]) ** 2
    best = ((grid_x - 0.3) ** 2 + (grid_y[g.argmin(axis=1)] + 0.4) ** 2).min()
    assert problem.status == "optimal"
    assert value == pytest.approx(best, abs=2e-3)
    assert problem.certificate.checked_by == "SCIP's branch and bound"


def test_without_scip_the_status_is_weaker(monkeypatch):
    for where in ("methods.portfolio.global_bounds", "model.global_lower"):
        monkeypatch.setattr(f"blomodel.{where}.is_installed", lambda: False)
    problem, _, _ = waves()
    problem.solve()
    assert problem.status in ("feasible", "stationary")
    assert "SCIP is not installed" in str(problem.plan())


def test_the_plan_names_it():
    names = [step.name for step in price()[0].plan().steps]
    assert names.index("descent on phi") < names.index("global bounds")


def test_the_size_of_formulas_counts_products():
    x, y = cp.Variable(3, name="x"), cp.Variable(40, name="y")
    dense = np.ones((60, 40))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(dense @ y - cp.sum(x))), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(x) + cp.sum(y)), [x >= 0, x <= 1], lower)
    assert formula_size(problem.plain_model) > 2400


def test_a_time_limit_is_kept():
    n = 6
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = cp.sum(cp.nlp.sin(5 * y)) + cp.sum_squares(y - x) / 3
    lower = bm.Lower(cp.Minimize(g), [-2 <= y, y <= 2], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum(cp.nlp.cos(x + y)) + cp.sum_squares(x)), [-1 <= x, x <= 1], lower
    )
    problem.model.compile_lower()
    began = time.perf_counter()
    problem.solve(time_limit=1.0)
    assert time.perf_counter() - began < 3.0


@pytest.mark.parametrize(
    "seed", [200, 202, 203, 204, 206, *(pytest.param(n, marks=pytest.mark.slow) for n in (201, 205))]
)
def test_random_problems_against_brute_force(seed):
    problem, stated = random_problem(seed)
    problem.solve()
    best = brute_force(stated)
    certificate = problem.certificate
    if certificate.bound is not None:
        assert certificate.bound <= best + 1e-5 * (1 + abs(best))
    if problem.status == "optimal":
        assert problem.value <= best + 1.5e-4 * (1 + abs(best))


def test_a_lower_level_that_is_not_convex_is_answered_with_a_proof_where_there_is_no_x():
    y = cp.Variable(2, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.nlp.sin(3 * y[1]) - cp.square(y[0] - 0.4)), [y >= -1, y <= 2], variables=[y]
    )
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [], lower, variables=[])
    assert problem.solve() == pytest.approx(2 - np.pi / 6, abs=1e-5)
    assert problem.status == "optimal"


def test_nothing_is_bounded_before_the_searches_where_scip_cannot_count(monkeypatch):
    # From the middle, points with f <= 100 reach exp(800), which is beyond any range.
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    wave = 2 - cp.multiply(cp.nlp.cos(y[0]), cp.nlp.cos(y[1]))
    lower = bm.Lower(cp.Minimize(cp.exp(wave * cp.sum_squares(x))), [y >= -3, y <= 3], variables=[y])
    f = cp.sum_squares(x - 10) + cp.sum_squares(y)
    run = Run(bm.BilevelProblem(cp.Minimize(f), [], lower).plain_model, np.empty(0), None, 1e-6, 0)
    portions = []
    monkeypatch.setattr(Bounding, "go_on", lambda *args, **options: portions.append(options))
    early, late = GlobalBounds(4, 0, False), GlobalBoundsAfterSearch(4, 0, False)
    assert early.run(run, 0) is Outlook.MORE and not early.has_hope(run) and not portions
    late.run(run, 0)
    assert portions
