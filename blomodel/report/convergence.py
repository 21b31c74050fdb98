"""Pictures of a solve: what its figures did from step to step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import ModelError
from blomodel.report import pictures
from blomodel.text.layout import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.solution import Solution

TINY = np.finfo(float).eps  # a gap below rounding is zero, which a logarithmic axis does not have
LONG = 1000  # steps beyond which the first ones would be squeezed together on a linear axis

# What may be drawn in one panel on a logarithmic axis: a title, and the names methods use for it.
_FIGURES: dict[str, tuple[str, ...]] = {
    "stationarity": ("stationarity", "residual", "R_x", "R_w", "R_y", "h", "direction"),
    "penalty weight": ("gamma", "c", "weight", "lambda"),
    "step size": ("step",),
}


def plot_convergence(
    solution: Solution,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """See Solution.plot."""
    drawings = _drawings(solution)
    if not drawings:
        known = ", ".join(solution.history) or "nothing"
        raise ModelError(
            f"plot: this solve by {solution.method} recorded neither value nor gap, but {known}."
        )
    if ax is None:
        n = len(drawings)
        _, panels = pictures.new_picture((8, 1.2 + 2.1 * n), nrows=n, sharex=True, squeeze=False)
        axes = list(panels[:, 0])
    else:
        axes = list(np.ravel(np.asarray(ax, dtype=object)))
    # Given fewer panels than figures, the first ones are drawn.
    used = axes[: len(drawings)]
    for panel, draw in zip(used, drawings, strict=False):
        draw(panel)
    pictures.tidy(*used)
    steps = _steps(solution)
    if steps[-1] > LONG and steps[-1] > 20 * np.median(steps):
        used[-1].set_xscale("log")
    else:
        used[-1].xaxis.get_major_locator().set_params(integer=True)
    used[-1].set_xlabel("iteration")
    figure: Figure = used[0].figure
    if ax is None:
        figure.suptitle(f"{solution.method}: {solution.status}, value {number(solution.value)}")
    return pictures.finish(figure, path)


def _drawings(solution: Solution) -> list[Callable[[Any], None]]:
    """One function for each panel that this solve has figures for."""
    drawings: list[Callable[[Any], None]] = []
    if _has(solution, "value"):
        drawings.append(lambda panel: _draw_value(panel, solution))
    if _has(solution, "gap"):
        drawings.append(lambda panel: _draw_gap(panel, solution))
    if not drawings:
        return []
    for title, names in _FIGURES.items():
        present = [name for name in names if _has(solution, name) and _moves(solution, name)]
        if present:
            drawings.append(
                lambda panel, title=title, present=present: _draw_figures(  # type: ignore[misc]
                    panel, solution, title, present
                )
            )
    return drawings


def _has(solution: Solution, name: str) -> bool:
    return bool(np.isfinite(solution.history.get(name, np.empty(0))).any())


def _moves(solution: Solution, name: str) -> bool:
    """A weight or step that never changes is a setting, not a curve."""
    return bool(np.ptp(_column(solution, name)[1]) > 0)


def _steps(solution: Solution) -> np.ndarray:
    """The iteration at which each row of the history was written."""
    history = solution.history
    longest = max(len(column) for column in history.values())
    return history.get("iteration", np.arange(1.0, longest + 1))


def _column(solution: Solution, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Iterations and figures, without the steps that lack the figure."""
    figures = solution.history[name]
    known = np.isfinite(figures)
    return _steps(solution)[: len(figures)][known], figures[known]


def _style(steps: np.ndarray) -> dict[str, Any]:
    """Markers where there are few steps, a line alone where there are many."""
    if steps.size > 60:
        return {"linewidth": 1.6}
    return {"linewidth": 1.2, "marker": "o", "markersize": 4}


def _draw_value(panel: Axes, solution: Solution) -> None:
    """Each step's value; where gaps are known, which steps the lower level would keep."""
    steps, values = _column(solution, "value")
    values = solution.sign * values  # the history is kept for minimisation
    has_gap = _has(solution, "gap")
    label = "value of each step" + ("; it counts once the gap is closed" if has_gap else "")
    panel.plot(steps, values, color=pictures.SKY, label=label, **_style(steps))
    if has_gap:
        gaps = solution.history["gap"][np.isfinite(solution.history["value"])]
        closed = gaps <= _tolerance(solution)
        if closed.any():
            best = np.minimum.accumulate(np.where(closed, solution.sign * values, np.inf))
            known = np.isfinite(best)
            panel.step(
                steps[known], solution.sign * best[known], where="post", color=pictures.BLACK,
                label="best so far with the gap closed",
            )  # fmt: skip
    if np.isfinite(solution.value):
        panel.axhline(
            solution.value, color=pictures.VERMILION, linestyle="--", linewidth=1.2, zorder=0,
            label="certified answer",
        )  # fmt: skip
    panel.set_ylabel("upper objective")
    _set_value_range(panel, values, solution.value)
    _legend_above(panel)


def _set_value_range(panel: Axes, values: np.ndarray, answer: float) -> None:
    """Leave a wild first step outside of the picture, and do not blow up rounding."""
    known = np.append(values, answer) if np.isfinite(answer) else values
    low, high = np.percentile(known, [2, 98])
    low, high = min(low, known[-1]), max(high, known[-1])
    if np.ptp(known) <= 20 * (high - low):
        low, high = known.min(), known.max()
    margin = max(0.08 * (high - low), 1e-4 * (1 + abs(known[-1])))
    panel.set_ylim(low - margin, high + margin)


def _draw_gap(panel: Axes, solution: Solution) -> None:
    steps, gaps = _column(solution, "gap")
    panel.semilogy(
        steps, np.maximum(gaps, TINY), color=pictures.BLUE, label="lower gap", **_style(steps)
    )
    certificate = solution.certificate
    if certificate is not None and np.isfinite(certificate.lower_gap):
        certified = max(certificate.lower_gap, TINY)
        panel.plot(
            steps[-1], certified, "*", color=pictures.VERMILION, markersize=12,
            label="certified gap of the answer", zorder=5,
        )  # fmt: skip
    tolerance = _tolerance(solution)
    panel.axhline(tolerance, color="grey", linestyle=":", label=f"tolerance {number(tolerance)}")
    panel.set_ylim(TINY / 10, max(100 * tolerance, 10 * gaps.max()))
    panel.set_ylabel("lower gap")
    _legend_above(panel)


def _draw_figures(panel: Axes, solution: Solution, title: str, names: Sequence[str]) -> None:
    colours = (pictures.GREEN, pictures.PURPLE, pictures.ORANGE, pictures.BLUE, pictures.OLIVE)
    for position, name in enumerate(names):
        steps, figures = _column(solution, name)
        label = rf"$\{name}$" if name in ("gamma", "lambda") else name
        colour = colours[position % len(colours)]
        panel.semilogy(steps, np.maximum(figures, TINY), color=colour, label=label, **_style(steps))
    panel.set_ylabel(title if len(names) > 1 or names[0] in title else f"{title} ({label})")
    if len(names) > 1:
        _legend_above(panel)


def _legend_above(panel: Axes) -> None:
    """A legend in one line over the panel, where it covers no curve."""
    panel.legend(
        frameon=False, fontsize="small", ncols=5, loc="lower right", bbox_to_anchor=(1.0, 0.98),
        borderaxespad=0.0,
    )  # fmt: skip


def _tolerance(solution: Solution) -> float:
    return 1e-6 if solution.certificate is None else solution.certificate.tolerance
