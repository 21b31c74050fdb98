"""Small tables for notebooks and for the report page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from blomodel.status import Status

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
    return f'<p><strong style="color:{colour}">{mark} {word}</strong>: {escape(status.meaning)}</p>'


def facts_html(facts: Iterable[tuple[str, str, str]]) -> str:
    """A table of names, values and what shows them."""
    return table([[escape(part) for part in fact] for fact in facts], ("fact", "", "shown by"))
