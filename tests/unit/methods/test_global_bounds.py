"""method="global": published optima with proofs, random problems by brute force, limits, refusals."""

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.atoms.elementwise.normcdf import normcdf

import blomodel as bm
from blomodel.errors import MissingPackageError, ModelError
from tests.support.slow_cases import first_few
from tests.support.small_problems import brute_force, random_problem

pytest.importorskip("pyscipopt")


def example(g, below, f=None, upper=(-1, 1)):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    objective = (x + 0.5) ** 2 + (y - 0.7) ** 2 if f is None else f(x, y)
    lower = bm.Lower(cp.Minimize(g(x, y)), below(x, y), variables=[y])
    return bm.BilevelProblem(cp.Minimize(objective), [upper[0] <= x, x <= upper[1]], lower), x, y


def unit(x, y):
    return [-1 <= y, y <= 1]


@pytest.mark.parametrize(
    ("f", "g", "value"),
    [  # Mitsos and Barton (2006), by number
        (lambda x, y: (x - 0.25) ** 2 + y**2, lambda x, y: y**3 / 3 - x * y, 0.25),  # 3.14
        (lambda x, y: x + y, lambda x, y: x * y**2 / 2 - y**3 / 3, 0.0),  # 3.15
        (lambda x, y: 2 * x + y, lambda x, y: -x * y**2 / 2 - y**4 / 4, -2.0),  # 3.16
    ],
    ids=["3.14", "3.15", "3.16"],
)
def test_published_optima_of_lower_levels_that_are_not_convex_are_proven(f, g, value):
    problem, _, _ = example(g, unit, f)
    assert problem.solve(method="global") == pytest.approx(value, abs=1e-3)
    assert problem.status == "optimal"
    certificate = problem.certificate
    assert certificate.gap <= certificate.optimality_gap == 1e-4
    assert "SCIP" in certificate.checked_by
    assert certificate.bound_source.startswith("branch and bound by SCIP")


def test_a_convex_lower_level_with_a_nonlinear_row():
    problem, _, _ = example(lambda x, y: -y, lambda x, y: [cp.exp(y) <= 1.2 + x**2, y >= -3, y <= 3])
    # y = log(1.2 + x^2): a search along x is the independent answer.
    grid = np.linspace(-1, 1, 200_001)
    best = ((grid + 0.5) ** 2 + (np.log(1.2 + grid**2) - 0.7) ** 2).min()
    assert problem.solve(method="global") == pytest.approx(best, abs=1e-4)
    assert problem.status == "optimal"


def test_maximising_above():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.sin(4 * y) + x * y), [-1 <= y, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x - y**2), [-1 <= x, x <= 1], lower)
    problem.solve(method="global")
    assert problem.status == "optimal"
    assert problem.certificate.bound >= problem.value - 1e-6


@pytest.mark.parametrize("seed", first_few(range(8), 3))
def test_random_problems_against_brute_force(seed):
    problem, stated = random_problem(seed)
    problem.solve(method="global", max_nodes=400)
    best = brute_force(stated)
    bound = problem.certificate.bound
    if bound is not None:
        assert bound <= best + 1e-5 * (1 + abs(best))
    if problem.status == "optimal":
        assert problem.value <= best + 1.5e-4 * (1 + abs(best))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 120))
def test_many_random_problems_against_brute_force(seed):
    test_random_problems_against_brute_force(seed)


def test_a_limit_of_nodes_leaves_an_honest_bound():
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    g = cp.sum(cp.nlp.sin(6 * y)) + x @ y + 2 * y[0] * y[1] * y[2]
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum_squares(x - 0.2) + cp.sum_squares(y + 0.4)),
        [-1 <= x, x <= 1],
        bm.Lower(cp.Minimize(g), [-1 <= y, y <= 1], variables=[y]),
    )
    problem.solve(method="global", max_nodes=1)
    assert problem.status != "optimal"
    assert problem.certificate.bound <= problem.value


def test_no_point_at_all():
    problem, _, _ = example(
        lambda x, y: y**3 - y, lambda x, y: [-1 <= y, y <= 1], lambda x, y: x + y, (-1, 1)
    )
    y = problem.lower.variables[0]
    impossible = bm.BilevelProblem(problem.objective, [*problem.constraints, y >= 3], problem.lower)
    assert impossible.solve(method="global") == np.inf
    assert impossible.status == "infeasible"


def test_what_it_refuses():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= -1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(normcdf(x) + y**2), [x >= -1, x <= 1], lower)
    with pytest.raises(ModelError, match="normcdf"):
        problem.solve(method="global")


def test_without_the_package(monkeypatch):
    monkeypatch.setattr("blomodel.methods.global_bounds.is_installed", lambda: False)
    problem, _, _ = example(lambda x, y: (y - x) ** 2, unit)
    with pytest.raises(MissingPackageError, match="pip install pyscipopt"):
        problem.solve(method="global")


def test_a_wider_gap_ends_sooner():
    problem, _, _ = example(lambda x, y: cp.nlp.sin(5 * y) + x * y, unit)
    problem.solve(method="global", optimality_gap=0.5)
    assert problem.status == "optimal"
    assert problem.certificate.optimality_gap == 0.5
