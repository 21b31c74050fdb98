"""Pictures of a problem over one or two upper variables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import ModelError
from blomodel.report import pictures
from blomodel.report.curve_kinks import Kink, find_kinks
from blomodel.report.landscape import Landscape, UpperView, sample
from blomodel.text.layout import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.problem import BilevelProblem

WIDE = 98.0  # percentile of phi up to which the colours of a map reach

# The dashes of one curve fall into the gaps of the next, so that curves on top of each other, which
# is what a penalty that is exact looks like, can all be seen.
_PENALTY_STYLES: tuple[tuple[str, tuple[float, tuple[float, float]]], ...] = (
    (pictures.ORANGE, (0, (2, 4))),
    (pictures.SKY, (2, (2, 4))),
    (pictures.GREEN, (4, (2, 4))),
)

# Other colours than those of the penalties, so that nobody looks for a connection; no more entries of
# y are drawn than there are colours.
_ANSWER_COLOURS = (
    pictures.BLUE,
    pictures.VERMILION,
    pictures.OLIVE,
    pictures.PURPLE,
    pictures.BLACK,
    pictures.SKY,
)


def plot_problem(
    problem: BilevelProblem,
    *,
    span: Any = None,
    gammas: Sequence[float] | None = None,
    points: int | None = None,
    ax: Axes | Sequence[Axes] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """See BilevelProblem.plot."""
    problem.check_data()
    if problem.plain_model.has_integers:
        raise ModelError("Pictures are drawn over real numbers, and this problem has integer variables.")
    n_x = sum(variable.size for variable in problem.levels.upper)
    if n_x not in (1, 2):
        sizes = ", ".join(f"{v.name()} of size {v.size}" for v in problem.levels.upper) or "none"
        raise ModelError(
            f"plot: a picture over x needs one or two upper unknowns; this problem has {n_x} ({sizes}). "
            "problem.solution.plot() draws the progress of a solve of any size."
        )
    axes = [] if ax is None else list(np.ravel(np.asarray(ax, dtype=object)))
    spans = spans_of(problem, span, n_x)
    is_slow = not problem.plain_model.is_convex_below  # many searches for each point
    if n_x == 1:
        figure = _draw_curves(problem, spans[0], gammas, points or (101 if is_slow else 301), axes)
    else:
        figure = _draw_maps(problem, spans, gammas, points or (21 if is_slow else 61), axes)
    return pictures.finish(figure, path)


def names_of(variables: Sequence[Any]) -> list[str]:
    """A name for each entry, in the order of the flat vector: x, or x[0], x[1], ..., Z[0,1].

    >>> import cvxpy as cp
    >>> names_of([cp.Variable(name="x"), cp.Variable((1, 2), name="Z")])
    ['x', 'Z[0,0]', 'Z[0,1]']
    """
    names = []
    for variable in variables:
        if variable.ndim == 0:
            names.append(variable.name())
            continue
        for place in range(variable.size):
            index = np.unravel_index(place, variable.shape, order="F")
            names.append(f"{variable.name()}[{','.join(str(k) for k in index)}]")
    return names


def spans_of(problem: BilevelProblem, span: Any, n_x: int) -> list[tuple[float, float]]:
    """The range of each upper unknown: as given, its bounds, or around what the last solve met."""
    if span is not None:
        given = np.asarray(span, dtype=float)
        given = given[None] if given.ndim == 1 else given
        if given.shape != (n_x, 2) or not np.all(given[:, 0] < given[:, 1]):
            example = "(lowest, highest)" if n_x == 1 else "((lowest, highest), (lowest, highest))"
            raise ModelError(f"plot: span = {span!r} is not of the form {example}.")
        return [(float(low), float(high)) for low, high in given]
    low, high = problem.plain_model.bounds(problem.parameter_values())
    met = _iterates(problem)
    if problem.solution is not None and problem.levels.x.has_values:
        met = np.vstack([met, problem.levels.x.pack()])
    spans = []
    for k, name in enumerate(names_of(problem.levels.upper)):
        ends = float(low[k]), float(high[k])
        if not np.all(np.isfinite(ends)):
            if not len(met):
                raise ModelError(
                    f"plot: '{name}' is bounded by [{number(ends[0])}, {number(ends[1])}], which cannot "
                    "be drawn; pass span=(lowest, highest), or solve first."
                )
            middle, reach = met[-1, k], max(1.0, 1.3 * np.abs(met[:, k] - met[-1, k]).max())
            ends = max(ends[0], middle - reach), min(ends[1], middle + reach)
        spans.append(ends)
    return spans


def _iterates(problem: BilevelProblem) -> np.ndarray:
    """The upper points of the last solve's history, one to a row."""
    n_x = sum(variable.size for variable in problem.levels.upper)
    if problem.solution is None or "x" not in problem.solution.history:
        return np.empty((0, n_x))
    path = problem.solution.history["x"].reshape(-1, n_x)
    return path[np.all(np.isfinite(path), axis=1)]


