"""Several methods on one problem, drawn against time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.report import pictures
from blomodel.status import Status
from blomodel.text.layout import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.comparison import Comparison, ComparisonRow

TINY = np.finfo(float).eps  # a gap below rounding is zero, which a logarithmic axis does not have
CLOSE = 1e-12  # relative; values nearer than this to the best are drawn as equal
DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^"


def plot_comparison(
    comparison: Comparison,
    *,
    ax: Sequence[Axes] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """See Comparison.plot."""
    if ax is None:
        height = max(5.5, 0.23 * len(comparison.rows) + 1.5)
        _, panels = pictures.new_picture((9.5, height), nrows=2, sharex=True)
    else:
        panels = np.ravel(np.asarray(ax, dtype=object))
    upper = panels[0]
    lower = panels[1] if len(panels) > 1 else pictures.new_picture()[1]  # one panel: the values alone
    best, what = _reference(comparison)
    for position, row in enumerate(comparison.rows):
        turn = position // len(pictures.COLOURS)
        style: dict[str, Any] = {
            "color": pictures.COLOURS[position % len(pictures.COLOURS)],
            "linestyle": DASHES[turn % len(DASHES)],
            "marker": MARKERS[turn % len(MARKERS)],
        }
        _draw_row(upper, lower, row, None if best is None else comparison.sign * best, style)
    if any(np.isfinite(row.time) for row in comparison.rows):
        lower.set_xscale("log")
        upper.set_xscale("log")
    lower.set_yscale("log")
    lower.set_ylim(TINY / 10, max(1e-3, lower.get_ylim()[1]))
    if best is not None:
        upper.set_yscale("log")
        upper.set_ylabel(f"distance to the\n{what} {number(best)}")
    else:
        upper.set_ylabel("upper objective, minimised")
    lower.set_ylabel("lower gap")
    (lower if len(panels) > 1 else upper).set_xlabel("seconds of the method itself")
    upper.set_title(
        "Filled mark: certified answer. Hollow: refused by the certificate.", loc="left",
        fontsize="medium",
    )  # fmt: skip
    pictures.tidy(upper, lower)
    figure: Figure = upper.figure
    if ax is None:
        key = upper.get_legend_handles_labels()
        figure.legend(*key, loc="outside right upper", frameon=False, fontsize="small")
    else:
        upper.legend(frameon=False, fontsize="small")
    return pictures.finish(figure, path)


def _reference(comparison: Comparison) -> tuple[float | None, str]:
    """What distances are measured from: a proven optimum, or the best value with a certificate.

    A tolerance below lets y gain its square root above, so a proven value is the better measure.
    """
    proven = [row.value for row in comparison.rows if row.certificate is not None
              and row.certificate.claim is Status.OPTIMAL]  # fmt: skip
    if proven:
        return proven[0], "proven optimum"
    best = comparison.best
    return (None, "") if best is None else (best.value, "best certified value")


def _draw_row(
    upper: Axes, lower: Axes, row: ComparisonRow, best: float | None, style: dict[str, Any]
) -> None:
    """One method's curves, with a mark at the end that was certified or refused."""
    if row.solution is None:
        upper.plot([], [], label=f"{row.method} (error)", **{**style, "marker": ""})
        return
    certificate = row.certificate
    is_accepted = certificate is not None and certificate.accepted
    face = style["color"] if is_accepted else "white"
    label = row.method if is_accepted else f"{row.method} (refused)"
    ends = {"value": np.nan, "gap": np.nan}
    if certificate is not None:
        ends = {"value": row.solution.sign * certificate.objective, "gap": certificate.lower_gap}
    for panel, name in ((upper, "value"), (lower, "gap")):
        times, figures = _curve(row, name)
        if np.isfinite(ends[name]):
            times, figures = np.append(times, row.time), np.append(figures, ends[name])
        if name == "gap":
            figures = np.maximum(figures, TINY)
        elif best is not None:
            figures = np.maximum(np.abs(figures - best), CLOSE * (1 + abs(best)))
        panel.plot(
            times, figures, markevery=[len(figures) - 1] if len(figures) else [], markersize=7,
            markerfacecolor=face, linewidth=1.4, label=label, **style,
        )  # fmt: skip


def _curve(row: ComparisonRow, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and figures of the steps that have the figure."""
    assert row.solution is not None
    history = row.solution.history
    if name not in history:
        return np.empty(0), np.empty(0)
    known = np.isfinite(history[name])
    return history["time"][known], history[name][known]
