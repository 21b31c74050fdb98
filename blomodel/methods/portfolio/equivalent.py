"""Searches on an equivalent model that is easier, whose points are brought back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start
from blomodel.methods.search.pieces import is_large
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.transformations.equivalent import Equivalent
from blomodel.transformations.kinks import without_kinks

MAX_TAKEN = 5  # points that are taken over from the problem without kinks


def exact_without_kinks(model: Model, p: np.ndarray) -> Equivalent:
    """The model with variables for its kinks, where its pieces are convex programs and small.

    Elsewhere the model itself.
    """
    other = without_kinks(model)
    pays = not is_large(other.model) and convex_objective(other.model, p) is not None
    return other if pays else Equivalent.to_itself(model)


def search_without_kinks(run: Run, search: Callable[[Run], None]) -> None:
    """Search the problem with variables for its kinks where that helps, else the problem itself."""
    equivalent = exact_without_kinks(run.model, run.p)
    if equivalent.is_same:
        search(run)
        return
    other = run.on(equivalent.model, _forward_start(run, equivalent))
    try:
        search(other)
    finally:
        found, other.candidates = other.ranking()[:MAX_TAKEN], []
        run.absorb(other.findings)
        for candidate in found:
            run.propose(*equivalent.invert(candidate.x, candidate.y), candidate.source)


def _forward_start(run: Run, equivalent: Equivalent) -> Start | None:
    """The user's start with values for the further variables."""
    if run.start is None:
        return None
    x, y = run.start
    if y is None:
        answer, _ = run.solve_lower(x, np.zeros(run.model.y.size))
        if not answer.status.has_point:
            return None
        y = answer.y
    return equivalent.forward(x, y, run.p)
