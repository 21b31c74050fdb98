"""The pictures of the page on mathematics, drawn by the library when the pages are built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar
from sphinx.application import Sphinx

import blomodel as bm

# Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
BLACK, ORANGE, SKY, GREEN, BLUE, RED = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"
LEFT, RIGHT = 0.0, 2.0


def running_example() -> bm.BilevelProblem:
    """The page's example: x + (y - 2)^2 above, (y - 2x)^2 subject to y <= 1 + x/2 below."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= 1 + x / 2], variables=[y])
    return bm.BilevelProblem(cp.Minimize(x + (y - 2) ** 2), [LEFT <= x, x <= RIGHT], lower)


def answer(problem: bm.BilevelProblem, x: float) -> float:
    """The lower level's answer."""
    return float(problem.model.lower_program.solve(np.array([x]), np.zeros(0)).y[0])


def upper(x: Any, y: Any) -> Any:
    """The upper objective of the example."""
    return x + (y - 2) ** 2


def draw_lower(figure: Figure) -> None:
    """What the follower sees at three decisions, and its answer to all of them."""
    problem = running_example()
    at_fixed, path = figure.subplots(1, 2)
    y = np.linspace(-0.5, 2.4, 200)
    for x, colour in ((0.25, BLUE), (0.5, GREEN), (1.0, RED)):
        allowed = y <= 1 + x / 2
        at_fixed.plot(y, np.where(allowed, (y - 2 * x) ** 2, np.nan), color=colour, label=f"$x = {x:g}$")
        at_fixed.plot(y, np.where(allowed, np.nan, (y - 2 * x) ** 2), color=colour, ls=":", lw=1)
        best = answer(problem, x)
        at_fixed.plot(best, (best - 2 * x) ** 2, "o", color=colour)
    at_fixed.set(xlabel="$y$", ylabel="$g(x, y)$", title="The follower's view", ylim=(-0.15, 2.5))
    at_fixed.legend(frameon=False)
    grid = np.linspace(LEFT, RIGHT, 101)
    path.fill_between(grid, 1 + grid / 2, 2.4, color=ORANGE, alpha=0.25, lw=0)
    path.text(0.15, 2.05, "not allowed: $y > 1 + x/2$", fontsize=9)
    path.plot(grid, [answer(problem, x) for x in grid], color=BLACK)
    for x, colour in ((0.25, BLUE), (0.5, GREEN), (1.0, RED)):
        path.plot(x, answer(problem, x), "o", color=colour)
    path.set(
        xlabel="$x$",
        ylabel="$y^*(x)$",
        title="Its answer to each $x$",
        ylim=(0, 2.4),
        xlim=(LEFT, RIGHT),
    )


def draw_reduced(figure: Figure) -> None:
    """Where the leader may go in the plane, and the function of x that this leaves."""
    problem = running_example()
    plane, reduced = figure.subplots(1, 2)
    grid = np.linspace(LEFT, RIGHT, 201)
    path = np.array([answer(problem, x) for x in grid])
    across, along = np.meshgrid(grid, np.linspace(0, 2.4, 100))
    contours = plane.contour(across, along, upper(across, along), levels=12, colors=SKY, linewidths=0.8)
    plane.clabel(contours, fontsize=7)
    plane.plot(grid, path, color=BLACK, label="lower answers")
    plane.plot(2 / 3, 4 / 3, "*", color=RED, ms=14, label="bilevel solution")
    plane.plot(0, 1, "s", color=ORANGE, label="best without a follower", clip_on=False)
    plane.set(xlabel="$x$", ylabel="$y$", title="Contours of $f$", xlim=(LEFT, RIGHT), ylim=(0, 2.4))
    plane.legend(frameon=True, framealpha=0.9, fontsize=8, loc="lower right")
    reduced.plot(grid, upper(grid, path), color=BLACK)
    reduced.plot(2 / 3, 10 / 9, "*", color=RED, ms=14)
    reduced.annotate("kink", (2 / 3, 10 / 9), (0.95, 2.2), arrowprops={"arrowstyle": "->"})
    reduced.set(xlabel="$x$", ylabel=r"$\varphi(x) = f(x, y^*(x))$", ylim=(0.8, 4.2))
    reduced.set_title("What the leader minimises")


