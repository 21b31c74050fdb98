"""What a solve leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import DataError
from blomodel.status import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from blomodel.certification.certificate import Certificate
    from blomodel.methods.run.run_state import RunState
    from blomodel.problem import BilevelProblem
    from blomodel.report.background import Background
    from blomodel.solve.no_answer import NoAnswer


@dataclass(frozen=True, eq=False)
class Solution:
    """How an answer was found.

    Attributes
    ----------
    method : str
        Name of the method that ran.
    source : str
        The part of the method that found the point.
    iterations, evaluations : int
        Steps of the method, and evaluations of its functions.
    compile_time, solve_time, certify_time : float
        Seconds for each stage; ``compile_time`` is next to nothing when the problem was compiled before.
    history : dict of arrays
        Figures such as "time", "iteration", "value", "gap", "gamma", "x"; NaN where a row lacks one.
        Methods that call solvers leave a row for each step; compiled loops now and then, after 1, 3, 6,
        11, ... iterations, and with ``history_every=1`` for each, then with "y" and "lower_value" too.
        Values are stated for minimisation: see ``sign``.
    multipliers : list of arrays
        Multipliers of the lower constraints, in the order in which they were given.
    stopped_by : str or None
        "time limit", "iteration limit", "its stop rule" or "user" when the method did not end by itself.
    notes : tuple of str
        Remarks of the method.
    no_answer : NoAnswer or None
        Why there is no answer, where there is none.
    sign : float
        +1 when the upper level minimises, -1 when it maximises.
    settings : dict
        What ``solve()`` was given.
    values : dict of arrays
        Each variable's value by name; empty when there is no point.
    iterate : dict of arrays
        Where the iteration itself ended, each variable by name; empty for methods that do not move one
        point. The answer may be another point: often the same x with the exact lower minimiser in the
        place of y. Papers on first-order methods report this one; nothing is certified about it. After a
        run that diverged it is what the iteration was stopped with, which may hold NaN or infinity; a
        note says after how many iterations that was seen, and the status is "diverged".
    certificate : Certificate or None
        The check of the answer.
    inner_solvers : dict
        How many inner problems each solver answered, by name: the lower level at many x, pieces of the
        KKT conditions, the certificate's check.
    solver_troubles : dict
        How often a solver failed, broke off or gave a point that did not hold, by name; each time the
        next one was asked, or the answer says that it could not be computed.
    run_state : RunState or None
        Where a run that was stopped stood: ``solve(resume=solution)`` goes on from there.
    problem : BilevelProblem or None
        What was solved; left behind when a solution is pickled, with ``background`` in its place.
    """

    status: Status
    method: str
    source: str
    value: float
    iterations: int
    evaluations: int
    compile_time: float
    solve_time: float
    certify_time: float
    stopped_by: str | None
    notes: tuple[str, ...]
    history: dict[str, np.ndarray] = field(repr=False)
    multipliers: list[np.ndarray] = field(repr=False)
    no_answer: NoAnswer | None = None
    sign: float = field(default=1.0, repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    values: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    iterate: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    certificate: Certificate | None = field(default=None, repr=False)
    problem: BilevelProblem | None = field(default=None, repr=False)
    inner_solvers: dict[str, int] = field(default_factory=dict, repr=False)
    solver_troubles: dict[str, int] = field(default_factory=dict, repr=False)
    run_state: RunState | None = field(default=None, repr=False)

    @property
    def bound(self) -> float | None:
        """No feasible point has a better upper objective than this; None: no bound is known."""
        return None if self.certificate is None else self.certificate.bound

    @property
    def gap(self) -> float | None:
        """How far value and bound are apart, relative to 1 + abs(bound); None: not known."""
        return None if self.certificate is None else self.certificate.gap

    @property
    def total_time(self) -> float:
        """Seconds from the call of solve() to its return."""
        return self.compile_time + self.solve_time + self.certify_time

    @cached_property
    def background(self) -> Background | None:
        """Model, structure and versions in words and numbers; travels with a pickled solution."""
        if self.problem is None:
            return None
        from blomodel.report.background import describe

        try:
            return describe(self.problem)
        except DataError:  # a parameter has lost its value since
            return None

    def plot(self, ax: Axes | Sequence[Axes] | None = None, path: str | Path | None = None) -> Figure:
        """Draw how the solve went: value, lower gap, stationarity, penalty weight, step size.

        Only figures that the method recorded are drawn, one panel each. Compiled loops measure the
        lower gap now and then, where the lower level is convex and small.

        Parameters
        ----------
        ax : matplotlib Axes or a sequence of them, optional
            Where to draw, panel by panel; by default in a new figure.
        path : optional
            File to save the figure to; the ending of its name chooses the format.
        """
        from blomodel.report.convergence import plot_convergence

        return plot_convergence(self, ax=ax, path=path)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page about the model, the way to the answer, and its check."""
        from blomodel.report.page import write_report

        return write_report(self, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All that was found as plain numbers, words, lists and dicts."""
        from blomodel.report.solution_data import solution_data

        return solution_data(self)

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON; numbers that JSON lacks are the words "inf", "-inf" and "nan"."""
        from blomodel.report.solution_data import as_json

        return as_json(self.to_dict(), indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON to a file, which ``bm.load_solution`` reads.

        Where the run was stopped, by a limit or by the user, the file also holds what it needs to go on:
        ``problem.solve(resume=path)``, in another process too.
        """
        from blomodel.report.solution_data import as_json, with_run

        target = Path(path)
        # Written beside it first: a crash in the middle leaves the old file, not half a new one.
        part = target.with_name(f"{target.name}.part")
        part.write_text(as_json(with_run(self), indent=1) + "\n", encoding="utf-8")
        part.replace(target)
        return target

    def history_frame(self) -> DataFrame:
        """The history as a pandas DataFrame: a row for each step, a column for each entry of x.

        Values are in the user's sense, also where the upper level maximises. Needs pandas.
        """
        from blomodel.report.frames import history_frame

        return history_frame(self)

    def __str__(self) -> str:
        from blomodel.report import text

        return text.solution(self)

    def _repr_html_(self) -> str:
        from blomodel.report.html import solution_html

        return solution_html(self)

    def __getstate__(self) -> dict[str, Any]:
        # cvxpy objects and compiled functions stay behind; what a report says about them comes along.
        background = self.background
        return {**self.__dict__, "problem": None, "background": background}
