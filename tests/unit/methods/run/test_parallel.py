"""Searches on several processes: the same answer as one after another, and what is sent there."""

from __future__ import annotations

import pickle
import sys

import cvxpy as cp
import numpy as np
import pytest
from ray_clusters import local_ray

import blomodel as bm
from blomodel.basics.memory import bare_copy
from blomodel.errors import MissingPackageError, UnknownSettingError
from blomodel.methods.portfolio import plan
from blomodel.methods.run import parallel

joblib = pytest.importorskip("joblib")


def wavy_problem():
    """A convex lower level below an upper objective with several local minima."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(y - x) + cp.sum(cp.exp(y)) / 4),
        [cp.sum(y) <= 1 + x[0]],
        variables=[y],
    )
    upper = cp.Minimize(cp.sum(cp.nlp.sin(3 * x)) + cp.sum_squares(y - 1))
    return bm.BilevelProblem(upper, [-2 <= x, x <= 2], lower), x, y


def solved(**options):
    problem, x, y = wavy_problem()
    problem.solve(**{"n_starts": 3, **options})
    return problem, np.concatenate([x.value, y.value])


def with_searches_only(monkeypatch):
    """Leave out what proves: a proof would come before the searches."""
    searches = tuple(step for step in plan.MEMBERS if not step.may_prove)
    monkeypatch.setattr(plan, "MEMBERS", searches)


def same_on(backend, monkeypatch):
    with_searches_only(monkeypatch)
    alone, point = solved()
    sent, each = [], parallel.each_elsewhere

    def watched(make, count, n_jobs):
        sent.append(count)
        return each(make, count, n_jobs)

    monkeypatch.setattr(parallel, "each_elsewhere", watched)
    with joblib.parallel_config(backend=backend):
        shared, other = solved(n_jobs=2)
    assert sent
    # Solvers start from the last answer, which is another one in another process: rounding may differ.
    assert shared.value == pytest.approx(alone.value, rel=1e-12)
    np.testing.assert_allclose(point, other, rtol=0, atol=1e-9)
    assert shared.status == alone.status
    assert shared.solution.iterations == alone.solution.iterations


def test_two_jobs_find_what_one_finds(monkeypatch):
    same_on("threading", monkeypatch)


@pytest.mark.slow
def test_two_processes_find_what_one_finds(monkeypatch):
    same_on("loky", monkeypatch)


@pytest.mark.slow
def test_a_local_dask_cluster_finds_what_one_process_finds(monkeypatch):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        same_on("dask", monkeypatch)


@pytest.mark.slow
def test_a_local_ray_cluster_finds_what_one_process_finds(monkeypatch):
    limit = cp.Parameter(name="limit", value=1.0)
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= limit], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
    values, methods = {"limit": np.arange(16) / 10}, ["auto", "alt-pbgd"]
    swept, compared = bm.sweep(problem, values), bm.compare(problem, methods)
    with local_ray():
        same_on("ray", monkeypatch)
        swept_there = bm.sweep(problem, values, n_jobs=2)
        compared_there = bm.compare(problem, methods, n_jobs=2)
    np.testing.assert_allclose(swept_there.values, swept.values, rtol=0, atol=1e-9)
    for there, here in zip(compared_there.rows, compared.rows, strict=True):
        assert (there.method, there.solution.iterations) == (here.method, here.solution.iterations)
        assert there.value == pytest.approx(here.value, abs=1e-9)


def test_the_same_seed_gives_the_same_answer():
    points = [solved(seed=3)[1] for _ in range(2)]
    assert np.array_equal(*points)


def test_a_model_that_has_been_used_is_sent_without_its_solvers():
    problem, x, y = wavy_problem()
    problem.solve(n_starts=1)
    model = problem.model
    copy = pickle.loads(pickle.dumps(bare_copy(model)))
    point = (np.array([0.3, -0.4]), np.array([1.0, 2.0]), np.zeros(0))
    for tape in ("f", "g", "f_grad"):
        assert np.array_equal(getattr(copy, tape)(*point), getattr(model, tape)(*point))
    # The copy follows new inputs, so its machinery is its own and whole.
    moved = (point[0] + 1, point[1], point[2])
    assert copy.f(*moved) == model.f(*moved) != model.f(*point)
    here, there = (m.lower_program.solve(point[0], point[2]) for m in (model, copy))
    assert there.y == pytest.approx(here.y, abs=1e-7)


def test_leaves_made_after_arrival_do_not_meet_those_that_were_sent():
    from blomodel.basics.leaf_ids import next_leaf_id, reserve_leaf_ids

    first_free = next_leaf_id() + 50
    reserve_leaf_ids(first_free)
    assert cp.Variable().id >= first_free
    reserve_leaf_ids(0)  # never backwards
    assert cp.Variable().id > first_free


def test_a_time_limit_holds_for_the_processes_too(monkeypatch):
    with_searches_only(monkeypatch)
    with joblib.parallel_config(backend="threading"):
        problem, _, _ = wavy_problem()
        problem.solve(n_jobs=2, n_starts=5000, time_limit=1.0)
    assert problem.solution.stopped_by == "time limit"
    assert problem.certificate.accepted
    assert problem.solution.solve_time < 3.0


def test_missing_joblib_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(MissingPackageError, match=r"blomodel\[parallel\]"):
        solved(n_jobs=2)
    solved(n_jobs=1, n_starts=1)


@pytest.mark.parametrize("n_jobs", [0, 1.5])
def test_impossible_numbers_of_processes(n_jobs):
    with pytest.raises(UnknownSettingError, match="n_jobs"):
        solved(n_jobs=n_jobs)
