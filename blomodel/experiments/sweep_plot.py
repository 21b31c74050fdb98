"""Value and answer against a parameter, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import DataError
from blomodel.report import pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.experiments.sweep import Sweep

SHOWN_LINES = 12  # of entries of variables; more cannot be told apart
DASHES = ("-", "--")


def plot_sweep(sweep: Sweep, ax: Sequence[Axes] | None, path: str | Path | None) -> Figure:
    """See Sweep.plot."""
    if len(sweep.parameters) == 1:
        panels = pictures.new_picture((7.5, 6.0), nrows=2, sharex=True)[1] if ax is None else _given(ax)
        # One panel: the values alone; the other is drawn where nobody sees it.
        lower = panels[1] if len(panels) > 1 else pictures.new_picture()[1]
        figure = _draw_curves(sweep, panels[0], lower)
        if len(panels) == 1:
            panels[0].set_xlabel(lower.get_xlabel())
    elif len(sweep.parameters) == 2 and all(sweep[name].ndim == 1 for name in sweep.parameters):
        panel = pictures.new_picture((7.0, 5.0))[1] if ax is None else _given(ax)[0]
        figure = _draw_map(sweep, panel)
    else:
        raise DataError("sweep: only one parameter, or two scalar ones, can be drawn; see to_frame().")
    return pictures.finish(figure, path)


def _given(ax: Any) -> Any:
    return np.ravel(np.asarray(ax, dtype=object))


def _draw_curves(sweep: Sweep, upper: Any, lower: Any) -> Figure:
    """The value above, entries of the variables below."""
    (name,) = sweep.parameters
    along = sweep[name]
    label = name
    if along.ndim > 1:  # an array has no place on an axis
        along, label = np.arange(len(along), dtype=float), f"number of the value of {name}"
    order = np.argsort(along, kind="stable")
    upper.plot(along[order], sweep.values[order], "o-", color=pictures.BLACK, markersize=3.5)
    for row, place in zip(sweep.rows, along, strict=True):
        if np.isnan(row.value):
            upper.axvline(place, color=pictures.VERMILION, alpha=0.4, linewidth=1)
    upper.set_ylabel("value")
    lines = []
    for variable in sweep.variables:
        entries = sweep[variable].reshape(len(along), -1)
        names = (
            [variable]
            if entries.shape[1] == 1
            else [f"{variable}[{k}]" for k in range(entries.shape[1])]
        )
        lines += list(zip(names, entries.T, strict=True))
    for number, (entry, figures) in enumerate(lines[:SHOWN_LINES]):
        style = DASHES[number // len(pictures.COLOURS) % len(DASHES)]
        colour = pictures.COLOURS[number % len(pictures.COLOURS)]
        lower.plot(
            along[order],
            figures[order],
            style,
            color=colour,
            label=pictures.as_label(entry),
            linewidth=1.4,
        )
    if len(lines) > SHOWN_LINES:
        lower.plot([], [], " ", label=f"and {len(lines) - SHOWN_LINES} more")
    lower.set_ylabel("answer")
    lower.set_xlabel(pictures.as_label(label))
    lower.legend(frameon=False, fontsize="small")
    pictures.tidy(upper, lower)
    figure: Figure = upper.figure
    return figure


def _draw_map(sweep: Sweep, panel: Any) -> Figure:
    """The value over two parameters; cells without an answer stay empty."""
    down, across = sweep.parameters
    rows, columns = np.unique(sweep[down]), np.unique(sweep[across])
    values = np.full((rows.size, columns.size), np.nan)
    values[np.searchsorted(rows, sweep[down]), np.searchsorted(columns, sweep[across])] = sweep.values
    mesh = panel.pcolormesh(columns, rows, values, shading="nearest", cmap="viridis")
    figure: Figure = panel.figure
    figure.colorbar(mesh, ax=panel, label="value")
    panel.set_xlabel(pictures.as_label(across))
    panel.set_ylabel(pictures.as_label(down))
    return figure
