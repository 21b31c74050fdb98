"""Plain text for people: numbers, aligned tables, and a bilevel model written out as on paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cvxpy as cp

from blomodel.report.advice import next_step
from blomodel.status import Status
from blomodel.text.layout import array, columns, counted, indent, number, seconds, table
from blomodel.text.levels import level

if TYPE_CHECKING:
    from blomodel.certification.certificate import Certificate
    from blomodel.methods.requirements.verdicts import Caution, Verdict
    from blomodel.methods.run.registry import MethodInfo
    from blomodel.problem import BilevelProblem
    from blomodel.solution import Solution

WIDTH = 100  # characters of a line


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
    parts = [level(problem.objective, problem.levels.upper, problem.constraints)]
    above = [problem.objective.args[0], *problem.constraints]
    used = {variable.id for part in above for variable in part.variables()}
    stray = [variable.name() for variable in problem.levels.upper if variable.id not in used]
    if stray:  # a hyper-parameter, or a lower variable that was not declared as one
        parts.append(f"{'note':<10}  only the lower level uses {', '.join(stray)}")
    for follower in problem.followers:
        answered = ", ".join(variable.name() for variable in follower.variables)
        name = "" if follower.name == "lower level" else f" ({follower.name})"
        parts += [
            f"where {answered} solves the lower level{name}:",
            indent(level(follower.objective, follower.variables, follower.constraints), 4),
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
        ("bound", _bound_of(problem.certificate)),
        *((v.name(), _value_of(v)) for v in problem.variables),
        ("method", f"{solution.method}, iterations: {solution.iterations}"),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def solution(found: Solution) -> str:
    """Status, value, bound, variables, method, effort and time of a solve, and why it has no answer."""
    rows = [("status", f"{found.status}: {found.status.meaning}"), ("value", _value(found))]
    if found.status.has_point:
        rows.append(("bound", _bound_of(found.certificate)))
    rows += [(name, array(value, digits=6)) for name, value in found.values.items()]
    by = f" ({found.source})" if found.source else ""
    rows.append(("method", f"{found.method}{by}"))
    rows.append(
        (
            "effort",
            f"{counted(found.iterations, 'iteration')}, {counted(found.evaluations, 'evaluation')}",
        )
    )
    times = (found.compile_time, found.solve_time, found.certify_time)
    words = zip(("compile", "solve", "certify"), times, strict=True)
    rows.append(("time", ", ".join(f"{word} {seconds(time)}" for word, time in words)))
    if found.stopped_by:
        rows.append(("stopped by", found.stopped_by))
    if found.no_answer is not None:
        rows.append(("why", found.no_answer.sentence))
    rows += [("note", note) for note in found.notes]
    if found.status is not Status.OPTIMAL:
        rows.append(("next", next_step(found)))
    return columns(rows, WIDTH)


def _value(found: Solution) -> str:
    return number(found.value, 10, zero=1e-3 * float(found.settings.get("tolerance", 0.0)))


def _bound_of(certificate: Certificate | None) -> str:
    if certificate is None or certificate.bound is None:
        return "none"
    gap = "" if certificate.gap is None else f", gap {max(certificate.gap, 0.0):.2g}"
    return f"{number(certificate.bound, 10)}{gap}"


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
