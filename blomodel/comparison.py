"""Several methods on one problem from one start, side by side."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import event

from blomodel.basics.kept_values import kept_values
from blomodel.basics.log import hushed
from blomodel.certification.certificate import Certificate
from blomodel.errors import BlomodelError, UnknownSettingError
from blomodel.methods.run.arguments import unknown_word
from blomodel.methods.run.parallel import call_each, check_jobs
from blomodel.methods.run.registry import METHODS, method_classes, owners_of
from blomodel.methods.run.settings import words_of
from blomodel.problem import BilevelProblem
from blomodel.solution import Solution
from blomodel.status import Status
from blomodel.text import layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

COLUMNS = ("method", "status", "value", "lower gap", "stationarity", "iterations", "evaluations", "time")


@dataclass(frozen=True, eq=False)
class ComparisonRow:
    """One method's run.

    Attributes
    ----------
    method : str
    settings : dict
        What the method was given beside its defaults.
    solution, certificate : optional
        What solve() left behind; None when it raised.
    values : dict
        Value of each variable at the answer.
    error : str
        Why there is no answer, when the method raised.
    """

    method: str
    settings: dict[str, Any]
    solution: Solution | None
    certificate: Certificate | None
    values: dict[Any, np.ndarray | None] = field(repr=False)
    error: str = ""

    @property
    def value(self) -> float:
        """Upper objective at the answer; not a number when the method raised."""
        return np.nan if self.solution is None else self.solution.value

    @property
    def time(self) -> float:
        """Seconds of the method itself, without compilation and certificate."""
        return np.nan if self.solution is None else self.solution.solve_time

    @property
    def remark(self) -> str:
        """Why there is no accepted answer, without the method's own name; empty when there is one."""
        if self.error:
            return self.error.replace(f"{self.method}: ", "", 1)
        if self.solution is not None and self.solution.status is Status.DIVERGED:
            return self.solution.status.meaning
        if self.certificate is None or self.certificate.accepted:
            return ""
        return "; ".join(self.certificate.reasons)

    def cells(self) -> list[str]:
        """The row of the table."""
        if self.solution is None:
            return [self.method, "error", "", "", "", "", "", ""]
        solution, certificate = self.solution, self.certificate
        gap = "" if certificate is None else f"{max(certificate.lower_gap, 0.0):.1e}"
        level = certificate.stationarity if certificate is not None else None
        return [
            self.method,
            str(solution.status),
            layout.number(solution.value, 8),
            gap,
            "" if level is None else f"{level:.1e}",
            str(solution.iterations),
            str(solution.evaluations),
            layout.seconds(solution.solve_time),
        ]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The runs of several methods; ``print`` it for a table."""

    rows: tuple[ComparisonRow, ...]
    sign: float  # +1 when the upper level minimises, -1 when it maximises

    def __getitem__(self, method: str) -> ComparisonRow:
        """What a method came to; ``comparison["blocc"].value``, for example."""
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(method)

    @property
    def best(self) -> ComparisonRow | None:
        """The certified answer with the best value; None when there is none."""
        good = [row for row in self.rows if row.certificate is not None and row.certificate.accepted]
        return min(good, key=lambda row: self.sign * row.value) if good else None

    def __str__(self) -> str:
        lines = [layout.table(COLUMNS, [row.cells() for row in self.rows], right=range(2, 8))]
        lines += [f"{', '.join(names)}: {remark}" for remark, names in self.remarks().items()]
        return "\n".join(lines)

    def remarks(self) -> dict[str, list[str]]:
        """Why methods have no accepted answer, each reason with the methods that share it."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if row.remark:
                found.setdefault(row.remark, []).append(row.method)
        return found

    def to_frame(self) -> DataFrame:
        """The table as a pandas DataFrame, a row for each method; needs pandas."""
        from blomodel.report.frames import comparison_frame

        return comparison_frame(self)

    def _repr_html_(self) -> str:
        from blomodel.report.html import comparison_html

        return comparison_html(COLUMNS, self)

    def plot(self, ax: Sequence[Axes] | None = None, path: str | Path | None = None) -> Figure:
        """Draw the upper objective and the lower gap of each method against time.

        A mark stands at the answer, filled if the certificate accepts it. Methods with a penalty record
        the penalised objective on the way.

        Parameters
        ----------
        ax : two matplotlib Axes, or one, optional
            Where to draw; by default in a new figure. In one panel, the values are drawn.
        path : optional
            File to save the figure to; the ending of its name chooses the format.
        """
        from blomodel.report.comparison_plot import plot_comparison

        return plot_comparison(self, ax=ax, path=path)


