"""Dual values of the upper constraints: what a unit of slack is worth at the answer.

They are the multipliers of the upper rows in the KKT reformulation, for the level stated as a
minimisation, as cvxpy states them. Where they are not determined, or the answer is not known to be
stationary, there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.basics.alarm import in_time
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.declare.point import Point
from blomodel.studies.sensitivity import ACTIVE, SOLVED, KktSystem, NoDerivativeError
from blomodel.transformations.equal_parts import Together
from blomodel.transformations.kinked_rows import RowsWithoutKinks

if TYPE_CHECKING:
    from blomodel.model.model import Model
    from blomodel.problem import BilevelProblem

GRACE = 0.05  # seconds that they may take after a time limit
DETERMINED = 1e-6  # how far a multiplier may move along what the others leave free


def set_upper_duals(problem: BilevelProblem, deadline: Deadline = NEVER) -> None:
    """Give every upper constraint its ``dual_value``, or None where it is not known in time."""
    found = in_time(lambda: _find(problem), max(deadline, Deadline.after(0.0)), GRACE)
    for position, constraint in enumerate(problem.constraints):
        value = None if found is None else found.get(position)
        for variable in constraint.dual_variables:
            is_whole = value is not None and len(constraint.dual_variables) == 1
            if is_whole and value is not None and value.size == variable.size:
                variable.save_value(value.reshape(variable.shape, order="F"))
            else:
                variable.save_value(None)


def _find(problem: BilevelProblem) -> dict[int, np.ndarray] | None:
    """The multipliers by the constraints' positions; None where they are not known."""
    if not problem.constraints or problem.status not in SOLVED:
        return None
    model, p = problem.plain_model, problem.parameter_values()
    if model.has_integers or not model.has_smooth_kkt or model.upper_in.spectral:
        return None
    if not limits.UPPER_DUALS.allows(model.x.size + model.y.size + len(model.lower_in)):
        return None
    if any(step.name == RowsWithoutKinks.name for step in problem.plain_chain):
        return None  # rows have taken the place of constraints
    here = Point.present(problem.levels)
    slack = -model.upper_in.values(here.x, here.y, p)
    largest = max(np.abs(part).max(initial=0.0) for part in (here.x, here.y))
    if not len(model.upper_eq) and np.all(slack > ACTIVE * (1 + largest)):
        none = {k: np.zeros(part.stop - part.start) for k, part in model.upper_in.slices.items()}
        return _as_stated(problem, none)
    try:
        system = KktSystem.at(model, here.x, here.y, p)
    except NoDerivativeError:
        return None
    multipliers = system.find_multipliers(system.slope(system.z))
    if multipliers is None:
        return None
    return _as_stated(problem, _by_constraint(model, system, multipliers))


def _as_stated(problem: BilevelProblem, found: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The multipliers by the positions of the constraints as they were stated."""
    for step in problem.plain_chain:
        if isinstance(step, Together):
            found = step.invert_upper_multipliers(found)
    return found


def _by_constraint(model: Model, system: KktSystem, multipliers: np.ndarray) -> dict[int, np.ndarray]:
    """The last rows of the system are the upper equalities and the tight upper rows."""
    n_equal, n_tight = len(model.upper_eq), len(system.tight)
    begin = multipliers.size - n_equal - n_tight
    free = np.abs(system.freedom_of_multipliers).max(axis=1, initial=0.0)
    known = np.where(free <= DETERMINED, multipliers, np.nan) if multipliers.size else multipliers
    equal = known[begin : begin + n_equal]
    unequal = np.zeros(len(model.upper_in))
    unequal[system.tight] = known[begin + n_equal :]
    found: dict[int, np.ndarray] = {}
    for rows, values in ((model.upper_eq, equal), (model.upper_in, unequal)):
        for position, part in rows.slices.items():
            if np.all(np.isfinite(values[part])):
                found[position] = values[part]
    return found