def has_answer(problem: BilevelProblem) -> bool:
    """Whether the variables hold the answer of a solve."""
    has_values = problem.levels.x.has_values
    return has_values and problem.value is not None and bool(np.isfinite(problem.value))


# One upper unknown: curves


def _draw_curves(
    problem: BilevelProblem,
    span: tuple[float, float],
    gammas: Sequence[float] | None,
    points: int,
    axes: list[Any],
) -> Figure:
    model, p = problem.plain_model, problem.parameter_values()
    grid = np.linspace(*span, points)
    landscape = sample(model, p, grid[:, None], (0.1, 1.0, 10.0) if gammas is None else gammas)
    view = UpperView(model, p)

    def curves(place: float) -> np.ndarray:
        value, y, *_ = view.look(np.array([place]))
        return np.concatenate([[value], y])

    kinks = find_kinks(curves, grid, np.column_stack([landscape.value, landscape.y]))
    if not axes:
        figure, panels = pictures.new_picture((8, 6.6), nrows=2, sharex=True, height_ratios=(3, 2))
        axes = list(panels)
    _draw_value(axes[0], problem, landscape, kinks)
    if len(axes) > 1:
        _draw_answers(axes[1], problem, landscape, kinks)
    axes[min(1, len(axes) - 1)].set_xlabel(
        f"upper variable {pictures.as_label(names_of(problem.levels.upper)[0])}"
    )
    pictures.tidy(*axes[:2])
    figure = axes[0].figure
    return figure


def _draw_value(
    panel: Axes, problem: BilevelProblem, landscape: Landscape, kinks: Sequence[Kink]
) -> None:
    x, sign = landscape.x[:, 0], problem.sign
    jumps = [kink.place for kink in kinks if kink.is_jump]
    value = np.where(landscape.is_allowed, landscape.value, np.nan)
    place, shown = _broken(x, sign * value, jumps)
    panel.plot(
        place, shown, color=pictures.BLACK, linewidth=6, alpha=0.3, solid_capstyle="butt",
        label=r"$\varphi(x)$: value at the lower answer",
    )  # fmt: skip
    if not np.all(landscape.is_allowed | np.isnan(landscape.value)):
        place, shown = _broken(x, sign * landscape.value, jumps)
        label = r"$\varphi(x)$ where an upper constraint fails"
        panel.plot(place, shown, color=pictures.BLACK, linestyle=":", label=label, zorder=1)
    for position, (gamma, values) in enumerate(landscape.penalised.items()):
        colour, dashes = _PENALTY_STYLES[position % len(_PENALTY_STYLES)]
        label = rf"$F_\gamma(x)$, $\gamma$ = {number(gamma)}"
        panel.plot(x, sign * values, color=colour, linestyle=dashes, linewidth=2.5, label=label)
    _mark_kinks(panel, [kink for kink in kinks if 0 in kink.curves])
    known = np.isfinite(landscape.value)
    iterates = _iterates(problem)[:, 0]
    inside = iterates[(iterates >= x[0]) & (iterates <= x[-1])]
    if inside.size and known.any() and problem.solution is not None:
        height = np.interp(inside, x[known], sign * landscape.value[known])
        label = f"steps of {problem.solution.method} ({inside.size})"
        panel.plot(inside, height, "o", markersize=5, color=pictures.BLUE, fillstyle="none", label=label)
    if has_answer(problem) and problem.value is not None:
        at = float(problem.levels.x.pack()[0])
        label = f"answer: {number(at, 5)}, value {number(problem.value, 5)}"
        panel.plot(
            at, problem.value, "*", markersize=15, color=pictures.VERMILION,
            markeredgecolor="white", label=label, zorder=5,
        )  # fmt: skip
    verb = "minimises" if sign > 0 else "maximises"
    panel.set_title(f"What the upper level {verb}", loc="left")
    panel.set_ylabel("upper objective")
    panel.legend(frameon=False, handlelength=4, fontsize="small")


