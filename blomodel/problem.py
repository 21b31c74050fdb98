"""The two levels as a user states them, and the way from there to a certified answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from blomodel.basics.collector import resting_collector
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.interrupts import Interrupts
from blomodel.declare.followers import Lower
from blomodel.studies.answering import AnsweringProblem
from blomodel.text.explanation import Explanation

__all__ = ["BilevelProblem", "Lower", "read"]

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.methods.portfolio.plan import Plan
    from blomodel.reformulations.reformulation import Reformulation
    from blomodel.solution import Solution
    from blomodel.solve.listening import State
    from blomodel.studies.pessimistic import Pessimistic
    from blomodel.studies.sensitivity import Sensitivity


class BilevelProblem(AnsweringProblem):
    """An upper level that decides x, knowing that the lower level answers with an optimal y.

    Among several optimal answers the one that suits the upper level is taken (the optimistic
    convention).

    Parameters
    ----------
    objective : cvxpy.Minimize or cvxpy.Maximize
        Of the upper level; may contain both levels' variables.
    constraints : list of cvxpy constraints
        Of the upper level; may contain lower variables.
    lower : Lower, list of Lower, or Nash
        Several followers each have their own variables. In a list none sees what the others do; in a
        ``bm.Nash`` they do, and answer with an equilibrium.
    variables : list of cvxpy.Variable, optional
        The upper variables, if they shall be checked; by default all that the lower level does not
        decide.
    transformations : list of Transformation, optional
        Further ways to state the problem differently before it is solved; answers come back in the
        variables and units of the problem as it was stated.

    Attributes
    ----------
    status : Status or None
        What the last solve may claim, ``problem.status == "optimal"`` for example; None before.
    value : float or None
        The upper objective at the answer, in the user's sense; None before a solve.
    solution : Solution or None
        How the answer was found: method, history, times.
    certificate : Certificate
        The check of the answer; asking for it before a solve is an error that says so.
    objective, constraints
        The upper level as it was stated.
    followers : tuple of Lower
        The lower level as it was stated.
    lower : Lower
        What stands for all followers at once, with their multipliers where the upper level uses one.
    levels : Levels
        Whose variable is whose.

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

    def explain(self) -> Explanation:
        """What the problem is, which methods apply, what ``auto`` does, and what came of a solve.

        The result is a string that prompts and notebooks show with its lines.
        """
        from blomodel.solve.explanation import explain

        return Explanation(explain(self))

    def plan(self, n_starts: int | None = None) -> Plan:
        """What ``auto`` will try, in which order and why, and what it leaves out.

        Parameters
        ----------
        n_starts : int, optional
            The setting of ``auto`` of this name.
        """
        from blomodel.methods.portfolio.plan import make_plan

        self.check_data()
        return make_plan(self.model, self.parameter_values(), n_starts)

    def reformulate(self, name: str) -> Reformulation:
        """The problem as a problem of one level, to read, evaluate or solve elsewhere.

        Parameters
        ----------
        name : str
            "value-function", "value-function-reduced", "moreau", "stationarity", "kkt" or
            "strong-duality".

        Examples
        --------
        >>> import cvxpy as cp, blomodel as bm
        >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
        >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
        >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [], lower)
        >>> kkt = problem.reformulate("kkt")
        >>> kkt.exactness, [multiplier.name() for multiplier in kkt.multipliers]
        ('equivalent', ['lambda_1'])
        >>> print(kkt.problem.constraints[0])
        stationarity in y: 2.0 * (y + -x) + lambda_1 == 0.0
        """
        from blomodel.reformulations.reformulation import create_reformulation

        return create_reformulation(self, name)

    def write(self, path: str | Path, aux: str | Path | None = None) -> tuple[Path, Path]:
        """Write a linear problem as an MPS file and the auxiliary file that MibS and BOBILib use.

        The upper objective is written as something to minimise. Bounds of single variables become
        bounds of columns, parameters their present values.

        Parameters
        ----------
        path : str or Path
            The MPS file.
        aux : str or Path, optional
            The auxiliary file; by default beside the other one, with the ending ``.aux``.

        Returns
        -------
        tuple of Path
            Both files.
        """
        from blomodel.files.linear_bilevel import write_files

        self.check_data()
        return write_files(self.plain_model, self.parameter_values(), path, aux, self.sign < 0)

    def solve(
        self,
        method: str = "auto",
        *,
        verbose: bool | int = False,
        time_limit: float | None = None,
        max_iterations: int | None = None,
        tolerance: float = 1e-6,
        optimality_gap: float = 1e-4,
        seed: int = 0,
        n_jobs: int = 1,
        solver: str | None = None,
        solver_opts: Mapping[str, Any] | None = None,
        warm_start: bool = True,
        callback: Callable[[State], object] | None = None,
        history_every: int | None = None,
        resume: Solution | str | Path | None = None,
        **settings: Any,
    ) -> float:
        """Solve, set every variable's value, and certify the answer.

        Parameters
        ----------
        method : str
            See ``bm.methods()``.
        verbose : bool or int
            1 or True: show value, gap and penalty weight while solving, as a live line on a terminal,
            else as plain lines, at most two a second. 2: first what will be tried, then a line for
            every step. The logger ``blomodel`` of the standard ``logging`` is told the same: outcomes
            at INFO, steps at DEBUG, a missing answer at WARNING.
        time_limit, max_iterations : optional
            When reached, the best point so far is certified and returned.
        tolerance : float
            Largest relative violation and lower gap of an acceptable answer.
        optimality_gap : float
            Largest difference of value and bound, relative to 1 + abs(bound), at which an answer is
            called ``optimal``.
        seed : int
            Of the start points; the same seed gives the same answer.
        n_jobs : int
            Processes that work at once on starts, independent parts and subtrees, where there are any;
            -1: one for each core. Above 1 this needs joblib, whose ``parallel_config`` also sends them
            to a Dask or Ray cluster.
        solver : str, optional
            The inner solver to ask first, in any case: "active-set", "osqp", "clarabel", "highs",
            "ipopt", "uno", "slsqp", or one of your own. It is asked for the problems that it takes;
            where it fails, the usual ones follow. ``solution.inner_solvers`` tells who answered.
        solver_opts : dict, optional
            Options of that solver, in its own words.
        warm_start : bool
            Begin at the variables' present values, which are the last answer's after a solve. False:
            begin at the values that you have set yourself, or without any.
        callback : callable, optional
            Called with the run's state (iteration, best value so far, bound, best point: see ``State``)
            at every step, and once at the end. If it returns True, the run stops, and the best point so
            far is certified. If it raises, the same is done first, then the exception goes on.
        history_every : int, optional
            Record a row of ``solution.history`` every so many iterations; by default at every step
            of methods that work in Python, and a few times a second of compiled loops.
        resume : Solution, str or Path, optional
            Go on with a run that a limit or Ctrl-C has stopped: a solution, or the file that its
            ``save()`` wrote. Method and settings are those of the run; ``time_limit`` and
            ``max_iterations`` count from here. Compiled methods go on bit by bit as if they had not
            been stopped, trees from their open nodes, others from their best point and bound.
        **settings
            Settings of the method.

        Returns
        -------
        float
            The upper objective; inf (or -inf when maximising) when there is no answer.
        """
        from blomodel.solve.interrupted import mark_interrupted

        with Interrupts() as interrupts:
            value = self._solve(
                interrupts, method, verbose, solver, solver_opts, resume,
                time_limit=time_limit, max_iterations=max_iterations, tolerance=tolerance,
                optimality_gap=optimality_gap, seed=seed, n_jobs=n_jobs, settings=settings,
                warm_start=warm_start, callback=callback, history_every=history_every,
            )  # fmt: skip
        if interrupts.has_come:
            mark_interrupted(self)
        return value

    def _solve(
        self,
        interrupts: Interrupts,
        method: str,
        verbose: bool | int,
        solver: str | None,
        solver_opts: Mapping[str, Any] | None,
        resume: Solution | str | Path | None,
        **arguments: Any,
    ) -> float:
        """Solve; the first Ctrl-C from here on is kept for a good moment."""
        began = time.perf_counter()
        with resting_collector():
            from blomodel.methods.run.arguments import check_switch, check_verbosity
            from blomodel.methods.run.registry import METHODS
            from blomodel.methods.run.settings import has_stated_units
            from blomodel.solve.progress import show_progress
            from blomodel.solve.resuming import arguments_of, stopped_run
            from blomodel.solve.solving import solve_problem
            from blomodel.solvers.choice import choose_solver
            from blomodel.solvers.threads import one_blas_thread
            from blomodel.studies.upper_duals import set_upper_duals

        limit = arguments["time_limit"]
        if isinstance(limit, int | float):  # the first solve imports a lot: at most half of the limit
            began = max(began, time.perf_counter() - 0.5 * limit)
        resumed = None
        if resume is not None:
            resumed = stopped_run(self, resume)
            method, arguments = arguments_of(resumed, method, arguments)
        choice = choose_solver(solver, solver_opts)
        shown = show_progress(
            self,
            method,
            check_verbosity(verbose),
            time_limit=arguments["time_limit"],
            max_iterations=arguments["max_iterations"],
        )
        check_switch("warm_start", arguments["warm_start"])
        settings = arguments["settings"]
        with resting_collector():  # the method's file is imported
            is_known = isinstance(method, str) and method in METHODS
        is_in_own_units = is_known and has_stated_units(METHODS[method], settings)
        units = self.in_stated_units() if is_in_own_units else nullcontext()
        with one_blas_thread(), shown as progress, units:
            value = solve_problem(
                self,
                method,
                began=began,
                interrupts=interrupts,
                progress=progress,
                choice=choice,
                resumed=resumed,
                **arguments,
            )
            set_upper_duals(self, NEVER if limit is None else Deadline(began + limit))
            return value

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

    def explore(
        self,
        path: str | Path,
        span: Any = None,
        gammas: Sequence[float] = (0.1, 1.0, 10.0),
        points: int = 121,
    ) -> Path:
        """Write a page on which x is moved by a slider, for problems with one upper unknown.

        It shows the lower problem at that x, the lower answer, phi(x) and F_gamma(x). All values are
        computed now, so that the page needs neither Python nor a network; ``page.html#x=1.5`` opens it
        at that x.

        Parameters
        ----------
        path : str or Path
            The HTML file to write.
        span : pair of float, optional
            Range of x; by default its bounds, or around the points of the last solve.
        gammas : sequence of float
            Weights of the penalised curves.
        points : int
            Stops of the slider.

        Returns
        -------
        Path
            Of the file.
        """
        from blomodel.report.explore import write_exploration

        return write_exploration(self, path, span=span, gammas=gammas, points=points)

    def _repr_latex_(self) -> str:
        from blomodel.report.model_math import model_latex

        return f"$$\n{model_latex(self)}\n$$"

    def pessimistic(self, x: object = None, *, search: int = 0) -> Pessimistic:
        """What the upper level gets when the lower level chooses against it.

        Among the lower minimisers at the answer's x (the problem is solved first if need be), the one
        with the worst upper objective is looked for: by a convex program where the upper objective is
        concave (or affine) in y, else by branch and bound. ``bound``, ``gap`` and ``status`` of the
        result tell whether it is proven.

        Parameters
        ----------
        x : array, or dict from variable to array, optional
            Another decision of the upper level to look at.
        search : int
            Look at about this many x and return the one with the best pessimistic value, among those at
            which no lower minimiser found violates an upper constraint. This is a search, no proof;
            ``best_bound`` tells how much better another x may be.

        Examples
        --------
        The follower does not care about y, so the upper level may get anything from 1 to 4.

        >>> import cvxpy as cp, blomodel as bm
        >>> x, y, z = cp.Variable(name="x"), cp.Variable(name="y"), cp.Variable(name="z")
        >>> lower = bm.Lower(cp.Minimize((z - x) ** 2), [0 <= y, y <= 3, y + z >= 0], variables=[y, z])
        >>> problem = bm.BilevelProblem(cp.Minimize(1 + x**2 + y), [], lower)
        >>> round(problem.solve(), 6)
        1.0
        >>> result = problem.pessimistic()
        >>> [round(value, 6) for value in result.bracket], result.lower_is_unique, result.is_proven
        ([1.0, 4.0], False, True)
        """
        from blomodel.solvers.threads import one_blas_thread
        from blomodel.studies.pessimistic import look_pessimistically

        with one_blas_thread():
            return look_pessimistically(self, x, search)

    def sensitivity(self) -> Sensitivity:
        """Derivative of the optimal value in each ``cp.Parameter``, at the answer of the last solve.

        A parameter without a derivative has None, and ``reasons`` says why: a kink, an answer that is
        not isolated, multipliers that are not determined.

        Examples
        --------
        >>> import cvxpy as cp, blomodel as bm
        >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
        >>> target = cp.Parameter(value=3.0, name="target")
        >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
        >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - target) ** 2), [], lower)
        >>> round(problem.solve(), 6)
        4.0
        >>> round(float(problem.sensitivity()[target]), 6)
        4.0
        """
        from blomodel.studies.sensitivity import find_sensitivity

        if self.solution is None:
            self.solve()
        return find_sensitivity(self)

    def __str__(self) -> str:
        from blomodel.report import text

        return text.model(self)

    def __repr__(self) -> str:
        upper = ", ".join(variable.name() for variable in self.levels.upper)
        lower = ", ".join(variable.name() for variable in self.levels.lower)
        return f"BilevelProblem(upper: {upper}; lower: {lower}; status: {self.status})"


def read(mps: str | Path, aux: str | Path | None = None) -> BilevelProblem:
    """A linear bilevel problem from an MPS file and its auxiliary file, as MibS and BOBILib have them.

    The upper columns are one vector ``x``, the lower ones one vector ``y``, in the order of the files;
    bounds of lower columns belong to the lower level. In interdiction files the MPS file is the
    follower's, and the upper level decides which of its columns to forbid.

    Parameters
    ----------
    mps : str or Path
        Both levels' columns and rows, and the upper objective.
    aux : str or Path, optional
        What belongs to the lower level; by default the file of the same name that ends in ``.aux``.

    Raises
    ------
    FileFormatError
        With the file and the line that cannot be understood.
    """
    from blomodel.files.linear_bilevel import read_parts

    parts = read_parts(mps, aux)
    return BilevelProblem(parts.objective, parts.constraints, parts.lower)
