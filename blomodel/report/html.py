"""Tables of solutions and comparisons, for notebooks and for the report page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.text.html import table, verdict
from blomodel.text.layout import array, number, seconds

if TYPE_CHECKING:
    from blomodel.comparison import Comparison
    from blomodel.solution import Solution


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
