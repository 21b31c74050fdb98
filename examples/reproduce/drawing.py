"""Panels and colours of the pictures, the same for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that people with colour blindness tell apart (Okabe and Ito), with a line style each.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#F0E442", "#0072B2", "#D55E00", "#CC79A7"),
)
COLOURS = (BLUE, RED, GREEN, BLACK, PINK, ORANGE, SKY, "#666666", YELLOW)
STYLES = ("-", "--", "-.", ":", "-", "--", "-.", ":", "-")
AGAIN = ("--", ":")  # for the tenth line and later ones, whose colours have been used


def panels(
    n_columns: int, n_rows: int = 1, width: float = 3.6, height: float = 3.1
) -> tuple[Figure, Any]:
    """A figure with a row of panels, or several rows; the axes as a flat list."""
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    axes = np.ravel(figure.subplots(n_rows, n_columns))
    for axis in axes:
        axis.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def curve(axis: Axes, place: int, x: Any, y: Any, label: str | None = None, **style: Any) -> None:
    """A line in the colour and style of its place in the legend; what is not finite is left out."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    is_there = np.isfinite(x) & np.isfinite(y)
    line = STYLES[place] if place < len(STYLES) else AGAIN[place % 2]
    look = {"color": COLOURS[place % len(COLOURS)], "linestyle": line, "linewidth": 1.6, **style}
    axis.plot(x[is_there], y[is_there], label=label, **look)


def legend(axis: Axes, **where: Any) -> None:
    """A small legend without a frame."""
    axis.legend(frameon=False, fontsize=8.5, **where)


def surface(
    axis: Axes, u: np.ndarray, v: np.ndarray, values: np.ndarray, title: str, **labels: str
) -> None:
    """Level lines of values over a grid, closer together where they are low."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    levels = low + (high - low) * np.linspace(0, 1, 22) ** 2
    axis.contourf(u, v, values, levels=levels, cmap="Blues_r")
    axis.contour(u, v, values, levels=levels, colors="white", linewidths=0.4)
    axis.set(title=title, xlabel=labels.get("x", "$u$"), ylabel=labels.get("y", "$v$"))
    axis.grid(visible=False)
