"""From a saved run, or a solution, to the arguments of the solve that goes on with it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blomodel.declare.fingerprint import fingerprint
from blomodel.errors import FileFormatError, UnknownSettingError
from blomodel.methods.run.run_state import RunState, is_unwritten
from blomodel.solution import Solution
from blomodel.solve.saved import load_solution

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

NODE_LIMITS = ("max_nodes",)  # settings that are limits of the present call
DEFAULTS = {"tolerance": 1e-6, "optimality_gap": 1e-4, "seed": 0, "history_every": None}


def stopped_run(problem: BilevelProblem, resume: Solution | str | Path) -> RunState:
    """The run to go on with; raises where there is none, or one of another problem."""
    where = "The solution"
    if isinstance(resume, str | Path):
        where, resume = str(resume), load_solution(resume)
    if not isinstance(resume, Solution):
        raise UnknownSettingError(
            f"resume = {resume!r} is neither a solution nor the path of a file of solution.save()."
        )
    state = resume.run_state
    if state is None:
        raise FileFormatError(
            f"{where} holds no run that could go on: {resume.method} "
            + ("ended by itself." if resume.stopped_by is None else "was stopped before it began.")
        )
    if state.version and state.version != version("blomodel"):
        raise FileFormatError(
            f"{where} is a run of blomodel {state.version}, and this is {version('blomodel')}, whose "
            "steps may differ; install the version that wrote it, or begin at its point."
        )
    problem.check_data()
    if resume.problem is not problem or state.fingerprint:
        own = fingerprint(problem, problem.parameter_values())
        other = state.fingerprint or fingerprint(resume.problem, state.p)  # type: ignore[arg-type]
        if own != other:
            raise FileFormatError(
                f"{where} is a run of another problem, or of this one with other data; only the same "
                "problem with the same values of its parameters can be resumed."
            )
    elif state.p.tobytes() != problem.parameter_values().tobytes():
        raise FileFormatError(
            f"{where} is a run with other values of the parameters; set them again, or begin a new run."
        )
    return state


def arguments_of(state: RunState, method: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Method and arguments of the run that goes on: its own, and the limits of the present call."""
    if method not in ("auto", state.method):
        raise UnknownSettingError(
            f"resume: the run is one of {state.method!r}, which cannot go on as {method!r}."
        )
    merged = dict(arguments)
    for name, usual in DEFAULTS.items():
        known = state.arguments.get(name, usual)
        if arguments[name] not in (usual, known):
            raise UnknownSettingError(
                f"resume: the run has {name} = {known!r}; it cannot go on with {arguments[name]!r}."
            )
        merged[name] = known
    given = arguments["settings"]
    settings = {}
    for name, known in state.settings.items():
        if is_unwritten(known):
            if name not in given:
                raise UnknownSettingError(
                    f"resume: the setting {name!r} was a function, which no file can hold; give it "
                    f"again: solve(resume=..., {name}=...)."
                )
            known = given[name]
        settings[name] = known
    for name, value in given.items():
        if name in NODE_LIMITS:
            settings[name] = value
        is_same = name in settings and (settings[name] is value or _equal(settings[name], value))
        if not is_same:
            raise UnknownSettingError(
                f"resume: the run goes on with the settings that it had, not with {name} = {value!r}."
            )
    merged["settings"] = settings
    return state.method, merged


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False
