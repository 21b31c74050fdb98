"""Independent problems proven by a tree for each block, and what follows where one does not end."""

from __future__ import annotations

import numpy as np
import pytest

from blomodel.methods.portfolio import apart, trees
from tests.unit.transformations.test_independent import market

HOURS = 5
BEST = 2 * sum(min(8 + hour, 10) for hour in range(HOURS))


def solved(problem) -> float:
    value = problem.solve()
    assert str(problem.status) == "optimal"
    return value


def test_no_part_gets_a_plan_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run, parts, work) -> bool:
        raise AssertionError("the parts were solved one by one")

    monkeypatch.setattr(apart, "solve_apart", refuse)
    problem = market(HOURS)
    assert solved(problem) == pytest.approx(BEST, rel=1e-6)
    assert "5 independent problems" in problem.certificate.bound_source


def test_parts_whose_trees_do_not_end_are_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, asked, worked = trees.solve_globally, [], []

    def give_up_on_the_second(qp, **settings):
        asked.append(qp)
        return plain(qp, **{**settings, "node_limit": 0 if len(asked) == 2 else settings["node_limit"]})

    monkeypatch.setattr(trees, "solve_globally", give_up_on_the_second)
    follow = apart._FollowPlan.__call__
    monkeypatch.setattr(
        apart._FollowPlan, "__call__", lambda self, run: (worked.append(run), follow(self, run))[1]
    )
    problem = market(HOURS)
    assert solved(problem) == pytest.approx(BEST, rel=1e-6)
    assert len(asked) == HOURS and len(worked) == 1
    # The constant of f is counted once, in the bound as in the value.
    assert problem.certificate.bound == pytest.approx(BEST, rel=1e-5)


def test_points_that_the_lower_level_does_not_accept_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = trees.solve_globally

    def spoil(qp, **settings):
        result = plain(qp, **settings)
        result.z = result.z + np.random.default_rng(1).normal(size=result.z.size)
        return result

    monkeypatch.setattr(trees, "solve_globally", spoil)
    assert solved(market(HOURS)) == pytest.approx(BEST, rel=1e-6)
