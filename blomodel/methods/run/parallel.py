"""The same search from many starts: one after another, or on several processes through joblib.

joblib's own switch sends the searches to a cluster::

    with joblib.parallel_config(backend="dask"):
        problem.solve(n_jobs=8)

A process gets the model without its solvers, which it builds anew, and sends back what it found.
Results are taken in the order of the starts, so that the answer does not depend on ``n_jobs``.
"""

from __future__ import annotations

import math
import numbers
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.leaf_ids import next_leaf_id, reserve_leaf_ids
from blomodel.basics.memory import bare_copy
from blomodel.errors import UnknownSettingError
from blomodel.methods.run.elsewhere import each_elsewhere, load_joblib
from blomodel.methods.run.run import Findings, Run, StopRun
from blomodel.solvers.choice import asking
from blomodel.solvers.registry import SOLVERS, InnerSolver, inner_solver
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
    preferred = None if run.solver.name is None else SOLVERS[run.solver.name]
    job = _Job(search.make, pickle.dumps(portable(run)), next_leaf_id(), preferred)

    def call(number: int) -> tuple[Any, ...]:
        return _search_elsewhere, replace(job, remaining=run.remaining), tasks[number]

    for reached, other in each_elsewhere(call, len(tasks), run.n_jobs):
        run.absorb(other)
        yield reached


def work_each(
    makers: Sequence[Callable[[], Run]], work: Callable[[Run], None], n_jobs: int = 1
) -> Iterator[Findings]:
    """Do the same work with each of several runs, which are made when they are due.

    ``work`` must be possible to send. Each run gets its share of the time that is left when it begins.
    What it has found is yielded in the order of the runs; one that has met a limit says so there.
    """
    if n_jobs == 1 or len(makers) < 2:
        for number, make in enumerate(makers):
            run = make()
            run.deadline = run.deadline.earlier(run.remaining / (len(makers) - number))
            try:
                work(run)
            except StopRun as stop:
                run.stopped_by = stop.reason
            except KeyboardInterrupt:
                run.control.stop()  # whoever takes the findings looks at the limits then
                run.stopped_by = "user"
            yield run.findings
        return
    runs = [make() for make in makers]
    workers = min(load_joblib(n_jobs).effective_n_jobs(n_jobs), len(runs))
    solver = runs[0].solver.name
    preferred = None if solver is None else SOLVERS[solver]
    first_id, seconds = next_leaf_id(), runs[0].remaining / math.ceil(len(runs) / workers)

    def call(number: int) -> tuple[Any, ...]:
        return (
            _work_elsewhere, work, pickle.dumps(portable(runs[number])), first_id, preferred, seconds,
        )  # fmt: skip

    yield from each_elsewhere(call, len(runs), n_jobs)


def _work_elsewhere(
    work: Callable[[Run], None],
    pickled: bytes,
    first_free_id: int,
    solver: type[InnerSolver] | None,
    remaining: float,
) -> Findings:
    """The work of one run in another process."""
    reserve_leaf_ids(first_free_id)
    if solver is not None:
        inner_solver(solver)
    run: Run = pickle.loads(pickled)
    run.began, run.deadline = time.perf_counter(), Deadline.after(remaining)
    with one_blas_thread(), asking(run.solver, run.inner_solvers):
        try:
            work(run)
        except StopRun as stop:
            run.stopped_by = stop.reason
    return run.findings


def call_each(
    work: Callable[[Any], Any],
    tasks: Sequence[Any],
    n_jobs: int = 1,
    is_last: Callable[[Any], bool] = lambda result: False,
) -> list[Any]:
    """What ``work`` makes of each task, here or in other processes, in the order of the tasks.

    Tasks may hold cvxpy's leaves; ``work`` and tasks must be possible to send. After a result that
    ``is_last``, such as that of a solve which the user has interrupted, nothing more is begun.
    """
    check_jobs(n_jobs)
    if n_jobs == 1 or len(tasks) < 2:
        return _until(is_last, map(work, tasks))
    first_id = next_leaf_id()

    def call(number: int) -> tuple[Any, ...]:
        return _call_elsewhere, work, pickle.dumps(tasks[number]), first_id

    return _until(is_last, each_elsewhere(call, len(tasks), n_jobs))


def _until(is_last: Callable[[Any], bool], results: Iterator[Any]) -> list[Any]:
    found = []
    for result in results:
        found.append(result)
        if is_last(result):
            break
    return found


def _call_elsewhere(work: Callable[[Any], Any], pickled: bytes, first_free_id: int) -> Any:
    reserve_leaf_ids(first_free_id)
    return work(pickle.loads(pickled))


def check_jobs(n_jobs: int) -> None:
    """Raise when ``n_jobs`` is no number of processes, or joblib is missing for it."""
    is_number = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    if not is_number or n_jobs == 0:
        raise UnknownSettingError(
            f"n_jobs = {n_jobs!r} must be a whole number of processes, or -1 for one on each core."
        )
    if n_jobs != 1:
        load_joblib(n_jobs)


@dataclass(frozen=True)
class _Job:
    """What a process needs to know."""

    make_search: Callable[[Run], Search]
    run: bytes  # pickled here, so that backends with threads get copies too
    next_cvxpy_id: int
    solver: type[InnerSolver] | None = None  # the preferred one, which may be known here only
    remaining: float = np.inf  # seconds, since another process counts from another moment


def _search_elsewhere(job: _Job, task: Task) -> tuple[float, Findings]:
    """One search in another process, with a run of its own."""
    reserve_leaf_ids(job.next_cvxpy_id)
    if job.solver is not None:
        inner_solver(job.solver)
    run: Run = pickle.loads(job.run)
    run.began, run.deadline = time.perf_counter(), Deadline.after(job.remaining)
    reached = np.inf
    with one_blas_thread(), asking(run.solver, run.inner_solvers):
        try:
            reached = job.make_search(run)(task)
        except StopRun as stop:
            run.stopped_by = stop.reason
    return reached, run.findings


def portable(run: Run) -> Run:
    """A run of the same problem that has found nothing yet and can be sent elsewhere."""
    # Solvers cannot be sent, and another process counts from another moment.
    return run.anew(model=bare_copy(run.model), progress=None, n_jobs=1, deadline=NEVER)
