"""Searches on an equivalent model that is easier, whose points are brought back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Point
from blomodel.methods.search.pieces import (
    is_large,
)
from blomodel.model.kink_free import KinkFree
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective

MAX_TAKEN = 5  # points that are taken over from the problem without kinks


def exact_without_kinks(model: Model, p: np.ndarray) -> KinkFree | None:
    """The problem with variables for its kinks, where its pieces are convex programs and small."""
    kink_free = model.kink_free
    if kink_free is None or is_large(kink_free.model) or convex_objective(kink_free.model, p) is None:
        return None
    return kink_free


def search_without_kinks(run: Run, search: Callable[[Run], None]) -> None:
    """Search the problem with variables for its kinks where that helps, else the problem itself."""
    kink_free = exact_without_kinks(run.model, run.p)
    if kink_free is None:
        search(run)
        return
    other = run.on(kink_free.model, _lifted_start(run, kink_free))
    try:
        search(other)
    finally:
        found, other.candidates = other.ranking()[:MAX_TAKEN], []
        run.absorb(other.findings)
        for candidate in found:
            run.propose(*kink_free.own(candidate.x, candidate.y), candidate.source)


def _lifted_start(run: Run, kink_free: KinkFree) -> Point | None:
    """The user's start with values for the further variables."""
    if run.start is None:
        return None
    x, y = run.start
    if y is None:
        answer, _ = run.solve_lower(x, np.zeros(run.model.y.size))
        if not answer.status.has_point:
            return None
        y = answer.y
    return kink_free.lift(x, y, run.p)
