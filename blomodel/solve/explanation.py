"""explain(): what a problem is, which methods apply and which do not, and what came of a solve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blomodel.methods.portfolio.plan import make_plan
from blomodel.methods.requirements.verdicts import Verdict, judge
from blomodel.methods.run.registry import create_method, method_classes
from blomodel.methods.run.run import Run
from blomodel.model.lower_service import describe_service
from blomodel.report import text
from blomodel.report.advice import next_step
from blomodel.status import Status
from blomodel.structure.structure import WIDTH, Structure
from blomodel.text import layout
from blomodel.text.mathematics import plain
from blomodel.transformations.kinks import without_kinks

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.solve.no_answer import NoAnswer


def explain(problem: BilevelProblem) -> str:
    """The facts, the methods and, after a solve, its outcome, for a person."""
    structure = problem.structure
    parts = [
        layout.titled("the problem", str(structure)),
        *_transformations(problem),
        layout.titled("auto", str(make_plan(structure.model, structure.p))),
        layout.titled("inner solvers", layout.wrap(describe_service(structure.model), WIDTH)),
        layout.titled("methods", text.verdicts(verdicts(problem, structure), WIDTH)),
    ]
    if problem.solution is not None:
        parts.append(layout.titled("the last solve", _outcome(problem)))
    return "\n\n".join(parts)


def _transformations(problem: BilevelProblem) -> list[str]:
    """What is done to the problem before it is compiled, and once more to look at pieces."""
    rows = [(step.name, step.reason) for step in problem.chain]
    for step in without_kinks(problem.model).chain:
        rows.append((step.name, f"{step.reason}; for the certificate, and where pieces are exact"))
    return [layout.titled("transformations", layout.columns(rows, WIDTH))] if rows else []


def verdicts(problem: BilevelProblem, structure: Structure | None = None) -> list[Verdict]:
    """For every registered method, whether it applies to the problem."""
    structure = problem.structure if structure is None else structure
    run = Run(model=structure.model, p=structure.p, start=None, tolerance=1e-6, seed=0)
    convexity = structure.strong_convexity
    return [judge(run, create_method(name, {}), convexity) for name in sorted(method_classes())]


def _outcome(problem: BilevelProblem) -> str:
    solution, certificate = problem.solution, problem.certificate
    assert solution is not None
    rows = [("status", f"{solution.status}: {solution.status.meaning}"), ("method", solution.method)]
    if solution.source:
        rows.append(("found by", solution.source))
    if solution.stopped_by:
        rows.append(("stopped by", solution.stopped_by))
    if solution.no_answer is not None:
        rows += [("why", line) for line in _reasons(solution.no_answer)]
    elif certificate is not None:
        title = "because" if certificate.accepted else "refused because"
        rows += [(title, reason) for reason in certificate.reasons]
    rows += [("note", note) for note in solution.notes]
    if solution.status is not Status.OPTIMAL:
        rows.append(("next", next_step(solution)))
    return layout.columns(rows, WIDTH)


def _reasons(no_answer: NoAnswer) -> list[str]:
    certainty = "" if no_answer.is_proven else " (seen, not proven)"
    lines = [f"{no_answer.kind}: {no_answer.reason}{certainty}"]
    conflicts = no_answer.conflicts
    is_single = no_answer.kind == "upper constraint violated"
    for conflict in conflicts:
        by = f", violated by {layout.number(conflict.violation)} at best" if is_single else ""
        lines.append(f"{conflict.level} constraint {plain(conflict.constraint)}{by}")
    if conflicts and not is_single:
        least = sum(conflict.violation for conflict in conflicts)
        lines.append(
            f"all of these are needed; their violations add up to {layout.number(least)} at least"
        )
    return lines