def _draw_answers(
    panel: Axes, problem: BilevelProblem, landscape: Landscape, kinks: Sequence[Kink]
) -> None:
    """The lower answer as a path over x."""
    x, names = landscape.x[:, 0], names_of(problem.levels.lower)
    with np.errstate(invalid="ignore"):
        moves = np.nan_to_num(np.nanmax(landscape.y, axis=0) - np.nanmin(landscape.y, axis=0))
    drawn = sorted(np.argsort(-moves, kind="stable")[: len(_ANSWER_COLOURS)])
    for position, k in enumerate(drawn):
        jumps = [kink.place for kink in kinks if kink.is_jump and k + 1 in kink.curves]
        place, shown = _broken(x, landscape.y[:, k], jumps)
        colour = _ANSWER_COLOURS[position]
        panel.plot(place, shown, color=colour, linewidth=2, label=pictures.as_label(names[k]))
    _mark_kinks(panel, [kink for kink in kinks if any(k + 1 in kink.curves for k in drawn)])
    title = "The lower answer"
    if len(names) > len(drawn):
        title += f": the {len(drawn)} of {len(names)} entries that move most"
    panel.set_title(title, loc="left")
    panel.set_ylabel(
        "lower variables" if len(names) > 1 else f"lower variable {pictures.as_label(names[0])}"
    )
    if len(names) > 1 or kinks:
        panel.legend(frameon=False, fontsize="small")


def _mark_kinks(panel: Axes, kinks: Sequence[Kink]) -> None:
    for is_jump, label, style in ((False, "kink", ":"), (True, "jump", "--")):
        places = [kink.place for kink in kinks if kink.is_jump is is_jump]
        for position, place in enumerate(places):
            panel.axvline(
                place, color=pictures.PURPLE, linestyle=style, linewidth=1.2, zorder=0,
                label=f"{label} ({len(places)})" if position == 0 else None,
            )  # fmt: skip


