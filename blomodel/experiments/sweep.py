"""One problem for many values of its parameters: how value and answer move."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from blomodel.basics.kept_values import kept_values
from blomodel.basics.log import hushed
from blomodel.declare.multipliers import Multiplier
from blomodel.errors import DataError
from blomodel.methods.run.parallel import call_each
from blomodel.problem import BilevelProblem
from blomodel.status import Status
from blomodel.text import html, layout

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Points that are solved one after another, each from the answer before it. A stretch begins where the
# user's start is, so that a bad branch is not followed for ever, and so that the division among
# processes does not change the answers.
STRETCH = 8


@dataclass(frozen=True, eq=False)
class SweepRow:
    """The answer for one choice of the parameters.

    Attributes
    ----------
    parameters : dict
        Each parameter's value by name.
    status : str
        What solve() says.
    value : float
        Upper objective; not a number when there is no answer.
    values : dict
        Each variable's value by name, and those of the multipliers that were asked for by
        ``Lower.multiplier``; empty when there is no answer.
    time : float
        Seconds of the whole solve().
    multipliers : dict
        Where the upper level uses a multiplier: those of the other lower constraints, by name.
    """

    parameters: dict[str, np.ndarray]
    status: str
    value: float
    values: dict[str, np.ndarray] = field(repr=False)
    time: float
    multipliers: dict[str, np.ndarray] = field(repr=False, default_factory=dict)

    def cells(self, variables: Sequence[str]) -> list[str]:
        """The row of the table."""
        shown = [layout.array(value, 4, 6) for value in self.parameters.values()]
        answer = [layout.array(self.values[name], 4, 6) if self.values else "" for name in variables]
        value = "" if np.isnan(self.value) else layout.number(self.value)
        return [*shown, value, self.status, *answer]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Answers along one or several parameters; ``print`` it for a table.

    Attributes
    ----------
    rows : tuple of SweepRow
        In the order of the values; with several parameters the last one moves fastest.
    """

    rows: tuple[SweepRow, ...]

    @property
    def parameters(self) -> list[str]:
        """Names of what was varied."""
        return list(self.rows[0].parameters)

    @property
    def variables(self) -> list[str]:
        """Names of both levels' variables, upper first, and of the multipliers that were asked for."""
        return next((list(row.values) for row in self.rows if row.values), [])

    @property
    def multipliers(self) -> list[str]:
        """Names of the other multipliers that were found, which no table shows unasked."""
        return next((list(row.multipliers) for row in self.rows if row.multipliers), [])

    @property
    def values(self) -> np.ndarray:
        """The upper objective of each row; NaN where there is no answer."""
        return np.array([row.value for row in self.rows])

    def __getitem__(self, name: str) -> np.ndarray:
        """A parameter's, a variable's or a multiplier's values, a row of the sweep in each row."""
        if name in self.parameters:
            return np.array([row.parameters[name] for row in self.rows])
        if name not in (*self.variables, *self.multipliers):
            known = ", ".join([*self.parameters, *self.variables, *self.multipliers])
            raise KeyError(f"'{name}'; there are {known}")
        answers = [row.multipliers | row.values for row in self.rows]
        shape = next(answer[name].shape for answer in answers if answer)
        return np.array([answer.get(name, np.full(shape, np.nan)) for answer in answers])

    def _head(self) -> list[str]:
        return [*self.parameters, "value", "status", *self.variables]

    def __str__(self) -> str:
        cells = [row.cells(self.variables) for row in self.rows]
        count = len(self.parameters)
        return layout.table(
            self._head(), cells, right=(*range(count + 1), *range(count + 2, len(cells[0])))
        )

    def _repr_html_(self) -> str:
        cells = [[escape(cell) for cell in row.cells(self.variables)] for row in self.rows]
        return html.table(cells, [escape(name) for name in self._head()])

    def to_frame(self, multipliers: bool = False) -> pandas.DataFrame:
        """A pandas DataFrame, a row for each choice; arrays take a column for each entry.

        Parameters
        ----------
        multipliers : bool
            Whether the multipliers that were not asked for by ``Lower.multiplier`` have columns too.
        """
        import pandas

        rows = []
        for row in self.rows:
            cells: dict[str, Any] = {}
            for name, value in row.parameters.items():
                cells.update(_entries(name, value))
            cells.update(value=row.value, status=row.status, time=row.time)
            for name in self.variables:
                cells.update(_entries(name, row.values[name]) if row.values else {})
            for name, value in row.multipliers.items() if multipliers else ():
                cells.update(_entries(name, value))
            rows.append(cells)
        return pandas.DataFrame(rows)

    def plot(self, ax: Sequence[Axes] | None = None, path: str | Path | None = None) -> Figure:
        """Draw value and answer against the parameter; with two parameters, a map of the value.

        Parameters
        ----------
        ax : two matplotlib Axes, or one, optional
            Where to draw; by default in a new figure. In one panel, the value is drawn.
        path : optional
            File to save the figure to; the ending of its name chooses the format.
        """
        from blomodel.experiments.sweep_plot import plot_sweep

        return plot_sweep(self, ax, path)


