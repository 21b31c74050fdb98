"""Pieces of work in other processes: their order, those left out, and workers that die."""

import os

import pytest
from pieces_of_work import die, die_once, square
from ray_clusters import local_ray

from blomodel.errors import SolverError
from blomodel.methods.run.elsewhere import MOST_DEATHS, each_elsewhere

joblib = pytest.importorskip("joblib")


def test_results_come_in_order(tmp_path):
    with joblib.parallel_config(backend="threading"):
        calls = each_elsewhere(lambda k: (square, k, str(tmp_path), 0.02 * (3 - k)), 4, 2)
        assert list(calls) == [0, 1, 4, 9]


def test_what_is_not_asked_for_is_not_begun(tmp_path):
    with joblib.parallel_config(backend="threading"):
        calls = each_elsewhere(lambda k: (square, k, str(tmp_path), 0.02), 50, 2)
        assert next(calls) == 0
        calls.close()
    assert len(list(tmp_path.iterdir())) < 10


def test_errors_of_the_work_go_on(tmp_path):
    with joblib.parallel_config(backend="threading"), pytest.raises(ZeroDivisionError):
        list(each_elsewhere(lambda k: (divmod, 1, k), 2, 2))


@pytest.mark.slow
def test_a_piece_whose_worker_dies_is_done_again(tmp_path):
    assert list(each_elsewhere(lambda k: (die_once, k, str(tmp_path)), 6, 2)) == [0, 1, 4, 9, 16, 25]
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_work_that_kills_its_workers_ends():
    with pytest.raises(SolverError, match=f"died {MOST_DEATHS + 1} times"):
        list(each_elsewhere(lambda k: (die, k), 2, 2))


@pytest.mark.slow
def test_a_worker_of_a_dask_cluster_that_is_killed_loses_only_its_piece(tmp_path):
    distributed = pytest.importorskip("distributed")
    import signal
    import threading

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(1.0, lambda: os.kill(pids[0], signal.SIGKILL))
        killer.start()
        calls = each_elsewhere(lambda k: (square, k, str(tmp_path), 0.5), 8, 2)
        assert list(calls) == [k**2 for k in range(8)]
        killer.join()
    begun = [int(path.name.split()[0]) for path in tmp_path.iterdir()]
    assert sorted(set(begun)) == list(range(8))
    assert 8 < len(begun) <= 10  # the one that was lost, and one that may have waited there


@pytest.mark.slow
def test_a_worker_of_a_ray_cluster_that_dies_loses_only_what_was_being_worked_on(tmp_path):
    with local_ray():
        calls = each_elsewhere(lambda k: (die_once, k, str(tmp_path)), 6, 2)
        assert list(calls) == [0, 1, 4, 9, 16, 25]
        assert (tmp_path / "died").exists()
        with pytest.raises(SolverError, match=f"died {MOST_DEATHS + 1} times"):
            list(each_elsewhere(lambda k: (die, k), 2, 2))
