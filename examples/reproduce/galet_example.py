"""Figures 1, 3 and 4 of the GALET paper: Example 1, over starts, shortcuts and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from blomodel.problems.smooth_papers import flat_lower

from .drawing import RED, curve, legend, panels
from .paths import path
from .table import Table

# Appendix G: alpha = 0.3, beta = 1, N = 1, rho = 0.1, T = 1, K = 30. The paper does not print its
# starts.
DEFAULT: dict[str, Any] = {
    "step_x": 0.3, "step_y": 1.0, "inner_steps": 1, "step_shadow": 0.1, "shadow_steps": 1,
}  # fmt: skip
STARTS = {"(3; 1, 1)": (3.0, (1.0, 1.0)), "(-2; 2, -3)": (-2.0, (2.0, -3.0))}


def run(
    start: tuple[float, tuple[float, float]], n_steps: int, *, keeps_shadow: bool = False, **changed: Any
) -> tuple[np.ndarray, np.ndarray]:
    """x and y of every iterate; without ``keeps_shadow`` as printed, with w = 0 at the start of every
    inner loop.
    """
    x, y = path(
        flat_lower(), "galet", {"x": start[0], "y": start[1]}, max_steps=n_steps,
        restart=not keeps_shadow, **{**DEFAULT, **changed},
    )  # fmt: skip
    return x[:, 0], y


def gap(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(46): squared distance to x = 0.5, and of the lower level from its minima there."""
    return (x - 0.5) ** 2 + (0.5 + y[:, 0] - np.sin(y[:, 1])) ** 2


