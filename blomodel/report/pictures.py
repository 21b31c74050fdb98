"""What all pictures share: colours, figures that show themselves in notebooks, saving."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, OLIVE = "#0072B2", "#D55E00", "#CC79A7", "#B8A800"
COLOURS = (BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, OLIVE)


@cache
def _picture_class() -> type[Figure]:
    """A kind of figure that notebooks show by themselves; made on first use, as matplotlib is slow."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that no window and no global state knows of."""

        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png", dpi=110)
            return buffer.getvalue()

    return Picture


def new_picture(size: tuple[float, float] = (8.0, 5.0), **grid: Any) -> tuple[Figure, Any]:
    """An empty picture and its panels, arranged as ``Figure.subplots`` does."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    picture = _picture_class()(figsize=size, layout="constrained")
    FigureCanvasAgg(picture)
    return picture, picture.subplots(**grid)


def as_label(name: str) -> str:
    """A name as a picture shows it: no formula, whatever it holds, and not left out of a legend."""
    shown = "".join(c if c.isprintable() else " " for c in name).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def tidy(*panels: Axes) -> None:
    """A faint grid, and no frame where there is no axis."""
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """Save the figure if a path is given; the ending of the name chooses the format."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
