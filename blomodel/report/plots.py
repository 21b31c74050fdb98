"""Pictures of a bilevel problem and of a solve; nothing here touches pyplot's global state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.compiler.model import Model
from blomodel.errors import ModelError, NonconvexLowerError
from blomodel.report.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blomodel.problem import BilevelProblem

# Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
BLACK, ORANGE, SKY, GREEN, VERMILION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00"

# The dashes of one curve fall into the gaps of the next, so that curves on top of each other, which
# is what a penalty that is exact looks like, can all be seen.
_PENALTY_STYLES: tuple[tuple[str, tuple[float, tuple[float, float]]], ...] = (
    (ORANGE, (0, (2, 4))),
    (SKY, (2, (2, 4))),
    (GREEN, (4, (2, 4))),
)


@dataclass
class UpperCurve:
    """What the upper level sees along its one variable.

    ``value[k]`` is phi(x[k]) = f(x[k], y) at the lower solution y; ``penalised[gamma][k]`` is
    F_gamma(x[k]) = min_y [f + gamma g] - gamma v(x[k]). NaN where the lower level has no solution.
    """

    x: np.ndarray
    value: np.ndarray
    penalised: dict[float, np.ndarray] = field(default_factory=dict)


def sample_upper_objective(model: Model, x: np.ndarray, gammas: Sequence[float] = ()) -> UpperCurve:
    """Evaluate phi and F_gamma, both stated for minimisation, for each x of a grid.

    The curves F_gamma need an f that is convex in y; where it is not, they are left out.
    """
    p = model.p.pack()
    curve = UpperCurve(x, np.full(len(x), np.nan))
    v = np.full(len(x), np.nan)
    for k, point in enumerate(x):
        answer = model.lower_program.solve(np.array([point]), p)
        if answer.status.has_point:
            v[k] = answer.value
            curve.value[k] = model.f(np.array([point]), answer.y, p)[0]
    if not gammas:
        return curve
    try:
        program = model.penalised_program
    except NonconvexLowerError:
        return curve
    for gamma in gammas:
        answers = [program.solve(np.array([point]), p, weights=(1.0, gamma)) for point in x]
        values = np.array([a.value if a.status.has_point else np.nan for a in answers])
        curve.penalised[gamma] = values - gamma * v
    return curve


def plot_upper_objective(
    problem: BilevelProblem,
    *,
    span: tuple[float, float] | None = None,
    gammas: Sequence[float] = (0.1, 1.0, 10.0),
    points: int = 301,
) -> Figure:
    """Draw phi(x), the penalised F_gamma(x), and the answer if the problem has been solved.

    Parameters
    ----------
    problem : BilevelProblem
        Its upper level must have one scalar variable.
    span : pair of float, optional
        The range of x to draw; by default the bounds on x.
    gammas : sequence of float
        Penalty weights to draw F_gamma for, at most three.
    points : int
        How many values of x to evaluate.
    """
    variable = _scalar_upper_variable(problem)
    model = problem.model
    low, high = span if span is not None else (model.x_bounds[0][0], model.x_bounds[1][0])
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ModelError(
            f"'{variable.name()}' is bounded by [{number(low)}, {number(high)}], which cannot be "
            "drawn; pass span=(lowest, highest)."
        )
    curve = sample_upper_objective(model, np.linspace(low, high, points), gammas)
    verb = "minimises" if problem.sign > 0 else "maximises"

    figure, axes = _new_figure()
    label = r"$\varphi(x)$: upper objective at the lower solution"
    axes.plot(curve.x, problem.sign * curve.value, color=BLACK, linewidth=7, alpha=0.3, label=label)
    for (gamma, values), (colour, dashes) in zip(curve.penalised.items(), _PENALTY_STYLES, strict=False):
        style: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 2.5}
        label = rf"$F_\gamma(x)$, $\gamma$ = {number(gamma)}"
        axes.plot(curve.x, problem.sign * values, label=label, **style)
    if variable.value is not None and problem.value is not None and np.isfinite(problem.value):
        place = float(np.asarray(variable.value).item())
        label = f"answer: {variable.name()} = {number(place, 5)}, value {number(problem.value, 5)}"
        axes.plot(place, problem.value, "o", markersize=9, color=VERMILION, label=label, zorder=5)
    axes.set_xlabel(f"upper variable {variable.name()}")
    axes.set_ylabel("upper objective")
    axes.set_title(f"What the upper level {verb}")
    _finish(axes)
    return figure


def plot_convergence(problem: BilevelProblem) -> Figure:
    """Draw the upper objective and the lower gap at each iteration of the last solve.

    Methods with a penalty record F_gamma in place of the upper objective. A method with several
    starts goes through them one after the other, so the curves may jump.
    """
    if problem.solution is None:
        raise ModelError("There is no progress to draw before problem.solve().")
    history, method = problem.solution.history, problem.solution.method
    panels = [name for name in ("value", "gap") if len(history.get(name, ()))]
    if not panels:
        known = ", ".join(history) or "nothing"
        raise ModelError(f"This solve by {method} recorded neither value nor gap, but {known}.")
    figure, *axes = _new_figure(len(panels))
    for name, panel in zip(panels, axes, strict=True):
        iterations = np.arange(1, len(history[name]) + 1)
        if name == "gap":
            # a gap below rounding is zero, which a logarithmic axis does not have
            figures = np.maximum(history[name], np.finfo(float).eps)
            panel.semilogy(iterations, figures, "s-", color=VERMILION, markersize=4)
            panel.set_ylabel("lower gap $g(x,y) - v(x)$")
        else:
            # the history is kept for minimisation
            figures = problem.sign * history[name]
            panel.plot(iterations, figures, "o-", color=BLACK, markersize=4)
            panel.set_ylabel(r"upper objective, or its $F_\gamma$")
        panel.grid(alpha=0.3)
    axes[0].set_title(f"Progress of {method}")
    axes[-1].set_xlabel("iteration")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write the figure to a file; the ending of the name chooses the format."""
    figure.savefig(path, dpi=150)


def _scalar_upper_variable(problem: BilevelProblem) -> Any:
    variables = problem.levels.upper
    if len(variables) != 1 or variables[0].size != 1:
        names = ", ".join(f"{v.name()} of size {v.size}" for v in variables)
        raise ModelError(
            f"A curve over x needs one scalar upper variable; this problem has {names}. "
            "plot_convergence draws the progress of a solve of any size."
        )
    return variables[0]


def _new_figure(rows: int = 1) -> tuple[Any, ...]:
    """A figure that no window and no global state knows of, and its panels from top to bottom."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    return figure, *panels


def _finish(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, handlelength=4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