def scores(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The KKT score (47) of the value-function form, and R_x + R_w + R_y of (8) at the best w."""
    rest, cosine = x + y[:, 0] - np.sin(y[:, 1]), np.cos(y[:, 1])
    value_function = (2 * x) ** 2 + 1 + cosine**2 + rest**2 / 2
    galet = np.empty(len(x))
    for k, (at, (_, y_2)) in enumerate(zip(x, y, strict=True)):
        a = np.array([1.0, -cosine[k]])
        hessian = np.outer(a, a) + rest[k] * np.diag([0.0, np.sin(y_2)])
        w = -np.linalg.pinv(hessian, rcond=1e-10) @ a
        slope = 2 * at + a @ w
        left = hessian @ (a + hessian @ w)
        galet[k] = slope**2 + left @ left + rest[k] ** 2 / 2
    return value_function, galet


def figure_1(data: Path | None = None, *, quick: bool = False) -> Table:
    """Two starts: the gap (46) and R of (8) vanish, the KKT score of the value-function form does
    not.
    """
    n_steps = 40 if quick else 100
    table = Table(
        f"Figure 1 of the GALET paper: Example 1, T = 50, {n_steps} iterations",
        ("start (x; y)", "gap (46)", "R of (8)", "KKT score of (2)"),
    )
    table.picture, axes = panels(2, width=4.2)
    for place, (name, start) in enumerate(STARTS.items()):
        x, y = run(start, n_steps, shadow_steps=50)
        value_function, galet = scores(x, y)
        count, style = np.arange(len(x)), "-" if place == 0 else "--"
        curve(axes[0], 0, count, gap(x, y), f"start {name}", linestyle=style)
        curve(axes[1], 1, count, value_function, f"(2), start {name}", linestyle=style)
        curve(axes[1], 2, count, np.maximum(galet, 1e-32), f"(3), start {name}", linestyle=style)
        table.add(name, f"{gap(x, y)[-1]:.1e}", f"{galet[-1]:.1e}", f"{value_function[-1]:.3f}")
        table.figures[name] = gap(x, y)[-1], galet[-1], value_function[-1]
    axes[0].set(title="distance (46) to the global solutions", xlabel="iteration $k$", yscale="log")
    axes[1].set(title="scores of the reformulations (2) and (3)", xlabel="iteration $k$", yscale="log")
    for axis in axes:
        legend(axis)
    return table


def figure_3(data: Path | None = None, *, quick: bool = False) -> Table:
    """The update (12b) of w against the shortcut (15), which strongly convex lower levels allow."""
    n_steps = 20 if quick else 60
    table = Table(
        "Figure 3 of the GALET paper: (12b) against (15)",
        ("update of w", "T", "rho", "gap (46) at the end"),
    )
    table.picture, (axis,) = panels(1, width=4.6)
    start = STARTS["(-2; 2, -3)"]
    for place, (name, changed) in enumerate(
        {
            "(12b), ρ = 0.1": {"shadow_steps": 50, "step_shadow": 0.1},
            "(12b), ρ = 0.5": {"shadow_steps": 50, "step_shadow": 0.5},
            "(15), ρ = 0.1": {"shadow_steps": 50, "step_shadow": 0.1, "shortcut": True},
            "(15), ρ = 0.5": {"shadow_steps": 50, "step_shadow": 0.5, "shortcut": True},
            "(15), ρ = 0.1, T = 5": {"shadow_steps": 5, "step_shadow": 0.1, "shortcut": True},
        }.items()
    ):
        x, y = run(start, n_steps, **changed)
        with np.errstate(all="ignore"):
            distances = gap(x, y)
        curve(axis, place, np.arange(len(x)), np.minimum(distances, 1e6), name)
        last = distances[np.isfinite(distances)][-1]
        table.add(name, changed["shadow_steps"], changed["step_shadow"], f"{last:.1e}")
        table.figures[name] = float(last)
    axis.set(title="distance (46) to the global solutions", xlabel="iteration $k$", yscale="log")
    legend(axis)
    return table


def figure_4(data: Path | None = None, *, quick: bool = False) -> Table:
    """Trajectories over the paper's grid, with w = 0 at the start of every inner loop as printed, and
    with w kept.
    """
    n_steps = 30 if quick else 120
    table = Table(
        f"Figure 4 of the GALET paper: gap (46) after 30 and {n_steps} iterations",
        ("settings", "printed, 30", f"printed, {n_steps}", "w kept, 30", f"w kept, {n_steps}"),
    )
    table.picture, axes = panels(3, 2, height=2.9)
    start = STARTS["(3; 1, 1)"]
    groups: dict[str, list[dict[str, Any]]] = {
        r"step $\alpha$ above": [{"step_x": alpha} for alpha in (0.1, 0.3, 0.5, 0.7, 0.9)],
        r"$T$ and $\rho$ of $w$": [
            {"shadow_steps": T, "step_shadow": rho} for T in (1, 5, 50) for rho in (0.1, 0.5)
        ],
        r"$N$ and $\beta$ below": [
            {"inner_steps": N, "step_y": beta} for N in (1, 5) for beta in (0.1, 0.5, 1.0, 3.0)
        ],
    }
    if quick:
        groups = {name: group[1:2] for name, group in groups.items()}
    symbols = {
        "step_x": "α", "shadow_steps": "T", "step_shadow": "ρ", "inner_steps": "N", "step_y": "β",
    }  # fmt: skip
    for column, (name, group) in enumerate(groups.items()):
        for place, changed in enumerate(group):
            label, cells = ", ".join(f"{symbols[key]} = {value:g}" for key, value in changed.items()), []
            for row, keeps_shadow in enumerate((False, True)):
                x, y = run(start, n_steps, keeps_shadow=keeps_shadow, **changed)
                with np.errstate(all="ignore"):
                    distances = gap(x, y)
                axis = axes[column + 3 * row]
                near = (np.abs(x[:31]) < 5) & (np.abs(y[:31, 0]) < 5)
                curve(
                    axis,
                    place,
                    x[:31][near],
                    y[:31, 0][near],
                    label,
                    marker=".",
                    markersize=3,
                    linewidth=0.9,
                )
                ends = [distances[min(k, len(x) - 1)] for k in (30, n_steps)]
                cells += [f"{end:.1e}" if np.isfinite(end) else "diverges" for end in ends]
                table.figures[label, keeps_shadow] = ends
            table.add(label, *cells)
        for row, word in enumerate(("as printed", "$w$ kept")):
            axis = axes[column + 3 * row]
            axis.plot(start[0], start[1][0], "s", color="#F0E442", markeredgecolor="black", markersize=6)
            axis.axvline(0.5, color=RED, linewidth=0.8, linestyle=":")
            axis.set(title=f"{name}, {word}", xlabel="$x^k$", ylabel="$y_1^k$")
            legend(axis)
    table.remarks.append(
        "What is not in a row has the paper's default: α = 0.3, β = 1, N = 1, ρ = 0.1, T = 1. The "
        "dotted line is x = 0.5, where all solutions are."
    )
    return table
