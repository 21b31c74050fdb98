"""The same search from many starts: one after another, or on several processes through joblib.

joblib's own switch sends the searches to a cluster::

    with joblib.parallel_config(backend="dask"):
        problem.solve(n_jobs=8)

A process gets the model without its solvers, which it builds anew, and sends back what it found.
Results are taken in the order of the starts, so that the answer does not depend on ``n_jobs``.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from blomodel.errors import MissingPackageError, UnknownSettingError
from blomodel.methods.run.run import Findings, Run, StopRun
from blomodel.model.model import Model
from blomodel.programs.refusal import compiled_once
from blomodel.solvers.threads import one_blas_thread


@dataclass(frozen=True)
class Task:
    """Where one search begins."""

    x: np.ndarray
    y: np.ndarray
    is_first: bool = False  # the one start that may take its time
    is_near_best: bool = False  # a start beside the best point, to be searched briefly


class Search(Protocol):
    """Called with a task; leaves candidates in its run."""

    run: Run

    @property
    def make(self) -> Callable[[Run], Search]:
        """Makes the same search of another run, in another process: it must be possible to send it."""

    def __call__(self, task: Task) -> float:
        """Search from the task's point; the upper objective reached."""


def search_each(search: Search, tasks: Sequence[Task]) -> Iterator[float]:
    """Run the tasks and yield what each reached, in their order; stop asking to stop searching."""
    run = search.run
    if run.n_jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield search(task)
        return
    joblib = load_joblib(run.n_jobs)
    workers = min(joblib.effective_n_jobs(run.n_jobs), len(tasks))
    job = _Job(search.make, pickle.dumps(_portable(run)), _next_cvxpy_id())
    parallel = joblib.Parallel(n_jobs=workers)
    # As many at a time as there are workers, so that a search that ends early leaves the rest out.
    for first in range(0, len(tasks), workers):
        batch = tasks[first : first + workers]
        job = replace(job, remaining=run.remaining)
        for reached, other in parallel(joblib.delayed(_search_elsewhere)(job, task) for task in batch):
            run.absorb(other)
            yield reached


def check_jobs(n_jobs: int) -> None:
    """Raise when ``n_jobs`` is no number of processes, or joblib is missing for it."""
    if n_jobs != int(n_jobs) or n_jobs == 0:
        raise UnknownSettingError(
            f"n_jobs = {n_jobs!r} must be a whole number of processes, or -1 for one on each core."
        )
    if n_jobs != 1:
        load_joblib(n_jobs)


def load_joblib(n_jobs: int) -> Any:
    """The package that starts the processes, which is installed only where it is wanted."""
    try:
        import joblib
    except ImportError:
        raise MissingPackageError(
            f"n_jobs = {n_jobs} needs joblib: install blomodel[parallel], or leave n_jobs at 1."
        ) from None
    return joblib


@dataclass(frozen=True)
class _Job:
    """What a process needs to know."""

    make_search: Callable[[Run], Search]
    run: bytes  # pickled here, so that backends with threads get copies too
    next_cvxpy_id: int
    remaining: float = np.inf


def _search_elsewhere(job: _Job, task: Task) -> tuple[float, Findings]:
    """One search in another process, with a run of its own."""
    _reserve_cvxpy_ids(job.next_cvxpy_id)
    limit = job.remaining if np.isfinite(job.remaining) else None
    run: Run = pickle.loads(job.run)
    run.began, run.time_limit = time.perf_counter(), limit
    reached = np.inf
    with one_blas_thread():
        try:
            reached = job.make_search(run)(task)
        except StopRun as stop:
            run.stopped_by = stop.reason
    return reached, run.findings


def _portable(run: Run) -> Run:
    """A run of the same problem that has found nothing yet and can be sent elsewhere."""
    return run.anew(model=without_solvers(run.model), progress=None, n_jobs=1)


def without_solvers(model: Model) -> Model:
    """The model without what it computes on demand, which holds solvers that cannot be sent."""
    bare = object.__new__(type(model))
    for name, value in vars(model).items():
        if not isinstance(getattr(type(model), name, None), cached_property | compiled_once):
            setattr(bare, name, value)
    return bare


def _next_cvxpy_id() -> int:
    from cvxpy.lin_ops import lin_utils

    return int(lin_utils.ID_COUNTER.count)


def _reserve_cvxpy_ids(first_free: int) -> None:
    """cvxpy counts its leaves in each process anew; one that was sent must not meet its double."""
    from cvxpy.lin_ops import lin_utils

    lin_utils.ID_COUNTER.count = max(lin_utils.ID_COUNTER.count, first_free)
