"""A run that was stopped, as plain numbers: what it needs to go on, here or in another process.

It is written as JSON, in which no program can hide: numbers, words and arrays, whose bytes are in
base64. A checksum tells damage; a fingerprint of the problem tells whose run it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from blomodel.errors import FileFormatError
from blomodel.methods.run.journal import Call
from blomodel.methods.run.run import Run

ARRAY, NUMBER, FUNCTION = "float64", "number", "not written"  # keys of what JSON has no word for


@dataclass
class RunState:
    """What a stopped run leaves for the one that resumes it.

    Attributes
    ----------
    method, arguments, settings
        As they were given to solve(); settings that are functions cannot be written.
    start, p
        Where it began, in the solved model, and the values of parameters.
    calls : list of Call
        Of compiled loops; empty for other methods.
    best : pair of arrays or None
        The best point, in the solved model.
    open_work : dict
        Open nodes of trees, cuts.
    fingerprint : str
        Of the problem; empty until it is needed.
    """

    method: str
    arguments: dict[str, Any]
    settings: dict[str, Any]
    start: list[np.ndarray | None] | None
    p: np.ndarray
    calls: list[Call] = field(repr=False)
    history: dict[str, list[float]] = field(repr=False)
    path: list[list[np.ndarray | None]] = field(repr=False)
    iterations: int
    evaluations: int
    seconds: float
    rule: list[Any]
    best: list[np.ndarray] | None
    bound: float
    bound_source: str
    bound_slack: float
    open_work: dict[str, Any] = field(repr=False)
    fingerprint: str = ""
    version: str = ""

    def to_data(self) -> dict[str, Any]:
        """What json.dumps takes, with a checksum."""
        data = {part.name: encoded(getattr(self, part.name)) for part in fields(self)}
        return {"checksum": _checksum(data), "data": data}

    @classmethod
    def from_data(cls, given: Any) -> RunState:
        """The other way; raises ValueError, TypeError or KeyError where anything is not as it was."""
        data = given["data"]
        if given["checksum"] != _checksum(data):
            raise ValueError("the checksum of the saved run is wrong")
        state = cls(**{part.name: decoded(data[part.name]) for part in fields(cls)})
        state.calls = [_call(call) for call in state.calls]  # type: ignore[arg-type]
        return state


def state_of(
    run: Run,
    method: str,
    arguments: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> RunState | None:
    """What to keep of a run that was stopped, or left nodes open; None where it has ended by itself."""
    if run.stopped_by is None and method == "auto":
        return None
    told = {name: tell() for name, tell in run.control.open_work.items()}
    if run.stopped_by is None and not any(told.values()):
        return None
    rule, best = run.stop_rule, run.best()
    calls = [] if run.journal is None else run.journal.calls
    start = None if run.start is None else [run.start[0], run.start[1]]
    return RunState(
        method=method,
        arguments=dict(arguments),
        settings=dict(settings),
        start=start,
        p=np.array(run.p, dtype=float),
        calls=calls,
        history={name: list(column) for name, column in run.history.items()},
        path=[list(run.path), list(run.path_below)],
        iterations=calls[-1].base + calls[-1].done if calls else run.iterations,
        evaluations=run.evaluations,
        seconds=run.time_before + run.elapsed,
        rule=[] if rule is None else [rule._x, rule._value],
        best=None if best is None else [best.x, best.y],
        bound=run.bound,
        bound_source=run.bound_source,
        bound_slack=run.bound_slack,
        open_work={name: work for name, work in told.items() if work is not None},
    )


def take_up(run: Run, state: RunState) -> None:
    """Put a run, before its method begins, where the stopped one was.

    The point of a compiled method is not proposed: a run that had not been stopped would not have
    proposed it. Elsewhere it is measured again, and the bound is kept.
    """
    sizes = run.model.x.size, run.model.y.size
    points = [pair for pair in (state.start, state.best) if pair is not None]
    for pair in points:
        if len(pair) != 2 or any(
            part is not None and np.shape(part) != (size,)
            for part, size in zip(pair, sizes, strict=True)
        ):
            raise FileFormatError("The saved run has points of another problem.")
    if state.start is not None and state.start[0] is not None:
        run.start = state.start[0].copy(), None if state.start[1] is None else state.start[1].copy()
    else:
        run.start = None
    for name, column in state.history.items():
        run.history[name] = [float(figure) for figure in column]
    run.path, run.path_below = (list(part) for part in state.path)
    run.evaluations, run.time_before = state.evaluations, state.seconds
    run.control.earlier = dict(state.open_work)
    if run.max_iterations is not None:
        run.max_iterations += state.iterations
    if run.stop_rule is not None and state.rule:
        run.stop_rule._x, run.stop_rule._value = state.rule
    if state.calls:
        return
    run.iterations = state.iterations
    if state.best is not None:
        x, y = state.best
        run.start = x.copy(), y.copy()
        run.propose(x, y, "the run that is resumed")
    if math.isfinite(state.bound):
        source = state.bound_source.removesuffix(" (resumed)")
        run.raise_bound(state.bound, f"{source} (resumed)", state.bound_slack, is_lowered=True)


def encoded(value: Any) -> Any:
    """Arrays, numbers, words, lists and dicts as JSON has them."""
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value, dtype="<f8")
        return {ARRAY: base64.b64encode(array.tobytes()).decode("ascii"), "shape": list(array.shape)}
    if isinstance(value, Call):
        return {part.name: encoded(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {NUMBER: repr(float(value))}
    if isinstance(value, Mapping):
        return {str(key): encoded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(part) for part in value]
    if value is None or isinstance(value, str):
        return value
    return {FUNCTION: repr(value)}


def decoded(data: Any) -> Any:
    """The other way."""
    if isinstance(data, dict):
        if set(data) == {ARRAY, "shape"}:
            raw = base64.b64decode(data[ARRAY], validate=True)
            return np.frombuffer(raw, dtype="<f8").astype(float).reshape(data["shape"])
        if set(data) == {NUMBER}:
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[data[NUMBER]]
        return {key: decoded(part) for key, part in data.items()}
    return [decoded(part) for part in data] if isinstance(data, list) else data


def is_unwritten(value: Any) -> bool:
    """Whether a setting was a function when it was saved."""
    return isinstance(value, dict) and set(value) == {FUNCTION}


def _call(data: dict[str, Any]) -> Call:
    call = Call(**data)
    call.asked = [(x, near) for x, near in call.asked]
    numbers: list[tuple[str, Callable[[Any], bool]]] = [
        (name, lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0)
        for name in ("base", "length", "total", "left", "done", "next_gap")
    ]
    for name, fits in numbers:
        if not fits(getattr(call, name)):
            raise ValueError(f"{name} of a call is no number of iterations")
    return call


def _checksum(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
