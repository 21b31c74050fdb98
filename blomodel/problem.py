"""The two levels as a user states them, and the way from there to a certified answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.analysis.levels import (
    Levels,
    check_constants,
    check_constraints,
    check_lower_variables,
    check_objective,
    check_parameters,
    sort_levels,
)
from blomodel.solution import Solution
from blomodel.status import Status

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.analysis.structure import Structure
    from blomodel.certificate import Certificate
    from blomodel.compiler.model import Model

Objective: TypeAlias = Any  # cvxpy.Minimize or cvxpy.Maximize; cvxpy leaves its args untyped


class Lower:
    """The lower level: it answers the upper level's decision with a minimiser (or maximiser).

    Parameters
    ----------
    objective : cvxpy.Minimize or cvxpy.Maximize
    constraints : list of cvxpy constraints
        They may hold upper variables (coupled constraints).
    variables : list of cvxpy.Variable
        What the lower level decides; every other variable belongs to the upper level.
    name : str, optional
        Used in messages.
    """

    def __init__(
        self,
        objective: Objective,
        constraints: Iterable[Constraint] = (),
        variables: Sequence[cp.Variable] | None = None,
        name: str | None = None,
    ) -> None:
        check_objective(objective, "lower")
        self.objective = objective
        self.constraints = check_constraints(constraints, "lower")
        self.variables = check_lower_variables(variables)
        self.name = name or "lower level"

    @property
    def sign(self) -> float:
        """+1 when the level minimises, -1 when it maximises."""
        return 1.0 if isinstance(self.objective, cp.Minimize) else -1.0


class BilevelProblem:
    """An upper level that decides x, knowing that the lower level answers with an optimal y.

    Among several optimal answers the one that suits the upper level is taken (the optimistic
    convention).

    Parameters
    ----------
    objective : cvxpy.Minimize or cvxpy.Maximize
        Of the upper level; may hold both levels' variables.
    constraints : list of cvxpy constraints
        Of the upper level; may hold lower variables.
    lower : Lower
    variables : list of cvxpy.Variable, optional
        The upper variables, if they shall be checked; by default all that the lower level does not
        decide.

    Examples
    --------
    >>> import cvxpy as cp, blomodel as bm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
    >>> round(problem.solve(), 4)
    1.0
    >>> str(problem.status)
    'optimal'
    """

    def __init__(
        self,
        objective: Objective,
        constraints: Iterable[Constraint] = (),
        lower: Lower | None = None,
        variables: Sequence[cp.Variable] | None = None,
    ) -> None:
        from blomodel.errors import ModelError

        check_objective(objective, "upper")
        if not isinstance(lower, Lower):
            raise ModelError(
                f"The lower level is {type(lower).__name__}; pass lower=bm.Lower(objective, "
                "constraints, variables=[...])."
            )
        self.objective = objective
        self.constraints = check_constraints(constraints, "upper")
        self.lower = lower
        self.levels: Levels = sort_levels(
            [objective.args[0], *self.constraints],
            lower.objective.args[0],
            lower.constraints,
            lower.variables,
            variables,
        )
        check_constants(
            [objective.args[0], *self.constraints, lower.objective.args[0], *lower.constraints]
        )
        self.status: Status | None = None
        self.solution: Solution | None = None
        self.certificate: Certificate | None = None
        self._value: float | None = None

    @property
    def sign(self) -> float:
        """+1 when the upper level minimises, -1 when it maximises."""
        return 1.0 if isinstance(self.objective, cp.Minimize) else -1.0

    @property
    def value(self) -> float | None:
        """Upper objective at the answer, as the user wrote it; None before solve()."""
        return self._value

    @property
    def variables(self) -> tuple[cp.Variable, ...]:
        """Variables of both levels, upper first."""
        return (*self.levels.upper, *self.levels.lower)

    @property
    def parameters(self) -> tuple[cp.Parameter, ...]:
        """Parameters that occur at either level."""
        return self.levels.parameters

    @cached_property
    def model(self) -> Model:
        """The compiled model; made once, whatever the parameters' values."""
        from blomodel.compiler.model import Model

        return Model(
            self.sign * self.objective.args[0] if self.sign < 0 else self.objective.args[0],
            self.constraints,
            -self.lower.objective.args[0] if self.lower.sign < 0 else self.lower.objective.args[0],
            self.lower.constraints,
            self.levels,
        )

    @property
    def structure(self) -> Structure:
        """Facts about the problem, each with what shows it."""
        from blomodel.analysis.structure import Structure

        self.check_data()
        return Structure(self)

    def explain(self) -> str:
        """What the problem is, which way ``auto`` takes, and why."""
        return self.structure.explain()

    def check_data(self) -> None:
        """Raise when a parameter has no value or one that is not finite."""
        check_parameters(self.levels.parameters)

    def parameter_values(self) -> np.ndarray:
        """The parameters' present values as one vector."""
        return self.model.p.pack()

    def solve(
        self,
        method: str = "auto",
        *,
        verbose: bool = False,
        time_limit: float | None = None,
        max_iterations: int | None = None,
        tolerance: float = 1e-6,
        seed: int = 0,
        **settings: Any,
    ) -> float:
        """Solve, set every variable's value, and certify the answer.

        Parameters
        ----------
        method : str
            See ``bm.methods()``.
        verbose : bool
            Show value, gap and penalty weight while solving: a live line on a terminal, else plain
            lines, at most two a second.
        time_limit, max_iterations : optional
            When reached, the best point so far is certified and returned.
        tolerance : float
            Largest relative violation and lower gap of an acceptable answer.
        seed : int
            Of the start points; the same seed gives the same answer.
        **settings
            Settings of the method.

        Returns
        -------
        float
            The upper objective; inf (or -inf when maximising) when there is no answer.
        """
        from blomodel.progress import show_progress
        from blomodel.solving import solve_problem
        from blomodel.threads import one_blas_thread

        began = time.perf_counter()
        shown = show_progress(
            self, method, verbose, time_limit=time_limit, max_iterations=max_iterations
        )
        with one_blas_thread(), shown as progress:
            return solve_problem(
                self,
                method,
                began=began,
                progress=progress,
                time_limit=time_limit,
                max_iterations=max_iterations,
                tolerance=tolerance,
                seed=seed,
                settings=settings,
            )

    def plot(
        self,
        span: Any = None,
        gammas: Sequence[float] | None = None,
        points: int | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        path: str | Path | None = None,
    ) -> Figure:
        """Draw what the upper level sees over its one or two unknowns.

        With one unknown: the value phi(x) at the lower answer, the penalised F_gamma(x), kinks and
        jumps, the steps of the last solve, and below them the lower answer itself. With two: maps of phi
        and F_gamma.

        Parameters
        ----------
        span : pair of float, or two pairs, optional
            Range of each unknown; by default its bounds, or around the points of the last solve.
        gammas : sequence of float, optional
            Weights of the penalised curves; an empty list draws none.
        points : int, optional
            Values of each unknown to evaluate.
        ax : matplotlib Axes or a sequence of them, optional
            Where to draw, panel by panel; by default in a new figure.
        path : optional
            File to save the figure to; the ending of its name chooses the format.
        """
        from blomodel.report.problem_plot import plot_problem

        return plot_problem(self, span=span, gammas=gammas, points=points, ax=ax, path=path)

    def _repr_latex_(self) -> str:
        from blomodel.report.model_math import model_latex

        return f"$$\n{model_latex(self)}\n$$"

    def __repr__(self) -> str:
        upper = ", ".join(variable.name() for variable in self.levels.upper)
        lower = ", ".join(variable.name() for variable in self.levels.lower)
        return f"BilevelProblem(upper: {upper}; lower: {lower}; status: {self.status})"
