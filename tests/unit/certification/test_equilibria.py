"""A game with two equilibria, in which both are seen."""

from __future__ import annotations

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.certification.below.best_responses import best_response_gaps
from blomodel.certification.equilibria import find_another
from blomodel.declare.point import Point


def coordination():
    """Slopes a - 2 b and b - 3 a on [0, 1]^2: both want to be where the other is, at 0 or at 1."""
    x, a, b = cp.Variable(name="x"), cp.Variable(name="a"), cp.Variable(name="b")
    one = bm.Lower(cp.Minimize(a**2 / 2 - 2 * a * b), [a >= 0, a <= 1], variables=[a], name="one")
    two = bm.Lower(cp.Minimize(b**2 / 2 - 3 * a * b), [b >= 0, b <= 1], variables=[b], name="two")
    problem = bm.BilevelProblem(
        cp.Minimize((x - a) ** 2 - a + 0.1 * x), [0 <= x, x <= 1], bm.Nash([one, two])
    )
    return problem, x, a, b


@pytest.mark.parametrize("method", ["auto", "global"])
def test_the_upper_level_takes_the_equilibrium_it_likes(method):
    pytest.importorskip("pyscipopt")
    problem, x, a, b = coordination()
    # At (1, 1): (x - 1)^2 - 1 + 0.1 x, least at x = 0.95; at (0, 0): x^2 + 0.1 x, least 0.
    assert problem.solve(method) == pytest.approx(0.0025 - 1 + 0.095, abs=1e-4)
    assert problem.status == "optimal"
    assert [float(a.value), float(b.value)] == pytest.approx([1, 1], abs=1e-6)
    certificate = problem.certificate
    assert max(certificate.follower_gaps.values()) <= 1e-7
    assert certificate.lower_is_unique is False
    assert "the game has another equilibrium at this x: a = 0, b = 0" in certificate.reasons
    assert "gap of 'one'" in str(certificate) and "gap of 'two'" in str(certificate)


def test_both_equilibria_are_seen():
    pytest.importorskip("pyscipopt")
    problem, x, a, b = coordination()
    for here in (0.0, 1.0):
        certificate = bm.certify(problem, {x: 0.5}, {a: here, b: here})
        assert certificate.accepted
        values = {x: 0.5, a: here, b: here}
        chain = problem.plain_chain
        filled = chain.invert_values(chain.forward_values(values, problem.parameter_values()))
        point = Point.of_values(problem.levels, filled)
        is_only, other = find_another(problem, point)
        assert is_only is False
        assert other == pytest.approx([1 - here, 1 - here], abs=1e-6)
        assert max(best_response_gaps(problem, point).values()) <= 1e-9
    assert not bm.certify(problem, {x: 0.5}, {a: 0.0, b: 1.0}).accepted
