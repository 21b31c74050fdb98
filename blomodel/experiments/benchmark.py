"""Methods on many problems: who solves what, how fast, and the performance profiles of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.comparison import compare
from blomodel.errors import DataError
from blomodel.methods.run.parallel import call_each
from blomodel.problem import BilevelProblem
from blomodel.problems.catalogue import Facts, KnownProblem, list_problems
from blomodel.problems.catalogue import facts as facts_of
from blomodel.status import Status
from blomodel.text import html, layout

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MethodChoice = str | tuple[str, Mapping[str, Any]]
ProblemChoice = str | Facts | BilevelProblem | Callable[[], BilevelProblem]
COLUMNS = ("problem", "method", "solved", "value", "best", "time", "status")
ACCURACY = 1e-3  # relative to 1 + abs(best); what the tables of the literature are printed to
SHORTEST = 1e-3  # seconds; times below this are measured too coarsely to be compared


@dataclass(frozen=True)
class BenchmarkRow:
    """One method on one problem.

    Attributes
    ----------
    problem, method : str
    is_solved : bool
        The certificate accepts the answer, and its value is as good as the best known one.
    value : float
        Upper objective at the answer; not a number when there is none.
    best : float
        The best known value; without one, the best certified value of this benchmark.
    time : float
        Seconds of the method itself, without compilation and certificate.
    status : str
        What solve() says, or "error".
    evaluations : int
        Evaluations of the method's functions.
    error : str
        Why there is no answer, when the method raised.
    """

    problem: str
    method: str
    is_solved: bool
    value: float
    best: float
    time: float
    status: str
    evaluations: int
    error: str = ""

    def cells(self) -> list[str]:
        """The row of the table."""
        value, best = ("" if np.isnan(z) else layout.number(z) for z in (self.value, self.best))
        time = "" if np.isnan(self.time) else layout.seconds(self.time)
        return [
            self.problem,
            self.method,
            "yes" if self.is_solved else "no",
            value,
            best,
            time,
            self.status,
        ]


@dataclass(frozen=True)
class Benchmark:
    """The runs of methods on problems; ``print`` it for a table of the runs and one of the methods.

    Attributes
    ----------
    rows : tuple of BenchmarkRow
        By problem, then by method, in the order in which they were given.
    """

    rows: tuple[BenchmarkRow, ...]

    @property
    def methods(self) -> list[str]:
        """The methods, in the order in which they were given."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @property
    def problems(self) -> list[str]:
        """The problems, in the order in which they were given."""
        return list(dict.fromkeys(row.problem for row in self.rows))

    def solved(self, method: str) -> int:
        """How many problems a method solves."""
        return sum(row.is_solved for row in self.rows if row.method == method)

    def times(self) -> np.ndarray:
        """Seconds by problem and method; infinite where a problem was not solved."""
        seconds = [max(row.time, SHORTEST) if row.is_solved else np.inf for row in self.rows]
        return np.array(seconds).reshape(len(self.problems), len(self.methods))

    def profile(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """The performance profile of Dolan and More: ratios, and the share solved within each.

        A ratio compares the method's time on a problem with that of the fastest method that solves it.
        """
        times = self.times()
        with np.errstate(invalid="ignore"):  # a problem that nobody solves has no ratio
            ratios = times[:, self.methods.index(method)] / times.min(axis=1)
        return _steps(ratios[np.isfinite(ratios)], len(self.problems))

    def summary(self) -> str:
        """A line for each method: problems solved, and seconds on those that it solves."""
        rows = []
        for column, method in enumerate(self.methods):
            times = self.times()[:, column]
            own = times[np.isfinite(times)]
            median = layout.seconds(float(np.median(own))) if own.size else ""
            total = layout.seconds(float(own.sum())) if own.size else ""
            rows.append([method, f"{self.solved(method)} of {len(self.problems)}", median, total])
        return layout.table(("method", "solved", "median time", "total"), rows, right=(1, 2, 3))

    def __str__(self) -> str:
        runs = layout.table(COLUMNS, [row.cells() for row in self.rows], right=(3, 4, 5))
        return f"{runs}\n\n{self.summary()}"

    def _repr_html_(self) -> str:
        return html.table([[escape(cell) for cell in row.cells()] for row in self.rows], COLUMNS)

    def to_frame(self) -> pandas.DataFrame:
        """The runs as a pandas DataFrame, a run in each row."""
        import pandas

        names = [field.name for field in fields(BenchmarkRow)]
        return pandas.DataFrame(
            [[getattr(row, name) for name in names] for row in self.rows], columns=names
        )

    def plot(
        self, against: str = "ratio", ax: Axes | None = None, path: str | Path | None = None
    ) -> Figure:
        """Draw the share of problems that each method solves.

        Parameters
        ----------
        against : "ratio" or "time"
            The share within a multiple of the fastest method's time (a performance profile), or within
            a number of seconds.
        ax : matplotlib Axes, optional
            Where to draw; by default in a new figure.
        path : optional
            File to save the figure to; the ending of its name chooses the format.
        """
        from blomodel.experiments.benchmark_plot import plot_benchmark

        return plot_benchmark(self, against, ax, path)


def benchmark(
    methods: MethodChoice | Sequence[MethodChoice] = "auto",
    problems: Iterable[ProblemChoice] | Mapping[str, ProblemChoice] | None = None,
    *,
    time_limit: float | None = 10.0,
    accuracy: float = ACCURACY,
    n_jobs: int = 1,
    **settings: Any,
) -> Benchmark:
    """Run methods on problems, each from the problem's start, and measure them.

    Parameters
    ----------
    methods : str, or sequence of str or of pairs (name, settings)
        As ``bm.compare`` takes them.
    problems : sequence or dict, optional
        Names of ``bm.problems``, its facts, problems of your own, or functions that state one; a dict
        gives names to those. By default all of ``bm.problems.list()``.
    time_limit : float or None
        Seconds for each run.
    accuracy : float
        A problem is solved when the certificate accepts the answer and its value is at most this,
        relative to 1 + abs(best), worse than the best known one.
    n_jobs : int
        Processes among which the problems are divided; -1: one for each core. Times are then those of a
        busy machine.
    **settings
        Further arguments of ``bm.compare``.

    Returns
    -------
    Benchmark
        In the order of the problems, then of the methods.

    Examples
    --------
    >>> import blomodel as bm
    >>> result = bm.benchmark(["auto", "kkt-mip"], ["bard_1988_1", "liu_hart_1994"])
    >>> [(row.problem, row.method, row.is_solved) for row in result.rows[:2]]
    [('bard_1988_1', 'auto', True), ('bard_1988_1', 'kkt-mip', True)]
    >>> result.solved("auto")
    2
    """
    is_one = isinstance(methods, str) or _is_pair(methods)
    chosen: list[Any] = [methods] if is_one else list(methods)
    named = _named(list_problems() if problems is None else problems)
    if not named or not chosen:
        raise DataError("benchmark: there is nothing to run; give at least one method and one problem.")
    labels = _labels(chosen)
    tasks = [
        _Task(name, problem, chosen, labels, accuracy, {"time_limit": time_limit, **settings})
        for name, problem in named
    ]
    found = call_each(_measure, tasks, n_jobs, _is_interrupted)
    return Benchmark(tuple(row for rows in found for row in rows))


def _is_interrupted(rows: list[BenchmarkRow]) -> bool:
    return rows[-1].status == Status.INTERRUPTED


@dataclass(frozen=True)
class _Task:
    """All methods on one problem."""

    name: str
    problem: str | BilevelProblem | Callable[[], BilevelProblem]
    methods: list[Any]
    labels: list[str]
    accuracy: float
    settings: dict[str, Any]


def _measure(task: _Task) -> list[BenchmarkRow]:
    """The rows of one problem."""
    problem = task.problem
    if isinstance(problem, str):
        from blomodel.problems.catalogue import load

        problem = load(problem)
    elif not isinstance(problem, BilevelProblem):
        problem = problem()
    result = compare(problem, task.methods, **task.settings)
    best = problem.facts.best_value if isinstance(problem, KnownProblem) else None
    if best is None:
        best = result.best.value if result.best is not None else np.nan
    rows = []
    for label, row in zip(task.labels, result.rows, strict=False):  # fewer where Ctrl-C came
        is_accepted = row.certificate is not None and row.certificate.accepted
        excess = problem.sign * (row.value - best)
        rows.append(
            BenchmarkRow(
                problem=task.name,
                method=label,
                is_solved=bool(is_accepted and excess <= task.accuracy * (1 + abs(best))),
                value=float(row.value),
                best=float(best),
                time=float(row.time),
                status="error" if row.solution is None else str(row.solution.status),
                evaluations=0 if row.solution is None else row.solution.evaluations,
                error=row.error,
            )
        )
    return rows


def _is_pair(methods: Any) -> bool:
    return isinstance(methods, tuple) and len(methods) == 2 and isinstance(methods[1], Mapping)


def _labels(methods: Sequence[MethodChoice]) -> list[str]:
    """A name for each method; settings come along where one method is given twice."""
    names = [method if isinstance(method, str) else method[0] for method in methods]
    labels = []
    for name, method in zip(names, methods, strict=True):
        own = {} if isinstance(method, str) else method[1]
        said = ", ".join(f"{key}={value}" for key, value in own.items())
        labels.append(f"{name}({said})" if names.count(name) > 1 and said else name)
    if len(set(labels)) < len(labels):
        raise DataError(f"benchmark: a method is given twice: {', '.join(labels)}.")
    return labels


def _named(
    problems: Iterable[ProblemChoice] | Mapping[str, ProblemChoice],
) -> list[tuple[str, str | BilevelProblem | Callable[[], BilevelProblem]]]:
    """Each problem with a name of its own."""
    if isinstance(problems, Mapping):
        pairs = [(name, _problem(problem)) for name, problem in problems.items()]
    else:
        if isinstance(problems, str | Facts | BilevelProblem):
            problems = [problems]
        pairs = [(_name(number, item), _problem(item)) for number, item in enumerate(problems, start=1)]
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"benchmark: the name {', '.join(twice)} is given twice; a dict gives others.")
    return pairs


def _name(number: int, problem: ProblemChoice) -> str:
    if isinstance(problem, str):
        return facts_of(problem).name
    if isinstance(problem, Facts):
        return problem.name
    if isinstance(problem, KnownProblem):
        return problem.facts.name
    own = getattr(problem, "__name__", "")
    return own if own and own != "<lambda>" else f"problem {number}"


def _problem(problem: ProblemChoice) -> str | BilevelProblem | Callable[[], BilevelProblem]:
    if isinstance(problem, Facts):
        return problem.name
    if isinstance(problem, str):
        return facts_of(problem).name
    if not isinstance(problem, BilevelProblem) and not callable(problem):
        raise DataError(
            f"benchmark: {type(problem).__name__} is no problem; give names of bm.problems.list(), "
            "BilevelProblem objects, or functions that return one."
        )
    return problem


def _steps(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a distribution function: sorted values, and the share of ``count`` at or below."""
    ordered = np.sort(values)
    return ordered, np.arange(1, ordered.size + 1) / count
