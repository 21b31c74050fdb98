"""Figures 1, 2, 5 and 6 of the paper on global optimality, and Figure 6 of the GALET paper:
landscapes.
"""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
from scipy.optimize import brentq

import blomodel as bm

from .drawing import BLACK, ORANGE, RED, curve, legend, panels, surface
from .paths import path
from .table import Table

HEADINGS = ("what", "value")


def figure_1(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 1: f and g are PL, phi is not, and the penalty has fewer places to stop."""
    gamma = 10.0
    line = np.linspace(-8, 8, 81 if quick else 241)
    u, v = np.meshgrid(line, line)
    f, g = 0.5 * (u - 2 * np.sin(v)) ** 2, 0.5 * (u - v) ** 2
    phi = 0.5 * (line - 2 * np.sin(line)) ** 2
    table = Table("Figure 1 of the paper on global optimality: Example 1", HEADINGS)
    table.picture, axes = panels(4)
    surface(axes[0], u, v, g, "$g(u, v)$")
    surface(axes[1], u, v, f, "$f(u, v)$")
    axes[1].plot(line, line, color=RED, linewidth=1.2)
    curve(axes[2], 0, line, phi)
    flat = np.pi / 3 * np.array([-1.0, 1.0, 5.0, -5.0])
    axes[2].plot(flat, 0.5 * (flat - 2 * np.sin(flat)) ** 2, "o", color=RED, markersize=4)
    axes[2].set(title=r"$F(u) = f(u, u)$; dots: slope 0", xlabel="$u$")
    surface(axes[3], u, v, f + gamma * g, rf"$L_\gamma(u, v)$, $\gamma = {gamma:g}$")
    slope = (flat - 2 * np.sin(flat)) * (1 - 2 * np.cos(flat))
    table.add("largest slope of F at u = ±π/3, ±5π/3", f"{np.abs(slope).max():.1e}")
    table.add("F there", ", ".join(f"{0.5 * (at - 2 * np.sin(at)) ** 2:.3f}" for at in flat))
    # Where the penalty's own slope vanishes, off its minimum: Newton's method from a grid.
    rest = stationary_points(gamma)
    table.add(f"stationary points of L, gamma = {gamma:g}, with L > 0.01", len(rest))
    for point in rest:
        table.add(f"  u = {point[0]:.3f}, v = {point[1]:.3f}", f"L = {penalty_1(point, gamma):.3f}")
    table.figures.update(slope=float(np.abs(slope).max()), rest=rest)
    return table


def penalty_1(point: np.ndarray, gamma: float) -> float:
    """The penalty objective of Example 1; the lower value is 0 for every u."""
    u, v = point
    return float(0.5 * (u - 2 * np.sin(v)) ** 2 + gamma / 2 * (u - v) ** 2)


def stationary_points(gamma: float) -> list[np.ndarray]:
    """Points of slope 0 with L > 0.01: u follows from v, and one equation in v is left."""

    def along(v: float) -> tuple[float, float]:
        u = (2 * np.sin(v) + gamma * v) / (1 + gamma)
        return u, -2 * np.cos(v) * (u - 2 * np.sin(v)) - gamma * (u - v)

    grid = np.linspace(-8, 8, 4001)
    slopes = np.array([along(v)[1] for v in grid])
    roots = [
        brentq(lambda v: along(v)[1], a, b)
        for a, b, s, t in zip(grid[:-1], grid[1:], slopes[:-1], slopes[1:], strict=True)
        if s * t < 0
    ]
    points = [np.array([along(v)[0], v]) for v in roots]
    return [point for point in points if penalty_1(point, gamma) > 0.01]


def figure_2(data: Path | None = None, *, quick: bool = False) -> Table:
    """A linear network with one weight in each layer: F jumps at W1 = 0, the penalty does not."""
    table = Table(
        "Figure 2 of the paper on global optimality: a network of two weights",
        ("gamma", "iterations", "W1 W2 at the end", "least product of the penalty", "f there"),
    )
    table.picture, axes = panels(4, width=3.4)
    line = np.linspace(-3.2, 3.2, 81 if quick else 201)
    first, second = np.meshgrid(line, line)
    # Two samples: the training label asks for W1 W2 = 1, the validation label for 1.5.
    F = np.where(np.abs(line) < 1e-12, 0.5 * 1.5**2, 0.5 * 0.5**2)
    curve(axes[0], 0, line, F)
    axes[0].plot(0, 0.5 * 1.5**2, "o", color=RED, markersize=4)
    axes[0].set(title="$F(W_1)$: jumps at 0", xlabel="$W_1$", ylim=(0, 1.3))
    W1, W2 = cp.Variable(name="W1"), cp.Variable(name="W2")
    problem = bm.BilevelProblem(
        cp.Minimize(0.5 * (1.5 - W1 * W2) ** 2),
        [],
        bm.Lower(cp.Minimize(0.5 * (1 - W1 * W2) ** 2), variables=[W2]),
    )
    for axis, gamma in zip(axes[1:], (0.1, 1.0, 50.0), strict=True):
        values = 0.5 * (1.5 - first * second) ** 2 + gamma / 2 * (1 - first * second) ** 2
        surface(
            axis, first, second, np.minimum(values, np.quantile(values, 0.7)), "", x="$W_1$", y="$W_2$"
        )
        axis.set_title(rf"$L_\gamma$, $\gamma = {gamma:g}$")
        n_steps = 30 if quick else 1500
        way_1, way_2 = path(
            problem, "pbgd", {"W1": 0.2, "W2": -1.5}, penalty=gamma, step_x=0.05 / (1 + gamma),
            step_y=0.4, inner_steps=300, restart=True, stop_at=0.0, max_steps=n_steps,
        )  # fmt: skip
        axis.plot(way_1[:, 0], way_2[:, 0], color=BLACK, linewidth=1.4)
        axis.plot(way_1[0, 0], way_2[0, 0], "s", color=ORANGE, markersize=5)
        axis.plot(way_1[-1, 0], way_2[-1, 0], "*", color=RED, markersize=9)
        axis.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
        product, best = float(way_1[-1, 0] * way_2[-1, 0]), (1.5 + gamma) / (1 + gamma)
        table.add(
            f"{gamma:g}",
            len(way_1) - 1,
            f"{product:.5f}",
            f"{best:.5f}",
            f"{0.5 * (1.5 - product) ** 2:.5f}",
        )
        table.figures[gamma] = product, best
    return table


def figure_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 4: both levels jointly convex, and F(u) = v(u) is not."""
    line = np.linspace(-6, 4, 61 if quick else 161)
    u, v = np.meshgrid(line, line)
    answers = np.array([brentq(lambda w, a=a: 4 * (a + w) ** 3 + np.exp(w), -60, 60) for a in line])
    table = Table("Figure 5 of the paper on global optimality: Example 4", HEADINGS)
    table.picture, axes = panels(3)
    surface(axes[0], u, v, np.minimum(np.exp(v) + (u + v) ** 4, 400), "$g(u, v) = e^v + (u + v)^4$")
    surface(axes[1], u, v, v, "$f(u, v) = v$")
    curve(axes[2], 0, line, answers)
    ends = np.interp([line[0], line[-1]], line, answers)
    axes[2].plot(line[[0, -1]], ends, "--", color=RED, linewidth=1, label="chord")
    axes[2].set(title="$F(u) = S(u)$", xlabel="$u$")
    legend(axes[2])
    middle = float(np.interp(line.mean(), line, answers))
    table.add("F in the middle of [-6, 4]", f"{middle:.4f}")
    table.add("mean of F at both ends", f"{ends.mean():.4f}")
    curvature = np.diff(answers, 2) / np.diff(line).mean() ** 2
    table.add("second differences of F", f"{curvature.min():.3f} to {curvature.max():.3f}")
    table.remarks.append("A convex F has no negative second difference.")
    table.figures.update(least_curvature=float(curvature.min()))
    return table


def figure_6(data: Path | None = None, *, quick: bool = False) -> Table:
    """Examples 2 and 3: sums of PL functions that are not PL."""
    gamma = 1.0
    line = np.linspace(-8, 8, 81 if quick else 201)
    u, v = np.meshgrid(line, line)
    second = 0.5 * (u - np.sin(v)) ** 2 + gamma / 2 * (u - v) ** 2
    third = 0.5 * (u / 2 + 2 - np.sin(v)) ** 2 + gamma / 2 * (u + 2 + np.sin(v)) ** 2
    table = Table("Figure 6 of the paper on global optimality: Examples 2 and 3", HEADINGS)
    table.picture, axes = panels(2, width=4.4)
    surface(axes[0], u, v, second, r"Example 2: $L_\gamma(u, v)$, $\gamma = 1$")
    at = np.array([gamma * 2 * np.pi / (1 + gamma), 2 * np.pi])
    axes[0].plot(*at, "x", color=RED, markersize=8)
    surface(axes[1], u, v, third, r"Example 3: $L_\gamma(u, (2, v_2))$, $\gamma = 1$", y="$v_2$")
    saddle = np.array([-(4 + 8 * gamma) / (4 * gamma + 1), 0.0])
    axes[1].plot(*saddle, "x", color=RED, markersize=8)

    def slope_2(amplitude: float) -> float:
        a, b = at
        rest = a - amplitude * np.sin(b)
        return float(np.hypot(rest + gamma * (a - b), -amplitude * rest * np.cos(b) - gamma * (a - b)))

    table.add(
        "Example 2, slope of L at the paper's (2γπ/(1+γ), 2π), sin(v) as printed", f"{slope_2(1.0):.3g}"
    )
    table.add("the same with 2 sin(v), as in the paper's proof", f"{slope_2(2.0):.3g}")
    table.add("Example 3, slope in u at (-(4+8γ)/(4γ+1), 2, 0)", f"{slope_3(saddle, gamma):.1e}")
    value = 0.5 * (saddle[0] / 2 + 2) ** 2 + gamma / 2 * (saddle[0] + 2) ** 2
    table.add(
        "L there (paper: (8γ²+2)/(4γ+1)²)",
        f"{value:.4f} ({(8 * gamma**2 + 2) / (4 * gamma + 1) ** 2:.4f})",
    )
    table.figures.update(slope_3=slope_3(saddle, gamma), slope_2=slope_2(1.0), value=value)
    return table


def slope_3(point: np.ndarray, gamma: float) -> float:
    """Slope in u of the penalty of Example 3 with v_1 = 2."""
    u, v = point
    return float(0.5 * (u / 2 + 2 - np.sin(v)) + gamma * (u + 2 + np.sin(v)))


def galet_figure_6(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 1 of the GALET paper: g(1, y) has a valley of minima and no other stationary point."""
    first, second = np.linspace(-4, 2, 121), np.linspace(-6, 6, 161)
    y1, y2 = np.meshgrid(first, second)
    g = 0.5 * (1 + y1 - np.sin(y2)) ** 2
    table = Table("Figure 6 of the GALET paper: the lower level of Example 1 at x = 1", HEADINGS)
    table.picture, (axis,) = panels(1, width=4.6, height=3.4)
    surface(axis, y1, y2, g, "$g(1, y)$; line: its minima $S(1)$", x="$y_1$", y="$y_2$")
    axis.plot(np.sin(second) - 1, second, color=RED, linewidth=1.8)
    axis.set_xlim(-4, 2)
    inside = g > 1e-12
    slope = (1 + y1 - np.sin(y2)) ** 2 * (1 + np.cos(y2) ** 2)
    constant = (slope[inside] / (2 * g[inside])).min()
    table.add("least ‖∇_y g‖² / (2 g) over the grid (PL constant)", f"{constant:.4f}")
    table.figures.update(polyak=float(constant))
    return table
