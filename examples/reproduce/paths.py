"""Runs of a method from a given start: every iterate, or where it stands after some numbers of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import blomodel as bm


def place(problem: bm.BilevelProblem, start: Mapping[str, Any]) -> None:
    """Set the variables named in ``start``; the others have no value, so that the method begins its
    own way.
    """
    for variable in problem.variables():
        value = start.get(variable.name())
        variable.value = None if value is None else np.reshape(value, variable.shape, order="F")


def solved(
    problem: bm.BilevelProblem, method: str, start: Mapping[str, Any], **settings: Any
) -> bm.Solution:
    """The solution of one run, without the warnings that a picture has no place for."""
    place(problem, start)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        problem.solve(method, **settings)
    assert problem.solution is not None
    return problem.solution


def path(
    problem: bm.BilevelProblem, method: str, start: Mapping[str, Any], **settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the start and of every iterate, a row each."""
    history = solved(problem, method, start, history_every=1, **settings).history
    levels = problem.levels
    first = [
        np.concatenate([np.ravel(start[variable.name()], order="F") for variable in level])
        for level in (levels.upper, levels.lower)
    ]
    return np.vstack([first[0], history["x"]]), np.vstack([first[1], history["y"]])


def on_the_way(
    problem: bm.BilevelProblem,
    method: str,
    start: Mapping[str, Any],
    counts: Sequence[int],
    **settings: Any,
) -> tuple[list[dict[str, np.ndarray]], bm.Solution]:
    """Where one run stands after each number of iterations, by variables' names; and its solution.

    Where it ended earlier, its end counts.
    """
    every = math.gcd(*counts)
    found = solved(problem, method, start, max_steps=max(counts), history_every=every, **settings)
    rows = {int(k): row for row, k in enumerate(found.history.get("iteration", ()))}
    levels, points = problem.levels, []
    for count in counts:
        if count not in rows or count >= found.iterations:
            points.append(dict(found.iterate))
            continue
        point: dict[str, np.ndarray] = {}
        for level, name in ((levels.upper, "x"), (levels.lower, "y")):
            row, end = found.history[name][rows[count]], 0
            for variable in level:
                begin, end = end, end + variable.size
                point[variable.name()] = np.reshape(row[begin:end], variable.shape, order="F")
        points.append(point)
    return points, found


def iterates(
    problem: bm.BilevelProblem,
    method: str,
    start: Mapping[str, Any],
    counts: Iterable[int],
    **settings: Any,
) -> list[dict[str, np.ndarray]]:
    """Where the method itself stands after each number of iterations, by variables' names."""
    return [
        dict(solved(problem, method, start, max_steps=count, **settings).iterate) for count in counts
    ]


def is_there(method: str) -> bool:
    """Whether the library has the method, and its packages are installed."""
    return method in {info.name for info in bm.methods()}