def _broken(x: np.ndarray, values: np.ndarray, jumps: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The curve with a gap at each jump, between the two samples nearby that differ most."""
    cuts = []
    leaps = np.nan_to_num(np.abs(np.diff(values)))
    for jump in jumps:
        near = int(np.searchsorted(x, jump))
        first = max(near - 2, 0)
        cuts.append(first + int(np.argmax(leaps[first : near + 1])) + 1)
    return np.insert(x, cuts, x[cuts]), np.insert(values, cuts, np.nan)


# Two upper unknowns: maps


def _draw_maps(
    problem: BilevelProblem,
    spans: list[tuple[float, float]],
    gammas: Sequence[float] | None,
    points: int,
    axes: list[Any],
) -> Figure:
    first, second = (np.linspace(*span, points) for span in spans)
    nodes = np.array([[a, b] for b in second for a in first])
    landscape = sample(
        problem.plain_model, problem.parameter_values(), nodes, (1.0,) if gammas is None else gammas
    )
    shown = {r"$\varphi(x)$: value at the lower answer": landscape.value}
    for gamma, values in landscape.penalised.items():
        shown[rf"$F_\gamma(x)$, $\gamma$ = {number(gamma)}"] = values
    if not axes:
        n = len(shown)
        _, panels = pictures.new_picture(
            (1.5 + 4.5 * n, 4.6), ncols=n, sharex=True, sharey=True, squeeze=False
        )
        axes = list(panels[0])
    levels = _levels(problem.sign * landscape.value, problem.sign)
    names = [pictures.as_label(name) for name in names_of(problem.levels.upper)]
    drawn: Any = None
    # Given fewer panels than maps, those that fit are drawn, phi first.
    for panel, (title, values) in zip(axes, shown.items(), strict=False):
        heights = (problem.sign * values).reshape(points, points)
        drawn = panel.contourf(first, second, heights, levels=levels, cmap="cividis", extend="both")
        panel.contour(first, second, heights, levels=levels, colors="white", linewidths=0.4,
                      linestyles="solid", alpha=0.6)  # fmt: skip
        forbidden = ~landscape.is_allowed.reshape(points, points)
        if forbidden.any():
            panel.contourf(
                first, second, forbidden.astype(float), levels=[0.5, 1.5], colors=["white"], alpha=0.55,
                hatches=["///"],
            )  # fmt: skip
        _draw_path(panel, problem)
        panel.set_title(title, loc="left", fontsize="medium")
        panel.set_xlabel(f"upper variable {names[0]}")
        panel.set_xlim(spans[0])
        panel.set_ylim(spans[1])
    axes[0].set_ylabel(f"upper variable {names[1]}")
    figure: Figure = axes[0].figure
    figure.colorbar(drawn, ax=axes[: len(shown)], label="upper objective")
    _add_key(axes[0], problem, bool((~landscape.is_allowed).any()))
    return figure


def _levels(values: np.ndarray, sign: float) -> np.ndarray:
    """Round heights for contour lines; the worst few per cent must not use up all colours."""
    from matplotlib.ticker import MaxNLocator

    known = values[np.isfinite(values)]
    if not known.size:
        raise ModelError("plot: the lower level has no answer anywhere in this range of x.")
    worst = np.percentile(known, WIDE if sign > 0 else 100 - WIDE)
    low, high = sorted((float(worst), float(known.min() if sign > 0 else known.max())))
    if high - low <= 1e-9 * (1 + abs(low)):
        low, high = low - 0.5, high + 0.5
    return np.asarray(MaxNLocator(14).tick_values(low, high))


def _draw_path(panel: Axes, problem: BilevelProblem) -> None:
    path = _iterates(problem)
    if len(path):
        panel.plot(
            path[:, 0], path[:, 1], "o", markersize=5, color="white", markeredgecolor="black",
            markeredgewidth=0.8,
        )  # fmt: skip
    if has_answer(problem):
        at = problem.levels.x.pack()
        panel.plot(at[0], at[1], "*", markersize=16, color=pictures.VERMILION, markeredgecolor="white")


def _add_key(panel: Axes, problem: BilevelProblem, has_forbidden: bool) -> None:
    """A legend below the maps, where it hides nothing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    key: list[Any] = []
    mark: dict[str, Any]
    n_steps = len(_iterates(problem))
    if n_steps and problem.solution is not None:
        label = f"steps of {problem.solution.method} ({n_steps})"
        mark = {"marker": "o", "linestyle": "", "color": "white", "markeredgecolor": "black"}
        key.append(Line2D([], [], label=label, **mark))
    if has_answer(problem):
        at = ", ".join(number(entry, 4) for entry in problem.levels.x.pack())
        label = f"answer ({at}), value {number(problem.value or 0.0, 5)}"
        mark = {"marker": "*", "linestyle": "", "color": pictures.VERMILION, "markersize": 12}
        key.append(Line2D([], [], label=label, **mark))
    if has_forbidden:
        key.append(Patch(facecolor="white", edgecolor="grey", hatch="///", label="not allowed"))
    if key:
        panel.figure.legend(handles=key, loc="outside lower center", ncols=len(key), frameon=False)
