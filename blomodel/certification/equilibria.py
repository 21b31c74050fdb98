"""Whether a game has another equilibrium at the same x, which the followers may play as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.declare.point import Point
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.branching.scip import ScipProgram, is_installed
from blomodel.solvers.branching.scip_expressions import UntranslatableError
from blomodel.text.layout import array, number
from blomodel.text.shorten import some_of

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

APART = 1e-4  # relative distance at which two equilibria are different ones
MOST_NODES = 2000  # of the search for another one


def find_another(
    problem: BilevelProblem, point: Point, deadline: Deadline = NEVER
) -> tuple[bool | None, np.ndarray | None]:
    """Whether the equilibrium at x is the only one, and the one that lies farthest from it.

    None: not known. Only where the lower level holds the followers' optimality conditions.
    """
    model, p = problem.plain_model, problem.parameter_values()
    if not model.statement.partners or not is_installed():
        return None, None
    n = sum(variable.size for follower in problem.followers for variable in follower.variables)
    program = ScipProgram()
    y = program.variables(*model.y_bounds)
    inputs: dict[str, Any] = {"x": list(map(float, point.x)), "y": y, "p": list(map(float, p))}
    try:
        rows = program.formulas(model.lower_in.tape, inputs)
        program.equal_zero(program.formulas(model.lower_eq.tape, inputs))
    except UntranslatableError:
        return None, None
    partner = dict(zip(model.conditions.rows, model.conditions.columns - model.x.size, strict=True))
    program.at_most_zero([row for k, row in enumerate(rows) if k not in partner])
    for k, column in partner.items():
        program.one_is_zero(program.slack_of(rows[k]), y[column])
    program.minimise(-1.0 * sum(abs(y[j] - float(point.y[j])) for j in range(n)))
    found = program.solve(model.y.size, max_nodes=MOST_NODES, gap=1e-3, deadline=deadline)
    far = APART * (1 + np.abs(point.y[:n]).max(initial=0.0))
    if found.point is not None and np.abs(found.point[:n] - point.y[:n]).max(initial=0.0) > far:
        return False, found.point[:n]
    return (True, None) if found.status is InnerStatus.OPTIMAL else (None, None)


def named_values(problem: BilevelProblem, y: np.ndarray) -> str:
    """The followers' decisions by name, for a person."""
    said, end = [], 0
    for variable in (v for follower in problem.followers for v in follower.variables):
        begin, end = end, end + variable.size
        values = np.where(np.abs(y[begin:end]) < 1e-9, 0.0, y[begin:end])
        said.append(
            f"{variable.name()} = {number(float(values[0])) if values.size == 1 else array(values)}"
        )
    return some_of(said)