def sweep(
    problem: BilevelProblem,
    values: Mapping[cp.Parameter | str, Any],
    *,
    n_jobs: int = 1,
    **settings: Any,
) -> Sweep:
    """Solve a problem for many values of its parameters.

    The model is compiled once, and each solve begins at the answer before it; after every eight it
    begins at the variables' own values again.

    Parameters
    ----------
    problem : BilevelProblem
        Its variables, parameters, status and solution are left as they were.
    values : dict
        From ``cp.Parameter``, or its name, to a sequence of values. With several parameters every
        combination is solved.
    n_jobs : int
        Processes; -1: one for each core. The answers do not depend on it.
    **settings
        Arguments of ``solve()``.

    Examples
    --------
    >>> import cvxpy as cp, blomodel as bm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> limit = cp.Parameter(name="limit", value=1.0)
    >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= limit], variables=[y])
    >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
    >>> [round(float(value), 4) for value in bm.sweep(problem, {"limit": [0, 1, 2, 3]}).values]
    [4.0, 1.0, 0.0, 0.0]
    """
    chosen = {_parameter(problem, key): _choices(key, given) for key, given in values.items()}
    if not chosen:
        raise DataError("sweep: give a dict from a cp.Parameter, or its name, to a sequence of values.")
    for parameter, choices in chosen.items():
        for choice in choices:
            _check_value(parameter, choice)
    names = [parameter.name() for parameter in chosen]
    points = [dict(zip(names, point, strict=True)) for point in itertools.product(*chosen.values())]
    stretches = [points[first : first + STRETCH] for first in range(0, len(points), STRETCH)]
    used = problem if n_jobs == 1 or len(stretches) < 2 else _sendable(problem)
    tasks = [(used, stretch, settings) for stretch in stretches]
    found = call_each(_solve_stretch, tasks, n_jobs, _is_interrupted)
    return Sweep(tuple(row for rows in found for row in rows))


def _is_interrupted(rows: list[SweepRow]) -> bool:
    return rows[-1].status == Status.INTERRUPTED


def _solve_stretch(
    task: tuple[BilevelProblem, list[dict[str, Any]], dict[str, Any]],
) -> list[SweepRow]:
    """Solve for some choices, each from the answer before it."""
    problem, points, settings = task
    parameters = {parameter.name(): parameter for parameter in problem.levels.parameters}
    variables = (*problem.levels.upper, *problem.levels.lower)
    varied = [parameters[name] for name in points[0]]
    before = [parameter.value for parameter in varied]
    rows = []
    try:
        with problem.kept_result(), kept_values(variables), hushed():
            for point in points:
                for name, value in point.items():
                    parameters[name].value = value
                rows.append(_solve_one(problem, point, variables, settings))
                if _is_interrupted(rows):
                    break
    finally:
        for parameter, value in zip(varied, before, strict=True):
            parameter.value = value
    return rows


def _solve_one(
    problem: BilevelProblem,
    point: dict[str, Any],
    variables: Sequence[cp.Variable],
    settings: dict[str, Any],
) -> SweepRow:
    start = [variable.value for variable in variables]
    problem.solve(**settings)
    solution = problem.solution
    assert solution is not None  # solve() leaves one behind or raises
    has_point = solution.status.has_point
    if not has_point:  # where there is no answer, the next one begins where this one did
        for variable, value in zip(variables, start, strict=True):
            variable.save_value(value)
    asked = {m.id for follower in problem.followers for m in follower.multipliers.values()}
    values: dict[str, np.ndarray] = {}
    multipliers: dict[str, np.ndarray] = {}
    for variable in variables if has_point else ():
        is_unasked = isinstance(variable, Multiplier) and variable.id not in asked
        (multipliers if is_unasked else values)[variable.name()] = np.array(variable.value, float)
    return SweepRow(
        parameters={name: np.asarray(value, float) for name, value in point.items()},
        status=str(solution.status),
        value=float(solution.value) if has_point else np.nan,
        values=values,
        time=solution.total_time,
        multipliers=multipliers,
    )


def _sendable(problem: BilevelProblem) -> BilevelProblem:
    """A copy without what was compiled, which other processes compile anew."""
    other = copy.copy(problem)
    for name in ("model", "plain_model", "chain", "plain_chain"):
        vars(other).pop(name, None)
    other.solution = other.certificate = None
    return other


def _parameter(problem: BilevelProblem, key: cp.Parameter | str) -> cp.Parameter:
    """The problem's parameter that was meant."""
    known = {parameter.name(): parameter for parameter in problem.levels.parameters}
    name = key if isinstance(key, str) else getattr(key, "name", lambda: str(key))()
    found = known.get(name)
    if found is None or (not isinstance(key, str) and found is not key):
        there = f"it has {', '.join(known)}" if known else "it has none; data that vary are cp.Parameter"
        raise DataError(f"sweep: the problem has no parameter '{name}': {there}.")
    if len(known) < len(problem.levels.parameters):
        raise DataError("sweep: two parameters have one name; give them different ones.")
    return found


def _choices(key: Any, given: Any) -> list[Any]:
    try:
        choices = list(given)
    except TypeError:
        choices = []
    if not choices:
        name = key if isinstance(key, str) else key.name()
        raise DataError(f"sweep: the values of '{name}' must be a sequence with at least one entry.")
    return choices


def _check_value(parameter: cp.Parameter, value: Any) -> None:
    before = parameter.value
    try:
        parameter.value = value
    except ValueError as error:
        raise DataError(f"sweep: {value} cannot be a value of '{parameter.name()}': {error}") from error
    finally:
        parameter.value = before


def _entries(name: str, value: np.ndarray) -> dict[str, float]:
    """An array's entries with names of their own, as ``x[0]`` or ``A[1, 2]``."""
    if value.ndim == 0:
        return {name: float(value)}
    return {f"{name}{list(index)}": float(value[index]) for index in np.ndindex(value.shape)}
