"""One HTML page about a solve that needs nothing but itself: no network, no scripts."""

from __future__ import annotations

from datetime import datetime
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from latex2mathml.converter import convert

from blomodel.certification.certificate_text import certificate_html
from blomodel.report.convergence import plot_convergence
from blomodel.report.html import effort_line, method_settings, settings_rows, time_line, value_rows
from blomodel.report.problem_plot import plot_problem
from blomodel.text import html
from blomodel.text.layout import counted, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from blomodel.report.model_math import Row
    from blomodel.solution import Solution

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 60rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; padding-bottom: 0.2rem; }
.model { overflow-x: auto; padding: 0.6rem 0; }
.model td { padding: 0.25rem 0.9rem 0.25rem 0; vertical-align: baseline; white-space: nowrap; }
.model td td { padding-top: 0; padding-bottom: 0; }
math { font-size: 1.15rem; font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math",
       "DejaVu Math TeX Gyre", math, serif; }
math [mathvariant="bold"] { font-weight: bold; }
figure { margin: 0.5rem 0 1.5rem; }
figure svg { width: 100%; height: auto; }
.quiet { color: #555; }
@media (prefers-color-scheme: dark) {
  body { color: #ececec; background: #16181c; }
  h2 { border-color: #3c4048; }
  .quiet { color: #b0b0b0; }
  figure svg { background: #fff; border-radius: 6px; }
  [style^="color:"] { filter: brightness(1.9); }
}
section > table { display: block; overflow-x: auto; max-width: 100%; }
@media (max-width: 520px) {
  section > table th, section > table td {
    display: inline-block; white-space: normal !important; padding-right: 8px !important;
  }
  section > table th[scope="row"] { display: block; padding-top: 6px !important; }
  section > table thead { display: none; }
}
"""


def write_report(solution: Solution, path: Path) -> Path:
    """See Solution.report."""
    path.write_bytes(as_utf8(report_page(solution)))
    return path


def as_utf8(page: str) -> bytes:
    """The page for a file; halves of characters, which a name may hold, are spelled out."""
    return page.encode("utf-8", errors="backslashreplace")


def report_page(solution: Solution) -> str:
    """The page as text."""
    about = solution.background
    is_accepted = solution.certificate is not None and solution.certificate.accepted
    written = datetime.now().astimezone().strftime("%d %B %Y, %H:%M %Z")
    parts = [
        "<h1>Bilevel problem: report of a solve</h1>",
        f'<p class="quiet">Written by blomodel on {escape(written)}.</p>',
        html.verdict(solution.status, is_accepted=is_accepted and solution.status.has_point),
    ]
    if about is not None:
        parts.append(_section("The model", model_table(about.model)))
    answer = [("value", number(solution.value, 10)), *value_rows(solution.values)]
    parts.append(_section("The answer", html.table(answer)))
    if solution.certificate is not None:
        parts.append(_section("The certificate", certificate_html(solution.certificate)))
    if about is not None:
        parts.append(_section("Structure", html.facts_html(about.facts)))
    parts.append(_section("What was chosen and why", _choice(solution)))
    parts += _pictures(solution)
    settings = [*settings_rows(solution), ("time", time_line(solution))]
    if about is not None:
        settings += [
            (f"parameter {escape(n)}", counted(k, "number")) for n, k in about.parameters.items()
        ]
    parts.append(_section("Settings and time", html.table(settings) + method_settings(solution)))
    if about is not None:
        parts.append(_section("Versions", html.table(about.versions.items())))
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Bilevel problem: {escape(solution.status.value)}</title>\n<style>{STYLE}</style>\n"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def model_table(rows: Sequence[Row]) -> str:
    """The model in MathML, which browsers draw by themselves."""
    lines = []
    for row in rows:
        lead = _mathml(row.lead) if row.lead else ""
        formula = _mathml(row.formula)
        if row.depth:
            # The lower level's own leads stand under the formula that they belong to.
            formula = f'<table style="margin-left:3rem"><tr><td style="min-width:5.5rem">{lead}</td>'
            formula += f"<td>{_mathml(row.formula)}</td></tr></table>"
            lead = ""
        lines.append(f"<tr><td>{lead}</td><td>{formula}</td></tr>")
    return f'<div class="model"><table>{"".join(lines)}</table></div>'


def _mathml(latex: str) -> str:
    try:
        drawn = str(convert(latex))
    except Exception:  # of a converter that knows a part of LaTeX; its own words are better than none
        return f"<code>{escape(latex)}</code>"
    return drawn.replace('display="inline"', 'displaystyle="true"')


def _choice(solution: Solution) -> str:
    rows = [("method", escape(solution.method))]
    if solution.method == "auto" and solution.background is not None:
        rows.append(
            ("why these steps", "<br>".join(map(escape, solution.background.choice.split("\n"))))
        )
    if solution.source:
        rows.append(("the point came from", escape(solution.source)))
    rows.append(("effort", effort_line(solution)))
    if solution.stopped_by:
        rows.append(("stopped by", escape(solution.stopped_by)))
    rows += [("note", escape(note)) for note in solution.notes]
    return html.table(rows)


def _pictures(solution: Solution) -> list[str]:
    """How the solve went and, where it can be drawn quickly, what the upper level sees."""
    parts = []
    steps = [np.isfinite(solution.history.get(name, [])).sum() for name in ("value", "gap")]
    if max(steps) > 1:
        parts.append(_section("How the solve went", _svg(plot_convergence(solution), "Convergence")))
    problem = solution.problem
    if problem is None or sum(v.size for v in problem.levels.upper) not in (1, 2):
        return parts
    is_slow = not problem.plain_model.is_convex_below
    is_latest = problem.solution is solution and solution.status.has_point
    if is_latest and not is_slow:
        points = 151 if sum(v.size for v in problem.levels.upper) == 1 else 41
        picture = _svg(plot_problem(problem, points=points), "The upper objective over x")
        parts.append(_section("What the upper level sees", picture))
    return parts


def _svg(figure: Figure, label: str) -> str:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    # Without the XML prologue, which has no place inside a page.
    drawing = drawing[drawing.index("<svg") :]
    return f'<figure role="img" aria-label="{escape(label)}">{drawing}</figure>'
