"""Small tables for notebooks and for the report page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.report.text import array, number, part, seconds
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.analysis.structure import Structure
    from blomodel.certificate import Certificate
    from blomodel.comparison import Comparison
    from blomodel.solution import Solution

GOOD, FAIR, BAD = "#00664b", "#8a5a00", "#a33d00"  # dark enough to read on white
_STRONG = {Status.OPTIMAL, Status.LOCALLY_OPTIMAL, Status.STATIONARY}


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Rows of HTML cells; the first cell of each row names it."""
    parts = ['<table style="border-collapse:collapse;text-align:left">']
    cell = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
    if head:
        titles = "".join(f'<th style="{cell}" scope="col">{title}</th>' for title in head)
        parts.append(f"<thead><tr>{titles}</tr></thead>")
    parts.append("<tbody>")
    name_cell = f"{cell};font-weight:normal;opacity:0.75;white-space:nowrap"
    for first, *others in rows:
        cells = "".join(f'<td style="{cell}">{content}</td>' for content in others)
        parts.append(f'<tr><th style="{name_cell}" scope="row">{first}</th>{cells}</tr>')
    return "".join([*parts, "</tbody></table>"])


def verdict(status: Status, *, is_accepted: bool) -> str:
    """The status as a coloured word with its meaning; the word alone also says it all."""
    colour = BAD if not is_accepted else GOOD if status in _STRONG else FAIR
    mark = "&#10003;" if is_accepted else "&#10007;"
    word = escape(status.value.replace("_", " "))
    return (
        f'<p><strong style="color:{colour}">{mark} {word}</strong>: {escape(status.meaning)}</p>'
    )


def certificate_html(certificate: Certificate) -> str:
    """The checks, each with its limit, and the claim."""
    c = certificate
    rows = [
        ("upper objective", number(c.objective, 10), ""),
        ("upper violation", f"{c.upper_violation:.2e}", _judge(c.upper_violation, c.tolerance)),
        ("lower violation", f"{c.lower_violation:.2e}", _judge(c.lower_violation, c.tolerance)),
        ("lower gap", f"{max(c.lower_gap, 0.0):.2e}", _judge(c.lower_gap, c.tolerance)),
        ("lower value", number(c.lower_value, 8), f"by {escape(c.checked_by)}"),
        ("lower answer unique", *_uniqueness(c.lower_is_unique)),
    ]
    if c.stationarity is not None:
        rows.append(("stationarity", f"{c.stationarity:.2e}", ""))
    if c.bound is not None:
        rows.append(("bound", number(c.bound, 10), f"from {escape(c.bound_source)}"))
    title = "because" if c.accepted else "refused because"
    because = table([(title if k == 0 else "", escape(why)) for k, why in enumerate(c.reasons)])
    return verdict(c.claim, is_accepted=c.accepted) + table(rows) + because


def solution_html(solution: Solution) -> str:
    """Status, value, variables and effort."""
    s = solution
    rows: list[tuple[str, ...]] = [("value", number(s.value, 10))]
    rows += value_rows(s.values)
    rows.append(("method", escape(s.method + (f" ({s.source})" if s.source else ""))))
    rows.append(("effort", effort_line(s)))
    rows.append(("time", time_line(s)))
    if s.stopped_by:
        rows.append(("stopped by", escape(s.stopped_by)))
    rows += [("note", escape(note)) for note in s.notes]
    is_accepted = s.certificate is not None and s.certificate.accepted
    return verdict(s.status, is_accepted=is_accepted and s.status.has_point) + table(rows)


def comparison_html(columns: Sequence[str], comparison: Comparison) -> str:
    """A row for each method, then why some have no answer."""
    rows = [[escape(cell) for cell in row.cells()] for row in comparison.rows]
    remarks = [
        (escape(", ".join(names)), escape(remark)) for remark, names in comparison.remarks().items()
    ]
    return table(rows, columns) + (table(remarks) if remarks else "")


def structure_html(structure: Structure) -> str:
    """The facts with their evidence."""
    return facts_html((fact.name, fact.value, fact.write_evidence(part)) for fact in structure.facts)


def facts_html(facts: Iterable[tuple[str, str, str]]) -> str:
    """A table of names, values and what shows them."""
    return table([[escape(part) for part in fact] for fact in facts], ("fact", "", "shown by"))


def value_rows(values: dict[str, np.ndarray]) -> list[tuple[str, ...]]:
    """Each variable's value, long ones with their middle left out."""
    return [(escape(name), escape(array(value, 6))) for name, value in values.items()]


def settings_rows(settings: dict[str, Any]) -> list[tuple[str, ...]]:
    """What solve() was given; None is written as what it means."""
    return [
        (escape(name), "none" if value is None else escape(_shown(value)))
        for name, value in settings.items()
    ]


def time_line(solution: Solution) -> str:
    """The stages' times in a sentence."""
    s = solution
    return (
        f"{seconds(s.total_time)} (compile {seconds(s.compile_time)}, solve {seconds(s.solve_time)}, "
        f"certify {seconds(s.certify_time)})"
    )


def effort_line(solution: Solution) -> str:
    """Iterations and evaluations in words."""
    counts = {"iteration": solution.iterations, "evaluation": solution.evaluations}
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items())


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _judge(figure: float, tolerance: float) -> str:
    if figure <= tolerance:
        return f'<span style="color:{GOOD}">&#10003; within {tolerance:g}</span>'
    return f'<span style="color:{BAD}">&#10007; above {tolerance:g}</span>'


def _uniqueness(is_unique: bool | None) -> tuple[str, str]:
    words = {True: "yes", False: "perhaps not", None: "not known"}
    advice = "the upper level was given its choice" if is_unique is False else ""
    return words[is_unique], advice
