"""Lower levels that are not convex are searched, and the certificate says that this proves nothing."""

from dataclasses import dataclass
from typing import ClassVar

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import NonconvexLowerError
from blomodel.methods.run import registry
from blomodel.methods.run.capabilities import EVERYTHING, Assumption, Capability
from blomodel.methods.run.registry import Need


def double_well(*constraints):
    """g = (y^2 - 1)^2 - x y / 2: two wells near -1 and 1; the sign of x decides which is lower."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(
        cp.Minimize((y**2 - 1) ** 2 - 0.5 * x * y), [c(x, y) for c in constraints], variables=[y]
    )
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y + 1) ** 2), [-2 <= x, x <= 2], lower)


def well(x, side):
    roots = np.roots([4.0, 0.0, -4.0, -0.5 * x]).real
    return max(roots, key=lambda root: side * root)


@pytest.fixture
def propose():
    """A method that proposes what it is told, and takes nonconvex lower levels."""

    @registry.method
    @dataclass(frozen=True, kw_only=True)
    class Propose:
        name: ClassVar[str] = "propose"
        summary: ClassVar[str] = "one point as given"
        assumes: ClassVar[str] = "nothing at all"
        claims: ClassVar[str] = "nothing at all"
        reference: ClassVar[str] = "none, for tests"
        costs: ClassVar[str] = "nothing at all"
        capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
        assumptions: ClassVar[frozenset[Assumption]] = frozenset()
        needs: ClassVar[tuple[Need, ...]] = ()
        point: tuple = registry.setting((0.0, 0.0), "the point", own=True)

        def run(self, run):
            run.propose(np.array([self.point[0]]), np.array([self.point[1]]), "given")

    yield "propose"
    registry.METHODS.remove("propose")


def test_global_minimiser_passes_and_claims_no_optimum():
    problem = double_well()
    certificate = bm.certify(problem, 1.0, well(1.0, 1))
    assert certificate.accepted
    assert certificate.claim in ("stationary", "feasible")
    assert certificate.checked_by == "SCIP's branch and bound"
    assert certificate.checked_by in str(certificate)
    assert certificate.lower_is_unique is None


def test_the_other_well_is_refused():
    certificate = bm.certify(double_well(), 1.0, well(1.0, -1))
    assert not certificate.accepted
    assert any("can do better" in reason for reason in certificate.reasons)


def test_stationary_point_is_found_stationary():
    """The lower answer at x = pi is pi, the bottom of the cosine, where f has its minimum 0."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.cos(y) + 0.1 * (y - x) ** 2), [0 <= y, y <= 6], variables=[y])
    upper = cp.Minimize((y - np.pi) ** 2 + (x - np.pi) ** 2)
    problem = bm.BilevelProblem(upper, [x >= -1, x <= 9], lower)
    right = bm.certify(problem, np.pi, np.pi)
    assert right.claim == "optimal"  # 0 is the least value of the formula
    assert right.stationarity < 1e-6


@pytest.mark.parametrize(
    "constraint", [lambda x, y: y + 0 * x <= 2, lambda x, y: y**2 <= 3, lambda x, y: y <= 2 + x]
)
def test_constraints_of_several_kinds(constraint):
    certificate = bm.certify(double_well(constraint), 1.0, well(1.0, 1))
    assert certificate.accepted
    assert certificate.lower_gap <= 1e-8


@pytest.mark.slow
def test_equality_and_two_variables():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    # On the circle the best answer to -x y_1 is (1, 0) for x > 0.
    lower = bm.Lower(cp.Minimize(-x * y[0]), [cp.sum_squares(y) == 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y[1] ** 2), [0 <= x, x <= 2], lower)
    certificate = bm.certify(problem, 1.0, [1.0, 0.0])
    assert certificate.accepted
    assert certificate.lower_value == pytest.approx(-1.0)
    assert certificate.multipliers[0] == pytest.approx(0.5, abs=1e-4)
    assert not bm.certify(problem, 1.0, [-1.0, 0.0]).accepted


def test_concave_only_where_x_is_negative():
    """x y^2 is convex at x > 0 alone; at x < 0 the lower level is searched."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(x * cp.square(y) - 0.1 * y), [-1 <= y, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y**2), [-1 <= x, x <= 1], lower)
    assert "Clarabel" in bm.certify(problem, 0.5, 0.1).checked_by
    searched = bm.certify(problem, -0.5, 1.0)
    assert searched.accepted
    assert "all corners of the box" in searched.checked_by


def test_methods_that_do_not_declare_it_refuse():
    for method in ("blocc", "reduced-penalty"):
        with pytest.raises(NonconvexLowerError):
            double_well().solve(method=method)


def test_method_that_declares_it_runs(propose):
    problem = double_well()
    value = problem.solve(method=propose, point=(1.0, well(1.0, 1)))
    assert problem.status in ("stationary", "feasible")
    assert value == pytest.approx((well(1.0, 1) + 1) ** 2)
    problem.solve(method=propose, point=(1.0, well(1.0, -1)))
    assert problem.status == "failed"


def test_searches_are_the_same_in_every_call():
    model = double_well().model
    answers = [double_well().model.lower_solver.solve(np.array([0.3]), np.empty(0)) for _ in range(2)]
    assert answers[0].y[0] == answers[1].y[0]
    assert model.lower_solver.kind == "nonconvex"
    assert answers[0].y[0] == pytest.approx(well(0.3, 1), abs=1e-7)


def test_many_variables_with_rows():
    """The augmented Lagrangian: 200 variables, one sphere."""
    x, y = cp.Variable(name="x"), cp.Variable(200, name="y")
    lower = bm.Lower(cp.Minimize(-cp.sum(y) + 0 * x), [cp.sum_squares(y) == 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y[0]), [0 <= x, x <= 1], lower)
    answer = problem.model.lower_solver.solve(np.zeros(1), np.empty(0))
    assert answer.status.has_point
    assert answer.value == pytest.approx(-np.sqrt(200), abs=1e-5)
