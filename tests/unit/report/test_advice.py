"""What to do next, told by every outcome but a proof."""

from dataclasses import replace

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.report.advice import next_step


@pytest.fixture(scope="module")
def solution() -> bm.Solution:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + y**2), [0 <= x, x <= 3], lower)
    problem.solve()
    assert problem.solution is not None
    return problem.solution


@pytest.mark.parametrize("status", bm.Status)
def test_every_status_has_advice_and_only_a_proof_needs_none(
    status: bm.Status, solution: bm.Solution
) -> None:
    assert len(status.next_step) > 10
    other = replace(solution, status=status)
    assert ("\nnext " in str(other)) == (status is not bm.Status.OPTIMAL)


def test_advice_looks_at_method_effort_and_limits(solution: bm.Solution) -> None:
    found = replace(solution, status=bm.Status.STATIONARY)
    assert 'effort="thorough"' in next_step(found)
    assert "auto" in next_step(replace(found, method="blocc"))
    assert "time limit" in next_step(replace(found, stopped_by="time limit"))
    thorough = replace(found, settings={**found.settings, "effort": "thorough"})
    assert "thorough" not in next_step(thorough)
    assert "bound every variable" in next_step(replace(thorough, certificate=None))


def test_variables_without_bounds_are_named() -> None:
    price, bikes, rides = (cp.Variable(name=name) for name in ("price", "bikes", "rides"))
    utility = 6 * rides - rides**2 / 2 - price * rides
    riders = bm.Lower(cp.Maximize(utility), [rides <= bikes, rides >= 0], variables=[rides])
    rows = [price >= 0, bikes >= 0, bikes <= 4]
    problem = bm.BilevelProblem(cp.Maximize(price * rides - bikes), rows, riders)
    problem.solve("phi-descent")
    assert problem.solution is not None
    found = replace(problem.solution, method="auto", status=bm.Status.LOCALLY_OPTIMAL, certificate=None)
    assert next_step(found).endswith("(price)")


def test_certificates_that_are_no_proof_say_what_is_next(solution: bm.Solution) -> None:
    certificate = solution.certificate
    assert certificate is not None
    assert "what next" not in str(certificate)
    local = replace(certificate, claim=bm.Status.LOCALLY_OPTIMAL, lower_value=2.6e-26, stationarity=0.2)
    assert 'what next              solve(effort="thorough")' in str(local)
    assert "(lower value 0 by" in str(local)
    assert "2.00e-01   > 0.0001" in str(local)
