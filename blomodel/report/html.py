"""Tables of solutions and comparisons, for notebooks and for the report page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.methods.run.registry import method_classes, methods
from blomodel.methods.run.settings import resolve, words_of
from blomodel.report.advice import next_step
from blomodel.status import Status
from blomodel.text.html import table, verdict
from blomodel.text.layout import array, counted, number, seconds

if TYPE_CHECKING:
    from blomodel.comparison import Comparison
    from blomodel.solution import Solution


def solution_html(solution: Solution) -> str:
    """Status, value, variables and effort."""
    s = solution
    rows: list[tuple[str, ...]] = [("value", number(s.value, 10))]
    if s.certificate is not None and s.certificate.accepted:
        rows.append(("bound", escape(bound_line(s))))
    rows += value_rows(s.values)
    rows.append(("method", escape(s.method + (f" ({s.source})" if s.source else ""))))
    rows.append(("effort", effort_line(s)))
    rows.append(("time", time_line(s)))
    if s.stopped_by:
        rows.append(("stopped by", escape(s.stopped_by)))
    rows += [("note", escape(note)) for note in s.notes]
    if s.status is not Status.OPTIMAL:
        rows.append(("next", escape(next_step(s))))
    is_accepted = s.certificate is not None and s.certificate.accepted
    return verdict(s.status, is_accepted=is_accepted and s.status.has_point) + table(rows)


def comparison_html(columns: Sequence[str], comparison: Comparison) -> str:
    """A row for each method, then why some have no answer."""
    rows = [[escape(cell) for cell in row.cells()] for row in comparison.rows]
    remarks = [
        (escape(", ".join(names)), escape(remark)) for remark, names in comparison.remarks().items()
    ]
    return table(rows, columns) + (table(remarks) if remarks else "")


def value_rows(values: dict[str, np.ndarray]) -> list[tuple[str, ...]]:
    """Each variable's value, long ones with their middle left out."""
    return [(escape(name), escape(array(value, 6))) for name, value in values.items()]


def bound_line(solution: Solution) -> str:
    """The bound, how far the value is from it, and where it comes from."""
    certificate = solution.certificate
    if certificate is None or certificate.bound is None:
        return "none" if certificate is None else f"none ({certificate.bound_origin})"
    gap = "" if certificate.gap is None else f", gap {max(certificate.gap, 0.0):.2g}"
    return f"{number(certificate.bound, 10)}{gap} ({certificate.bound_origin})"


def settings_rows(solution: Solution) -> list[tuple[str, ...]]:
    """What solve() was given beside the settings of its method; None is written as what it means."""
    cls = method_classes().get(solution.method)
    words = {} if cls is None else words_of(cls)
    return [
        (escape(name), "none" if value is None else escape(_shown(value)))
        for name, value in solution.settings.items()
        if name not in words
    ]


def method_settings(solution: Solution) -> str:
    """A table of the method's settings: value, default, other names and meaning; empty without any."""
    info = next((info for info in methods() if info.name == solution.method), None)
    if info is None or not info.settings:
        return ""
    cls = method_classes()[info.name]
    words = words_of(cls)
    given = resolve(cls, {key: value for key, value in solution.settings.items() if key in words})
    rows = [
        (
            escape(name),
            escape(_chosen(given.get(name, default))),
            escape(_chosen(default)),
            escape(", ".join(info.aliases[name])),
            escape(meaning),
        )
        for name, (default, meaning) in info.settings.items()
    ]
    return table(rows, (f"setting of {escape(info.name)}", "value", "default", "also", "meaning"))


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
    return ", ".join(counted(n, word) for word, n in counts.items())


def _chosen(value: Any) -> str:
    return "automatic" if value is None else _shown(value)


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
