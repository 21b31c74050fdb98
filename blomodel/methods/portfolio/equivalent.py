"""Searches on an equivalent model that is easier, whose points are brought back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from blomodel.compiler.blocks import Block
from blomodel.methods.portfolio.step import Outlook
from blomodel.methods.run.findings import Candidate
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start
from blomodel.methods.search.pieces import is_large
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.transformations.equivalent import Equivalent
from blomodel.transformations.kinks import without_kinks

MAX_TAKEN = 5  # points that are taken over from the problem without kinks
ITSELF = "the problem with its kinks"  # by which a run on an equivalent problem knows it


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
    other.once(ITSELF, lambda: (run.model, equivalent))
    try:
        search(other)
    finally:
        found, other.candidates = other.ranking()[:MAX_TAKEN], []
        _take_paths_back(other, equivalent)
        run.absorb(other.findings)
        for candidate in found:
            _keep_as(run, candidate, *equivalent.invert(candidate.x, candidate.y))


def _keep_as(run: Run, candidate: Candidate, x: np.ndarray, y: np.ndarray) -> None:
    """Keep a point that was found in an equivalent problem; where no time is left, with its figures."""
    measured = run.measure(x, y, candidate.source)
    is_known = np.isfinite(measured.gap) or not np.isfinite(candidate.gap)
    run.keep(measured if is_known else replace(candidate, x=x, y=y, value=measured.value))


def search_with_kinks(run: Run, search: Callable[[Run], Outlook]) -> Outlook:
    """From a search of the problem with variables for its kinks, one of the problem itself."""
    stated, equivalent = run.once(ITSELF, lambda: (run.model, Equivalent.to_itself(run.model)))
    start = None
    if run.start is not None:
        x, y = run.start
        start = equivalent.chain.invert_upper(x), None if y is None else equivalent.chain.invert_lower(y)
    own = run.on(stated, start)
    own.family, own.activity = run.family, run.activity
    try:
        return search(own)
    finally:
        found, own.candidates = own.ranking()[:MAX_TAKEN], []
        _take_paths_forward(own, equivalent)
        for candidate in found:
            _keep_as(run, candidate, *equivalent.forward(candidate.x, candidate.y, run.p))
        run.absorb(own.findings)


def _take_paths_forward(run: Run, equivalent: Equivalent) -> None:
    """Rows of the history as points of the equivalent problem, whose further variables they lack."""
    start, end = equivalent.chain.start.levels, equivalent.chain.end.levels
    unknown = {leaf: np.full(leaf.shape, np.nan) for leaf in (*end.upper, *end.lower)}

    def widened(point: np.ndarray | None, old: Block, new: Block) -> np.ndarray | None:
        return None if point is None else new.join({**unknown, **old.unpack(point)})

    run.path = [widened(x, start.x, end.x) for x in run.path]
    run.path_below = [widened(y, start.y, end.y) for y in run.path_below]


def _take_paths_back(run: Run, equivalent: Equivalent) -> None:
    """Rows of the history are points of the problem itself, which has fewer variables."""
    chain = equivalent.chain
    run.path = [None if x is None else chain.invert_upper(x) for x in run.path]
    run.path_below = [None if y is None else chain.invert_lower(y) for y in run.path_below]


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
