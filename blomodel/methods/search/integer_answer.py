"""The lower level's answers at one x, whether some variables are whole or not."""

from __future__ import annotations

import math

import numpy as np

from blomodel.compiler.passes.polynomial import polynomial
from blomodel.methods.run.run import Run
from blomodel.methods.search.pieces import answer_below
from blomodel.solvers.answer import InnerStatus


def answer_at(run: Run, x: np.ndarray, source: str) -> float:
    """Propose lower answers at x, the best one for the upper level among them.

    Returns
    -------
    float
        What f at this x cannot fall below; -inf where nothing is known, inf where x has no answer that
        the upper level allows.
    """
    model, nowhere = run.model, np.zeros(run.model.y.size)
    if model.is_convex_below:
        found = answer_below(run, x, nowhere)
        is_sure = model.is_strictly_convex_below() or _is_linear_in_y(run)
        return found.value if is_sure and run.is_acceptable(found) else -math.inf
    answer, is_sure = run.solve_lower(x, nowhere)
    if not answer.status.has_point:
        run.tried.append((x, answer.status))
        return math.inf if is_sure and answer.status is InnerStatus.INFEASIBLE else -math.inf
    run.propose(x, answer.y, source, answer)
    if not model.integer_y.any() or not is_sure:
        return -math.inf
    chosen = model.integer_lower.choose(x, run.p, answer.value, run.deadline)
    if chosen is None:
        return -math.inf
    if chosen.point is not None:
        run.propose(x, chosen.point, source, answer)
    return chosen.bound


def _is_linear_in_y(run: Run) -> bool:
    """Whether the choice among minimisers of a linear or quadratic lower level is a linear program."""
    model = run.model
    if model.lower_program.kind not in ("LP", "QP") or model.coupling_constraints:
        return False
    facts = polynomial(model.f, variable="y", coefficient="x")
    return bool(facts.degree[0] <= 1) and model.constant_curvature is not None
