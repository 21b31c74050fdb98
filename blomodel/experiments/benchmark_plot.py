"""Performance profiles, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import DataError
from blomodel.report import pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.experiments.benchmark import Benchmark

DASHES = ("-", "--", ":", "-.")


def plot_benchmark(
    benchmark: Benchmark, against: str, ax: Axes | None, path: str | Path | None
) -> Figure:
    """See Benchmark.plot."""
    if against not in ("ratio", "time"):
        raise DataError(f"against='{against}': take 'ratio' or 'time'.")
    panel: Any = pictures.new_picture((8.0, 4.5))[1] if ax is None else ax
    times, count = benchmark.times(), len(benchmark.problems)
    curves = []
    for column, method in enumerate(benchmark.methods):
        if against == "ratio":
            values, shares = benchmark.profile(method)
        else:
            own = times[:, column]
            values = np.sort(own[np.isfinite(own)])
            shares = np.arange(1, values.size + 1) / count
        curves.append((method, values, shares))
    first = 1.0 if against == "ratio" else min((v[0] for _, v, _ in curves if v.size), default=1e-3) / 2
    last = 2 * max((v[-1] for _, v, _ in curves if v.size), default=10.0)
    for number, (method, values, shares) in enumerate(curves):
        panel.step(
            np.concatenate([[first], values, [last]]),
            np.concatenate([[0.0], shares, shares[-1:] if shares.size else [0.0]]),
            where="post",
            color=pictures.COLOURS[number % len(pictures.COLOURS)],
            linestyle=DASHES[number // len(pictures.COLOURS) % len(DASHES)],
            label=f"{method} ({benchmark.solved(method)} of {count})",
        )
    panel.set_xscale("log")
    panel.set_xlim(first, last)
    panel.set_ylim(0, 1.03)
    panel.set_ylabel("share of problems solved")
    words = "times the seconds of the fastest method" if against == "ratio" else "seconds"
    panel.set_xlabel(f"within this many {words}")
    panel.legend(frameon=False, fontsize="small", loc="lower right")
    pictures.tidy(panel)
    figure: Figure = panel.figure
    return pictures.finish(figure, path)
