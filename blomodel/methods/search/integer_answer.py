"""The lower level's answers at one x, whether some variables are whole or not."""

from __future__ import annotations

import math

import numpy as np

from blomodel.errors import NonconvexLowerError
from blomodel.methods.run.run import Run
from blomodel.methods.search.pieces import answer_below, is_only_minimiser
from blomodel.solvers.answer import InnerStatus

SOLVED = 1e-7  # relative: what a solver may have missed in the choice among minimisers


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
        if model.lower_program.solve(x, run.p).status is InnerStatus.INFEASIBLE:
            run.tried.append((x, InnerStatus.INFEASIBLE))
            return math.inf
        found = answer_below(run, x, nowhere)
        return _least_below(run, x) if run.is_acceptable(found) else -math.inf
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


def _least_below(run: Run, x: np.ndarray) -> float:
    """The least f over the minimisers of a convex lower level at x; -inf where nobody can tell.

    A linear program over a face may have no least value, and then no point is a bound.
    """
    model, p = run.model, run.p
    answer = model.lower_program.solve(x, p)
    if answer.status is not InnerStatus.OPTIMAL:
        return -math.inf
    if model.is_strictly_convex_below() or is_only_minimiser(model, x, p, answer):
        return float(model.f(x, answer.y, p)[0])
    if model.lower_program.kind not in ("LP", "QP") or not model.optimistic_choice.is_face:
        return -math.inf
    try:
        chosen = model.optimistic_choice.solve(x, p, answer, slack=0.0)
    except NonconvexLowerError:
        return -math.inf
    if chosen.status is not InnerStatus.OPTIMAL:
        return -math.inf
    value = float(model.f(x, chosen.y, p)[0])
    return value - SOLVED * (1 + abs(value))
