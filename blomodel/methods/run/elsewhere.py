"""Pieces of work in other processes, through joblib; a piece whose worker dies is done again.

Which processes is joblib's affair: local ones by default, those of a cluster where its
``parallel_config`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blomodel.errors import MissingPackageError, SolverError

MOST_DEATHS = 3  # of workers, in one call: then it is the work that kills them
# Raised where a worker has died: by local processes, by a Dask cluster that has given up, and by Ray.
DEATHS = {"TerminatedWorkerError", "KilledWorker", "RayActorError"}


def each_elsewhere(make: Callable[[int], tuple[Any, ...]], count: int, n_jobs: int) -> Iterator[Any]:
    """What is returned by each of several calls, in their order, each as soon as it is there.

    Stop asking to leave out those that have not begun.

    Parameters
    ----------
    make : callable
        The function and arguments of the call of a number; asked when a worker is free.
    """
    joblib = load_joblib(n_jobs)
    workers = min(joblib.effective_n_jobs(n_jobs), count)
    found: dict[int, Any] = {}
    following = deaths = 0
    while following < count:
        wanted = [number for number in range(following, count) if number not in found]
        pool = _Pool(joblib, workers, make, wanted)
        results = pool.results()  # held here: joblib ends its processes when nobody asks any more
        try:
            for number, result in results:
                found[number] = result
                while following in found:
                    yield found.pop(following)
                    following += 1
        except GeneratorExit:
            pool.is_left = True
            for _ in results:  # those at work: to end their processes would cost more
                pass
            raise
        except Exception as error:
            if DEATHS.isdisjoint(kind.__name__ for kind in type(error).__mro__):
                raise
            deaths += 1
            if deaths > MOST_DEATHS:
                raise SolverError(
                    f"A process that worked on a piece has died {deaths} times, most often for want of "
                    "memory; use fewer of them (n_jobs), or n_jobs=1 to see where."
                ) from error


class _Pool:
    """Calls that are handed to joblib one by one, as workers become free."""

    def __init__(
        self,
        joblib: Any,
        workers: int,
        make: Callable[[int], tuple[Any, ...]],
        wanted: list[int],
    ) -> None:
        self.joblib, self.workers, self.make, self.wanted = joblib, workers, make, wanted
        self.is_left = False  # no more calls are to begin

    def results(self) -> Iterator[tuple[int, Any]]:
        """Numbers and results as they come."""
        ahead = {"n_jobs": self.workers, "pre_dispatch": self.workers, "batch_size": 1}
        try:
            parallel = self.joblib.Parallel(return_as="generator_unordered", **ahead)
            found = parallel(self._calls())
        except (ValueError, NotImplementedError):  # a backend that gives all results at once
            found = self.joblib.Parallel(**ahead)(self._calls())
        yield from found

    def _calls(self) -> Iterator[Any]:
        for number in self.wanted:
            if self.is_left:
                return
            yield self.joblib.delayed(_numbered)(number, *self.make(number))


def _numbered(number: int, work: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    return number, work(*arguments)


def load_joblib(n_jobs: int) -> Any:
    """The package that starts the processes, which is installed only where it is wanted."""
    try:
        import joblib
    except ImportError:
        raise MissingPackageError(
            f"n_jobs = {n_jobs} needs joblib: install blomodel[parallel], or leave n_jobs at 1."
        ) from None
    return joblib
