"""Directions in which a level improves without limit, in the names of the user's variables."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from blomodel.basics.kept_values import kept_values
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.programs.by_cvxpy import solve_by_cvxpy

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

NEAR, FAR = 1e3, 1e5  # two boxes around zero; what grows with the box has no limit
GROWS = 0.5  # share of the box that an entry must fill to count


def describe_direction(problem: BilevelProblem, x: np.ndarray, direction: np.ndarray) -> str:
    """A direction of the solved model's x in words, such as ``price[1] going to +infinity``."""
    chain, block = problem.chain, problem.levels.x
    stated = chain.invert_upper(x + direction) - chain.invert_upper(x)
    held = np.flatnonzero(np.abs(stated) > 1e-9 * np.abs(stated).max(initial=1e-300))
    parts = []
    for sign, word in ((1.0, "+infinity"), (-1.0, "-infinity")):
        names = block.entry_names(int(k) for k in held if sign * stated[k] > 0)
        if names:
            parts.append(f"{', '.join(names)} going to {word}")
    return " and ".join(parts) or "x going to infinity"


def lower_runaways(problem: BilevelProblem, x: np.ndarray) -> list[str]:
    """The lower variables that grow without limit at an x, such as "y can grow"; none where not known.

    The lower level is solved in two boxes. What reaches the side of both has no limit of its own.
    """
    values = problem.levels.x.unpack(x).values()
    fixed = Substitution(problem.levels.upper, tuple(map(cp.Constant, values)))
    lower, block = problem.lower, problem.levels.y
    objective = cp.Minimize(fixed(lower.minimised))
    rows = [fixed(constraint) for constraint in lower.constraints]
    if not objective.is_dcp() or not all(row.is_dcp() for row in rows):
        return []
    found = []
    with kept_values(block.leaves), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate solve is noticed by its status
        for size in (NEAR, FAR):
            box = [cp.abs(leaf) <= size for leaf in block.leaves]
            try:
                boxed = cp.Problem(objective, [*rows, *box])
                solve_by_cvxpy(boxed, cp.CLARABEL)
            except (cp.SolverError, cp.DCPError):
                return []
            if boxed.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE) or not block.has_values:
                return []
            found.append(block.pack())
    near, far = found
    grows = (np.abs(far) >= GROWS * FAR) & (np.abs(near) >= GROWS * NEAR)
    positions = np.flatnonzero(grows & (np.sign(far) == np.sign(near)))
    return [f"{block.entry_name(k)} can {'grow' if far[k] > 0 else 'fall'}" for k in positions[:4]]