def draw_penalty(figure: Figure) -> None:
    """F_gamma for several weights, and how far its minimiser is from the solution."""
    problem = running_example()
    penalty = problem.reformulate("value-function-reduced").functions.penalty
    curves, errors = figure.subplots(1, 2)
    grid = np.linspace(LEFT, 1.6, 81)
    for gamma, colour in ((0.3, SKY), (1.0, GREEN), (3.0, ORANGE), (30.0, RED)):
        values = np.array([penalty(x, gamma) for x in grid])
        curves.plot(grid, values, color=colour, label=rf"$\gamma = {gamma:g}$")
        curves.plot(grid[values.argmin()], values.min(), "o", color=colour)
    curves.plot(
        grid, [upper(x, answer(problem, x)) for x in grid], color=BLACK, ls="--", label=r"$\varphi$"
    )
    curves.set(
        xlabel="$x$", ylabel=r"$F_\gamma(x)$", title="The penalty comes up from below", ylim=(0.4, 3)
    )
    curves.legend(frameon=False, fontsize=8)
    weights = np.logspace(-1, 3, 9)
    found = [
        minimize_scalar(penalty, bounds=(0, 1.2), args=(gamma,), method="bounded") for gamma in weights
    ]
    missing = np.array([10 / 9 - search.fun for search in found])
    errors.loglog(weights, missing, "o-", color=BLUE, ms=4)
    errors.loglog(weights, missing[-1] * weights[-1] / weights, color=BLACK, ls=":", label="slope $-1$")
    errors.set(xlabel=r"$\gamma$", ylabel="value still missing")
    errors.set_title(r"The error falls like $1/\gamma$")
    errors.legend(frameon=False)


def draw_indifferent(figure: Figure) -> None:
    """A follower that is indifferent at one x: answers, best case and worst case."""
    answers, values = figure.subplots(1, 2)
    left, right = np.linspace(-1, 0, 2), np.linspace(0, 1, 2)
    for panel, low, high, name in (
        (answers, (1, 1), (0, 0), "lower answers"),
        (values, left + 2, right, "$f$ at the lower answer"),
    ):
        panel.plot(left, low, color=BLACK)
        panel.plot(right, high, color=BLACK)
        panel.plot([0, 0], [0, max(low)], color=ORANGE, lw=3, label="all answers at $x = 0$")
        panel.set(xlabel="$x$", ylabel=name, xlim=(-1, 1), ylim=(-0.15, 1.2 * max(low)))
    values.plot(0, 0, "o", color=GREEN, label="optimistic")
    values.plot(0, 2, "s", color=RED, label="pessimistic")
    answers.set_title(r"$g = x y$ on $0 \leq y \leq 1$")
    values.set_title("$f = x + 2y$")
    values.legend(frameon=False, fontsize=8)


def draw_growth(figure: Figure) -> None:
    """Time against size for four families, beside the plain alternative."""
    rows = json.loads((Path(__file__).resolve().parents[1] / "growth.json").read_text(encoding="utf-8"))
    families = list(dict.fromkeys(row["family"] for row in rows))
    for panel, family in zip(figure.subplots(1, len(families)), families, strict=True):
        own = [row for row in rows if row["family"] == family]
        sizes = [np.prod(row["size"]) for row in own]
        panel.loglog(sizes, [row["seconds"] for row in own], "o-", color=BLUE, label="blomodel")
        panel.loglog(sizes, [row["plain_seconds"] for row in own], "s--", color=ORANGE, label="by hand")
        panel.set(xlabel=UNITS[family], title=family)
    figure.axes[0].set_ylabel("seconds")
    figure.axes[0].legend(frameon=False, fontsize=8)


UNITS = {
    "market": "buses x hours",
    "ridge": "features",
    "pricing": "customers",
    "controller": "steps of the horizon",
}
PICTURES: dict[str, Callable[[Figure], None]] = {
    "lower": draw_lower,
    "reduced": draw_reduced,
    "penalty": draw_penalty,
    "indifferent": draw_indifferent,
    "growth": draw_growth,
}


def draw_all(app: Sphinx) -> None:
    """Draw every picture beside the pages that show it."""
    folder = Path(app.srcdir) / "generated" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        draw(figure)
        for panel in figure.axes:
            panel.grid(alpha=0.25)
            panel.spines[["top", "right"]].set_visible(False)
        figure.savefig(folder / f"{name}.svg", facecolor="white", metadata={"Date": None})
    problem = running_example()
    problem.solve(method="reduced-penalty")
    assert problem.solution is not None
    problem.plot(gammas=[1, 10], path=folder / "problem_plot.svg")
    problem.solution.plot(path=folder / "solution_plot.svg")


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw before the pages are read."""
    app.connect("builder-inited", draw_all)
    return {"parallel_read_safe": True}
