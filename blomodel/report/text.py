"""Plain text for people: numbers, aligned tables, and a bilevel model written out as on paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.text.layout import array, columns, indent, number, table
from blomodel.text.mathematics import plain

if TYPE_CHECKING:
    from blomodel.methods.requirements.verdicts import Caution, Verdict
    from blomodel.methods.run.registry import MethodInfo
    from blomodel.problem import BilevelProblem


def verdicts(judged: Sequence[Verdict], width: int) -> str:
    """Which methods apply, which do so against their assumptions, and which do not apply and why."""
    rows: list[tuple[str, str]] = []
    apply = [v.method for v in judged if v.applies and v.caution is None]
    if apply:
        rows.append(("apply", ", ".join(apply)))
    by_caution: dict[Caution, list[str]] = {}
    by_reason: dict[str, list[str]] = {}
    for verdict in judged:
        if verdict.caution is not None:
            by_caution.setdefault(verdict.caution, []).append(verdict.method)
        elif not verdict.applies:
            by_reason.setdefault(verdict.reason, []).append(verdict.method)
    for caution, names in by_caution.items():
        rows.append(("run, but", f"{', '.join(names)}: {caution.said_of(len(names))}"))
    for reason, names in by_reason.items():
        rows.append(("do not apply", f"{', '.join(names)}: {reason}"))
    return columns(rows, width)


def model(problem: BilevelProblem) -> str:
    """The bilevel problem written out, the lower level indented below the upper one."""
    parts = [_level(problem.objective, problem.levels.upper, problem.constraints)]
    for follower in problem.followers:
        answered = ", ".join(variable.name() for variable in follower.variables)
        name = "" if follower.name == "lower level" else f" ({follower.name})"
        parts += [
            f"where {answered} solves the lower level{name}:",
            indent(_level(follower.objective, follower.variables, follower.constraints), 4),
        ]
    return "\n".join(parts)


def answer(problem: BilevelProblem) -> str:
    """Status with its meaning, value, variables and method of a solved problem, aligned."""
    solution = problem.solution
    if solution is None:
        return "not solved yet"
    lines = [
        ("status", f"{solution.status}: {solution.status.meaning}"),
        ("value", "none" if problem.value is None else number(problem.value)),
        *((v.name(), _value_of(v)) for v in problem.variables),
        ("method", f"{solution.method}, iterations: {solution.iterations}"),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _value_of(variable: cp.Variable) -> str:
    if variable.value is None:
        return "none"
    return array(variable.value, digits=6 if variable.size <= 5 else 4)


def methods(entries: Sequence[MethodInfo]) -> str:
    """A table of methods, then what each takes, assumes, costs and claims, its source and settings."""
    parts = [table(["method", "what it does"], [[entry.name, entry.summary] for entry in entries])]
    for entry in entries:
        lines = [
            ("takes", entry.takes),
            ("assumes", entry.assumes),
            ("a step", entry.costs),
            ("claims", entry.claims),
            ("source", entry.reference),
        ]
        lines += [("package", extra.how_to_install) for extra in entry.packages]
        lines += [("setting", line) for line in entry.setting_lines()]
        parts.append("\n".join([entry.name, *(f"  {word:<7}  {line}" for word, line in lines)]))
    return "\n\n".join(parts)


def _level(
    objective: cp.Minimize | cp.Maximize,
    variables: Sequence[cp.Variable],
    constraints: Sequence[Constraint],
) -> str:
    sense = "maximise" if isinstance(objective, cp.Maximize) else "minimise"
    text = [
        f"{sense:<10}  {plain(objective.args[0])}",
        f"{'over':<10}  {', '.join(_declaration(variable) for variable in variables)}",
    ]
    for k, item in enumerate(constraints):
        text.append(f"{'subject to' if k == 0 else '':<10}  {plain(item)}")
    return "\n".join(text)


def _declaration(variable: cp.Variable) -> str:
    """Name, shape and declared attributes, e.g. ``x (10, nonneg)``."""
    notes = ["x".join(str(length) for length in variable.shape)] if variable.shape else []
    notes += [name for name, value in variable.attributes.items() if value is True]
    if variable.attributes.get("bounds") is not None:
        notes.append("bounds")
    return f"{variable.name()} ({', '.join(notes)})" if notes else variable.name()
