"""A solution as plain data: what goes into a dict and into a JSON file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.declare.fingerprint import fingerprint
from blomodel.text.shorten import shorten

if TYPE_CHECKING:
    from blomodel.solution import Solution

FORMAT, VERSION = "blomodel solution", 1
# Written under other forms, or not at all, since they are objects of a running program.
LEFT_OUT = ("problem", "certificate", "no_answer", "status", "run_state")


def with_run(solution: Solution) -> dict[str, Any]:
    """The same, with the run where it can be resumed."""
    data, state = solution_data(solution), solution.run_state
    if state is not None:
        if not state.fingerprint:
            state.fingerprint = fingerprint(solution.problem, state.p)
            state.version = version("blomodel")
        data["run"] = state.to_data()
    return data


def solution_data(solution: Solution) -> dict[str, Any]:
    """Every field of a solution and of its certificate, without objects of cvxpy."""
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION, "status": str(solution.status)}
    for part in dataclasses.fields(solution):
        if part.name not in LEFT_OUT:
            data[part.name] = plain(getattr(solution, part.name))
    data["bound"], data["gap"] = plain(solution.bound), plain(solution.gap)
    certificate = solution.certificate
    data["certificate"] = None
    if certificate is not None:
        names = [part.name for part in dataclasses.fields(certificate)]
        data["certificate"] = {name: plain(getattr(certificate, name)) for name in names}
    data["no_answer"] = None
    if solution.no_answer is not None:
        reason = solution.no_answer
        data["no_answer"] = {
            "kind": reason.kind,
            "reason": reason.reason,
            "is_proven": reason.is_proven,
            "conflicts": [
                {
                    "level": conflict.level,
                    "constraint": shorten(conflict.constraint, 10**6),
                    "violation": plain(conflict.violation),
                }
                for conflict in reason.conflicts
            ],
        }
    return data


def plain(value: Any) -> Any:
    """Numbers, words, lists and dicts only; anything else by its text."""
    if value is None or isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.generic | np.ndarray):
        return np.asarray(value).tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    return str(value)


def as_json(data: dict[str, Any], indent: int | None) -> str:
    """JSON by the book, in which infinite numbers and NaN are words."""
    return json.dumps(_in_words(data), indent=indent, allow_nan=False, ensure_ascii=False)


def _in_words(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _in_words(inner) for key, inner in value.items()}
    return [_in_words(inner) for inner in value] if isinstance(value, list) else value
