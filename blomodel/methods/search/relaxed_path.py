"""Relaxed complementarity, driven to zero from a start: one path of nonlinear programs by IPOPT.

A large t first: there the feasible set is connected and smooth, and the local solution found is often a
good one. Then t goes to zero, each search beginning where the last one ended. At the end every pair
takes the side on which it lies, and one more search on that piece makes the point exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.compiler.tape import Tape
from blomodel.errors import NonconvexLowerError
from blomodel.kernels import machine as op
from blomodel.methods.run.run import Candidate, Run
from blomodel.methods.run.starts import Start
from blomodel.methods.search.pieces import answer_below, exact_pieces, improve_by_pieces, is_large
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.reformulations.forms.relaxed_kkt import RelaxedKKT
from blomodel.solvers.direct import End, is_available
from blomodel.transformations.kinks import with_smooth_functions

if TYPE_CHECKING:
    from blomodel.transformations.equivalent import Equivalent


Array = np.ndarray
# Of t, in units of the problem: from products as large as parts of the lower objective to almost none.
LEVELS = (1.0, 1e-2, 1e-4, 1e-6)
LAST_LEVEL = 1e-8  # where the piece on which the path has ended holds no point
_KINKS = (op.ABS, op.MAXIMUM, op.MINIMUM, op.SEGMENT_MAX, op.LARGEST, op.NORM)
TINY = 1e-9  # below it, the parts of the lower objective tell nothing about its units
SAME = 1e-4  # relative distance below which two ends count as one
MOST_ITERATIONS = 500  # of one search, at the first level of effort
POLISHING_ROUNDS = 5
# Adaptive barrier parameters took a half to a third of the iterations of the monotone rule.
OPTIONS: dict[str, Any] = {"mu_strategy": "adaptive", "acceptable_tol": 1e-7}
ACCURACY = 1e-9  # of the last search; those before need less
# A search that goes on from an earlier end shall not be pushed away from its bounds.
_NEAR = 1e-6
WARM = {
    "warm_start_bound_push": _NEAR,
    "warm_start_bound_frac": _NEAR,
    "warm_start_slack_bound_push": _NEAR,
    "warm_start_slack_bound_frac": _NEAR,
    "warm_start_mult_bound_push": _NEAR,
}


def why_not(model: Model) -> str | None:
    """What keeps the path from a model."""
    if not is_available():
        return "IPOPT is not installed here (pip install cyipopt-wheels)"
    if not model.has_smooth_kkt or model.upper_in.spectral:
        return "a matrix inequality has no rows with a multiplier each"
    if _has_kinks(model.g) and _has_kinks(with_smooth_functions(model).model.g):
        return "the lower objective has kinks, such as Euclidean norms, that no rows can stand for"
    return None


def _has_kinks(objective: Tape) -> bool:
    """Whether the gradient in y jumps where y is a minimiser, so that no equations describe it."""
    holds_y: list[bool] = []
    for node in objective.nodes:
        is_y = node.op == op.INPUT and objective.input_names[node.data] == "y"
        holds_y.append(is_y or any(holds_y[arg] for arg in node.args))
    kinks = zip(objective.nodes, holds_y, strict=True)
    return any(node.op in _KINKS and found for node, found in kinks)


class RelaxedPath:
    """Paths of one run's problem; the program is compiled once.

    Parameters
    ----------
    run : Run

    Raises
    ------
    TooLargeError
        Where the derivatives would not fit into memory.
    """

    smooth: Equivalent
    model: Model
    form: RelaxedKKT

    def __init__(self, run: Run) -> None:
        self.run = run
        self.smooth = with_smooth_functions(run.model)
        self.model = self.smooth.model
        self.form = RelaxedKKT(self.model, run.p)
        self._ends: dict[tuple[float, int], list[Array]] = {}
        self._unit = self._slope = 0.0
        low, high = run.model.bounds(run.p)
        has_both = np.isfinite(low) & np.isfinite(high)
        middle = np.zeros(len(low))
        middle[has_both] = (low[has_both] + high[has_both]) / 2
        self._measure_unit(self._begin(np.clip(middle, low, high)))

    def follow(self, x: Array, *, first: float = 1.0, effort: int = 0) -> float:
        """Drive t to zero from an x; the upper objective reached, infinite where there is none.

        Parameters
        ----------
        x : array
        first : float
            A factor of t. Where it is large all starts end alike, where it is small each for itself.
        effort : int
            Each search is allowed twice as many iterations for each unit of it.
        """
        run = self.run
        z = self._begin(x)
        self._offer_answer(*self._point(z))
        if not self.form.has_complementarity:
            end = self._search(z, LAST_LEVEL, None, effort)
            return self._polish(z if end is None else end.z)
        end, unit = None, first * self._measure_unit(z)
        for number, level in enumerate(LEVELS):
            end = self._search(z, level, end, effort, unit)
            best = run.best()
            if best is not None and run.is_proven:  # by the lower answer on the way
                return best.value
            if end is None:
                break
            z = end.z
            if number < len(LEVELS) - 1 and self._is_known(z, (first, number)):
                return np.inf
        reached = self._polish(z)
        if not np.isfinite(reached) and end is not None:
            run.check_limits()
            end = self._search(z, LAST_LEVEL, end, effort, unit)
            reached = reached if end is None else self._polish(end.z)
        return reached

    def _search(
        self, z: Array, level: float, before: End | None, effort: int, unit: float = 1.0
    ) -> End | None:
        """One program of the path, from where the one before has ended; None without numbers."""
        run = self.run
        run.check_limits()
        accuracy = max(ACCURACY, min(1e-4, 1e-2 * level))
        options = self._options | {"tol": accuracy, "max_iter": MOST_ITERATIONS << effort}
        multipliers = before.multipliers if before is not None and before.is_converged else None
        if multipliers is not None:
            options |= WARM | {"mu_init": min(1e-2, 10 * level)}
        end = self.form.search(z, level * unit, run.deadline, multipliers=multipliers, options=options)
        run.evaluations += end.iterations
        if not np.all(np.isfinite(end.z)):
            return None
        x, y = self._point(end.z)
        self._offer_answer(x, y)
        run.step(x=x, value=end.value, relaxation=level)
        return end

    @property
    def _options(self) -> dict[str, Any]:
        """With f in units of its own slope, since IPOPT's accuracy is an absolute one."""
        return OPTIONS | {"obj_scaling_factor": 1 / self._slope if self._slope > TINY else 1.0}

    def _measure_unit(self, z: Array) -> float:
        """How large products are: each is a part of the lower objective, whatever the units of y.

        The largest of all starts so far, since at one of them y may happen to be zero.
        """
        model, (x, y, _) = self.model, self.form.split(z)
        parts = model.g_grad(x, y, self.run.p)[model.x.size :] * y
        largest = np.abs(parts[np.isfinite(parts)]).max(initial=0)
        self._unit = max(self._unit, float(largest))
        slope = np.abs(model.f_grad(x, y, self.run.p))
        self._slope = max(self._slope, float(slope[np.isfinite(slope)].max(initial=0)))
        return self._unit if self._unit > TINY else 1.0

    def _begin(self, x: Array) -> Array:
        """The unknowns at an x: y and multipliers as the lower level answers there.

        Where it has no answer any numbers will do, since the search may begin anywhere.
        """
        run, model = self.run, self.model
        multipliers = np.zeros(model.n_lower_rows)
        multipliers[: len(model.lower_in)] = 1.0
        y = np.clip(np.zeros(run.model.y.size), *run.model.y_bounds)
        if not self.smooth.is_same:
            answer, _ = run.solve_lower(x, y)
            y = answer.y if answer.status.has_point else y
            x, y = self.smooth.forward(x, y, run.p)
        try:
            answer = model.lower_program.solve(x, run.p)
            if answer.status.has_point:
                y, multipliers = answer.y, model.split_duals(answer.duals)
        except NonconvexLowerError:
            pass
        return self.form.join(x, y, multipliers)

    def _point(self, z: Array) -> Start:
        """The point of the run's own model."""
        x, y, _ = self.form.split(z)
        if not self.smooth.is_same:
            x, y = self.smooth.invert(x, y)
        return np.clip(x, *self.run.model.bounds(self.run.p)), y

    def _offer_answer(self, x: Array, y: Array) -> None:
        """Keep x with the lower level's own answer, which t > 0 leaves y away from."""
        run = self.run
        if not run.model.is_convex_below:
            return  # searched from many starts, so that only the end pays for it
        answer, _ = run.solve_lower(x, y)
        if answer.status.has_point:
            run.offer(x, answer.y, "lower answer at the x of the relaxed conditions")
        else:
            run.tried.append((x, answer.status))

    def _is_known(self, z: Array, level: tuple[float, int]) -> bool:
        """Whether an earlier path had the same end at this level, after which all is the same."""
        end = np.concatenate(self._point(z))
        reach = SAME * (1 + np.abs(end).max(initial=0))
        known = self._ends.setdefault(level, [])
        if any(np.abs(end - other).max(initial=0) <= reach for other in known):
            return True
        known.append(end)
        return False

    def _polish(self, z: Array) -> float:
        """Make an end exact: on the piece where it lies, then on those around it."""
        run = self.run
        end = self.form.search_on_piece(
            z,
            run.deadline,
            options=OPTIONS
            | WARM
            | {"tol": ACCURACY, "max_iter": MOST_ITERATIONS, "bound_relax_factor": 1e-10},
        )
        run.evaluations += end.iterations
        found: list[Candidate] = []
        if end.is_converged and np.all(np.isfinite(end.z)):
            z = end.z
            found.append(run.propose(*self._point(z), "piece of the KKT conditions"))
        if any(map(run.is_acceptable, found)):
            run.step(x=found[-1].x, value=found[-1].value, gap=found[-1].gap)
        else:
            found.append(run.propose(*self._point(z), "relaxed KKT conditions"))
        x, y = self._point(z)
        if not run.model.is_convex_below:
            answer, _ = run.solve_lower(x, y)
            if answer.status.has_point:
                found.append(run.propose(x, answer.y, "lower answer at the x of the KKT conditions"))
        elif self.smooth.is_same and convex_objective(run.model, run.p) is not None:
            exact_pieces(run).improve(run, *self.form.split(z))
        elif is_large(run.model):
            if not any(map(run.is_acceptable, found)):
                found.append(answer_below(run, x, y))
        else:
            found.append(improve_by_pieces(run, x, y, max_rounds=POLISHING_ROUNDS))
        good = [candidate.value for candidate in found if run.is_acceptable(candidate)]
        return min(good, default=np.inf)
