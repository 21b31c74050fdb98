"""Solutions read from the files that ``solution.save`` writes: JSON, in which no program can hide."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from blomodel.certification.certificate import Certificate
from blomodel.errors import FileFormatError
from blomodel.methods.run.run_state import RunState
from blomodel.report.solution_data import FORMAT, VERSION
from blomodel.solution import Solution
from blomodel.solve.no_answer import Conflict, NoAnswer
from blomodel.status import Status


def load_solution(path: str | Path) -> Solution:
    """A solution from a file that ``solution.save(path)`` has written.

    It has all numbers and words, and plots itself; the problem is not part of it.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    FileFormatError
        When the file is no such file, is damaged, or comes from a later version.

    Examples
    --------
    >>> import tempfile, pathlib, cvxpy as cp, blomodel as bm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [], lower)
    >>> value = problem.solve()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = problem.solution.save(pathlib.Path(folder) / "answer.json")
    ...     found = bm.load_solution(path)
    >>> found.value == value, str(found.status)
    (True, 'optimal')
    """
    text = Path(path).read_bytes()
    try:
        data = json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is no text file, so not one of solution.save().") from error
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"{path}, line {error.lineno}: this is not JSON ({error.msg}); the file is damaged, or not "
            "one of solution.save()."
        ) from error
    except RecursionError as error:
        raise FileFormatError(f"{path} is nested too deeply to be a solution.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FileFormatError(f"{path} is JSON, but not a solution that solution.save() has written.")
    if data.get("version") != VERSION:
        raise FileFormatError(
            f"{path} has version {data.get('version')!r} of the format, and this blomodel reads version "
            f"{VERSION}; install the version that wrote it."
        )
    try:
        return _solution(data)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{path} is damaged: {what}.") from error


def _solution(data: Mapping[str, Any]) -> Solution:
    return Solution(
        status=Status(data["status"]),
        method=_word(data["method"]),
        source=_word(data["source"]),
        value=float(data["value"]),
        iterations=int(data["iterations"]),
        evaluations=int(data["evaluations"]),
        compile_time=float(data["compile_time"]),
        solve_time=float(data["solve_time"]),
        certify_time=float(data["certify_time"]),
        stopped_by=_optional(_word, data["stopped_by"]),
        notes=tuple(map(_word, data["notes"])),
        history=_arrays(data["history"]),
        multipliers=[_array(part) for part in data["multipliers"]],
        no_answer=_optional(_no_answer, data["no_answer"]),
        sign=float(data["sign"]),
        settings=dict(data["settings"]),
        values=_arrays(data["values"]),
        iterate=_arrays(data["iterate"]),
        certificate=_optional(_certificate, data["certificate"]),
        inner_solvers={_word(name): int(count) for name, count in data["inner_solvers"].items()},
        solver_troubles={
            _word(name): int(count) for name, count in data.get("solver_troubles", {}).items()
        },
        run_state=_optional(RunState.from_data, data.get("run")),
    )


def _certificate(data: Mapping[str, Any]) -> Certificate:
    tolerated = data["tolerated_objective"]
    return Certificate(
        claim=Status(data["claim"]),
        accepted=_switch(data["accepted"]),
        objective=float(data["objective"]),
        upper_violation=float(data["upper_violation"]),
        lower_violation=float(data["lower_violation"]),
        lower_value=float(data["lower_value"]),
        lower_gap=float(data["lower_gap"]),
        lower_is_unique=_optional(_switch, data["lower_is_unique"]),
        stationarity=_optional(float, data["stationarity"]),
        bound=_optional(float, data["bound"]),
        bound_source=_word(data["bound_source"]),
        tolerance=float(data["tolerance"]),
        gap=_optional(float, data["gap"]),
        optimality_gap=float(data["optimality_gap"]),
        checked_by=_word(data["checked_by"]),
        reasons=tuple(map(_word, data["reasons"])),
        multipliers={int(key): _array(part) for key, part in data["multipliers"].items()},
        bound_slack=float(data["bound_slack"]),
        bound_is_recomputed=_switch(data["bound_is_recomputed"]),
        follower_gaps={_word(name): float(gap) for name, gap in data["follower_gaps"].items()},
        tolerated_objective=None if tolerated is None else (float(tolerated[0]), float(tolerated[1])),
        tolerated_by=_word(data["tolerated_by"]),
        descent=_optional(_array, data["descent"]),
        y=_optional(_array, data["y"]),
    )


def _no_answer(data: Mapping[str, Any]) -> NoAnswer:
    return NoAnswer(
        kind=_word(data["kind"]),
        reason=_word(data["reason"]),
        conflicts=tuple(
            Conflict(_word(part["level"]), _word(part["constraint"]), float(part["violation"]))
            for part in data["conflicts"]
        ),
        is_proven=_switch(data["is_proven"]),
    )


def _optional(read: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else read(value)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} stands where a word should be")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} stands where true or false should be")
    return value


def _array(value: Any) -> np.ndarray:
    return np.array(value, dtype=float)


def _arrays(data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {_word(name): _array(value) for name, value in data.items()}