def compare(
    problem: BilevelProblem,
    methods: Iterable[str | tuple[str, Mapping[str, Any]]] | None = None,
    *,
    n_jobs: int = 1,
    **settings: Any,
) -> Comparison:
    """Run several methods from the same start.

    Parameters
    ----------
    problem : BilevelProblem
        Variables, status and solution are left as they were. Every method starts from the values that
        you gave the variables, never from the answer of an earlier solve (``warm_start=True``: from
        that).
    methods : sequence of str, or of pairs (name, settings)
        By default all of ``bm.methods()``.
    n_jobs : int
        Processes among which the methods are divided; -1: one for each core. Answers do not depend on
        it; times do where the processes share a core.
    **settings
        Arguments of ``solve()``, and settings of methods, each given to the methods that have it. A
        letter that stands for different settings in these methods is refused: its words say which.

    Examples
    --------
    >>> import cvxpy as cp, blomodel as bm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    >>> problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [0 <= x, x <= 2], lower)
    >>> comparison = bm.compare(problem, ["auto", "reduced-penalty"])
    >>> [str(row.method) for row in comparison.rows]
    ['auto', 'reduced-penalty']
    """
    plan = _plan(methods, settings)
    check_jobs(n_jobs)
    if n_jobs != 1 and len(plan) > 1:
        return Comparison(tuple(_run_elsewhere(problem, plan, n_jobs)), problem.sign)
    rows: list[ComparisonRow] = []
    # Compiled beforehand, so that the first method does not pay for it out of its time limit; a model
    # that cannot be compiled is reported by each method.
    with contextlib.suppress(BlomodelError):
        problem.model.compile_lower()
    with problem.kept_result():
        for name, chosen in plan:
            rows.append(_run_compiled(problem, name, chosen))
            if _is_interrupted(rows[-1].solution):
                break  # what was found by then is worth a table
    return Comparison(tuple(rows), problem.sign)


def _run_compiled(problem: BilevelProblem, name: str, settings: dict[str, Any]) -> ComparisonRow:
    with event.install_recorder("numba:compile") as compilations:
        row = _run(problem, name, settings)
    if compilations.buffer and not _is_interrupted(row.solution):
        # Kernels compiled for the first time on this machine took the time, not the method.
        row = _run(problem, name, settings)
    return row


def _is_interrupted(solution: Solution | None) -> bool:
    return solution is not None and solution.status is Status.INTERRUPTED


def _run_elsewhere(
    problem: BilevelProblem, plan: list[tuple[str, dict[str, Any]]], n_jobs: int
) -> Iterator[ComparisonRow]:
    """Each method in one of several processes, with a copy of the problem."""
    with problem.kept_result():
        problem.solution = problem.certificate = None
        tasks = [(problem, name, settings) for name, settings in plan]
        found = call_each(_run_there, tasks, n_jobs, lambda parts: _is_interrupted(parts[0]))
    for (name, settings), (solution, certificate, values, error) in zip(plan, found, strict=False):
        by_leaf = dict(zip(problem.variables, values, strict=True)) if values else {}
        yield ComparisonRow(name, settings, solution, certificate, by_leaf, error)


def _run_there(task: tuple[BilevelProblem, str, dict[str, Any]]) -> tuple[Any, ...]:
    problem, name, settings = task
    row = _run_compiled(problem, name, settings)
    values = [row.values[leaf] for leaf in problem.variables] if row.values else []
    return row.solution, row.certificate, values, row.error


def _run(problem: BilevelProblem, name: str, settings: dict[str, Any]) -> ComparisonRow:
    """One method's run from the variables' values, which it leaves as they were."""
    problem.solution = problem.certificate = None
    # The table has the reasons, so that nothing is logged.
    with kept_values(problem.variables), problem.user_start.kept(), hushed():
        try:
            problem.solve(method=name, **({"warm_start": False} | settings))
        except Exception as error:  # one method's failure must not end the comparison
            reason = " ".join(str(error).split()) or type(error).__name__
            return ComparisonRow(name, settings, None, None, {}, f"{type(error).__name__}: {reason}")
        values = {leaf: leaf.value for leaf in problem.variables}
    return ComparisonRow(name, settings, problem.solution, problem.certificate, values)


def _plan(
    methods: Iterable[str | tuple[str, Mapping[str, Any]]] | None, settings: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Each method with those of the settings that it takes."""
    classes = method_classes()
    if isinstance(methods, str):
        methods = [methods]
    wanted = [
        (item, {}) if isinstance(item, str) else (item[0], dict(item[1]))
        for item in (sorted(classes) if methods is None else methods)
    ]
    wanted = [(METHODS.own_name(name), own) for name, own in wanted]
    signature = inspect.signature(BilevelProblem.solve).parameters.values()
    common = {p.name for p in signature if p.kind is inspect.Parameter.KEYWORD_ONLY} - {"n_jobs"}
    words = {name: words_of(classes[name]) for name, _ in wanted}
    known = common.union(*words.values())
    for key in settings:
        if key not in known:
            of_any = {word: name for names in words.values() for word, name in names.items()}
            message = unknown_word("compare", key, of_any, owners_of, sorted(common))
            raise UnknownSettingError(message)
    _refuse_two_meanings(set(settings) - common, words)
    return [
        (name, _of_method(settings, own, common, words[name]) | own)  # what is given to one method wins
        for name, own in wanted
    ]


def _of_method(
    settings: Mapping[str, Any], own: Mapping[str, Any], common: set[str], words: Mapping[str, str]
) -> dict[str, Any]:
    """The settings for all methods that one of them takes, and that it has no other value for."""
    taken = {words.get(key, key) for key in own}
    return {
        key: value
        for key, value in settings.items()
        if (key in common or key in words) and words.get(key, key) not in taken
    }


def _refuse_two_meanings(keys: Iterable[str], words: Mapping[str, Mapping[str, str]]) -> None:
    """One name must mean one thing in one table."""
    for key in sorted(keys):
        meanings: dict[str, list[str]] = {}
        for name, known in words.items():
            if key in known:
                meanings.setdefault(known[key], []).append(name)
        if len(meanings) > 1:
            shown = "; ".join(f"{word!r} in {', '.join(names)}" for word, names in meanings.items())
            raise UnknownSettingError(
                f"compare: {key!r} means {shown}. Give the word that is meant, which goes to all "
                "methods that have it, or give it to one method by a pair (name, settings)."
            )
