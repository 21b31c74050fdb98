"""Figures 5 to 8 and 11 of the ALT-PBGD paper: when PBGD-Free is right.

How the toy is read, and what the reading uncovered, is told in ``examples/peft_toy.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar

from blomodel.problems.penalty_paper import (
    FITTED,
    PREFERRED,
    REFERENCE,
    REJECTED,
    example_1,
    fine_tuning_toy,
    margin,
)

from .drawing import BLACK, BLUE, COLOURS, GREEN, ORANGE, RED, curve, legend, panels
from .paths import path
from .table import Table

GAMMA, STEP, INNER = 15.0, 0.05, 10


def preference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The DPO loss of the toy."""

    def log_probability(features: list[float], *at: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0, -margin(features, *at))

    here = log_probability(PREFERRED, x, y) - log_probability(REJECTED, x, y)
    known = log_probability(PREFERRED, *REFERENCE) - log_probability(REJECTED, *REFERENCE)
    return np.logaddexp(0, known - here) + 0.01 * (x**2 + y**2)


def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The SFT loss of the toy."""
    return np.logaddexp(0, -margin(FITTED, x, y)) + 0.01 * (x**2 + y**2)


def answer(x: float, gamma: float = np.inf) -> float:
    """Minimiser in y of g, or of f / gamma + g."""
    weight = 0.0 if np.isinf(gamma) else 1 / gamma
    found = minimize_scalar(
        lambda y: fit(x, y) + weight * preference(x, y),
        bounds=(-30, 30),
        method="bounded",
        options={"xatol": 1e-11},
    )
    return float(found.x)


def way(method: str, n_steps: int, gamma: float = GAMMA) -> tuple[np.ndarray, np.ndarray]:
    """x and y along a run from the reference model, as 6.2.2 sets it."""
    x, y = path(
        fine_tuning_toy(),
        method,
        {"x": REFERENCE[0], "y": REFERENCE[1]},
        penalty=gamma,
        inner_steps=INNER,
        step_x=STEP,
        max_steps=n_steps,
        tolerance=1e-10,
    )
    return x[:, 0], y[:, 0]


def figure_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 1, where PBGD-Free fails, and the toy, where it does not."""
    n_steps = 300 if quick else 5000
    table = Table(
        "Figure 5 of the ALT-PBGD paper: Example 1 and the PEFT toy",
        ("problem", "method", "x", "best x", "DPO loss or f", "SFT loss or g", "iterations"),
    )
    table.picture, axes = panels(3)
    line = np.linspace(-8, 4, 120)
    curve(axes[0], 3, line, line**2 + 10 * (line - 1), r"$\varphi(x) = x^2 + 10(x - 1)$")
    curve(axes[0], 7, line, line**2 - 10, "$f(x, y)$ at a fixed $y = -1$")
    for method, symbol, colour in (("pbgd-free", "X", RED), ("f2sa", "o", BLUE)):
        x, y = path(
            example_1(),
            method,
            {"x": 3.0, "y": 2.0},
            penalty=GAMMA,
            step_x=0.05,
            inner_steps=INNER,
            max_steps=200 if quick else 1000,
        )
        at = x[-1, 0]
        axes[0].plot(at, at**2 + 10 * (at - 1), symbol, color=colour, markersize=8, label=method)
        table.add(
            "Example 1",
            method,
            f"{at:.4f}",
            "-5",
            f"{at**2 + 10 * y[-1, 0]:.4f}",
            f"{(y[-1, 0] - at + 1) ** 2:.1e}",
            len(x) - 1,
        )
        table.figures["Example 1", method] = float(at)
    axes[0].set(title="Example 1", xlabel="$x$")
    best = minimize_scalar(lambda x: preference(x, answer(x)), bounds=(-20, 5), method="bounded").x
    u, v = np.meshgrid(np.linspace(-9, 1, 80), np.linspace(-11, 1, 80))
    for values, colour in (
        (preference(u, v), ORANGE),
        (fit(u, v), BLUE),
        (preference(u, v) + GAMMA * fit(u, v), GREEN),
    ):
        axes[1].contour(u, v, values, levels=9, colors=colour, linewidths=0.6, alpha=0.7)
    for place, method in enumerate(("alt-pbgd", "pbgd-free")):
        x, y = way(method, n_steps)
        axes[1].plot(
            x,
            y,
            color=BLACK if place else RED,
            linewidth=1.6,
            linestyle="--" if place else "-",
            label=method,
        )
        losses = preference(x, np.array([answer(at) for at in x])) if len(x) < 400 else preference(x, y)
        curve(axes[2], place, np.arange(len(x)), np.maximum(losses - losses.min(), 1e-12), method)
        table.add(
            "PEFT toy",
            method,
            f"{x[-1]:.4f}",
            f"{best:.4f}",
            f"{preference(x[-1], y[-1]):.6f}",
            f"{fit(x[-1], y[-1]):.4f}",
            len(x) - 1,
        )
        table.figures["toy", method] = float(x[-1]), float(best)
    axes[1].plot(*REFERENCE, "s", color=ORANGE, markersize=6)
    axes[1].set(title="toy; contours: DPO, SFT, penalty", xlabel="$x$", ylabel="$y$")
    axes[2].set(title="toy: DPO loss above its last", xlabel="iteration", xscale="log", yscale="log")
    for axis in axes:
        legend(axis)
    return table


def ripple(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper objective of Example 2."""
    rest = y - x
    return (np.sin(rest) + 2) * rest**2 + 10 * np.exp(-(rest**2) / (2 * 0.005**2)) * np.sin(100 * rest)


def least_delta(modulus: float, alpha: float) -> float:
    """The smallest delta for which Example 2 is (delta, alpha)-flat with this modulus: only y - x
    counts.
    """
    rest = np.concatenate([np.linspace(-0.1, 0.1, 400_001), np.linspace(-20, 20, 400_001)])
    return float(np.max(np.abs(ripple(0.0, rest)) - modulus * np.abs(rest) ** alpha))


def figure_6(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 2: ripples around y = x, and how flat it really is."""
    table = Table(
        "Figure 6 of the ALT-PBGD paper: Example 2", ("where", "c", "alpha", "smallest delta", "paper")
    )
    table.picture, axes = panels(2, width=4.6)
    for place, x in enumerate((-5.0, 0.0, 5.0)):
        wide = np.linspace(x - 4, x + 4, 4001)
        near = np.linspace(x - 0.03, x + 0.03, 2001)
        curve(axes[0], place, wide, ripple(x, wide), f"$x = {x:g}$")
        curve(axes[1], place, near - x, ripple(x, near), f"$x = {x:g}$")
        axes[0].plot(x, 0, "o", color=COLOURS[place], markersize=4)
    axes[1].plot(0, 0, "o", color=RED, markersize=4)
    axes[0].set(title=r"$f(x, \cdot)$", xlabel="$y$")
    axes[1].set(title=r"$f(x, \cdot)$ near $y_g^*(x) = x$", xlabel="$y - x$")
    for axis in axes:
        legend(axis)
    rest = np.linspace(-20, 20, 400_001)
    for modulus, alpha, paper in ((5.0, 1.1, "(3e-3, 1.1)-flat; elsewhere (1e-3, 1.1)"), (5.0, 1.5, "")):
        far = float(
            np.max((np.abs(ripple(0.0, rest)) - modulus * np.abs(rest) ** alpha)[np.abs(rest) <= 1])
        )
        table.add("y within 20 of x", modulus, alpha, f"{least_delta(modulus, alpha):.3g}", paper)
        table.add("y within 1 of x", modulus, alpha, f"{max(far, 0.0):.3g}", "")
        table.figures[alpha] = least_delta(modulus, alpha), far
    peak = np.linspace(-0.02, 0.02, 200_001)
    table.figures["peak"] = float(np.abs(ripple(0.0, peak)).max())
    table.remarks.append(
        f"The ripple itself is {table.figures['peak']:.3f} high, less than 0.01 away from y = x."
    )
    return table


def figure_7(data: Path | None = None, *, quick: bool = False) -> Table:
    """The toy: phi - F_gamma and |y_g - y_gamma| over gamma against the bounds, and delta(x) along
    PBGD-Free's way.
    """
    table = Table(
        "Figures 7 and 8 of the ALT-PBGD paper: bounds and flatness of the toy",
        (
            "gamma",
            "phi - F_gamma",
            "bound by flatness",
            "bound by the slope",
            "‖y_g - y_γ‖",
            "bound by flatness",
            "bound by the slope",
        ),
    )
    table.picture, axes = panels(3)
    x = float(way("pbgd-free", 300)[0][-1])
    y_g, step = answer(x), 1e-4
    modulus, alpha = 0.5, 1.5
    curvature = float((fit(x, y_g + step) - 2 * fit(x, y_g) + fit(x, y_g - step)) / step**2)
    slope = abs(float((preference(x, y_g + step) - preference(x, y_g - step)) / (2 * step)))
    gammas = np.geomspace(2, 200, 5 if quick else 12)
    found = []
    for gamma in gammas:
        y = answer(x, gamma)
        gap = preference(x, y_g) - (preference(x, y) + gamma * (fit(x, y) - fit(x, y_g)))
        delta = max(0.0, abs(preference(x, y_g) - preference(x, y)) - modulus * abs(y - y_g) ** alpha)
        # (42): the largest of c z^alpha - gamma mu z^2 / 2 over z, plus delta; and slope^2 / (2
        # gamma mu).
        z = (alpha * modulus / (gamma * curvature)) ** (1 / (2 - alpha))
        flat = modulus * z**alpha - gamma * curvature / 2 * z**2 + delta
        found.append(
            (
                gap,
                flat,
                slope**2 / (2 * gamma * curvature),
                abs(y - y_g),
                (2 * modulus / (gamma * curvature)) ** (1 / (2 - alpha)),
                slope / (gamma * curvature),
            )
        )
        table.add(f"{gamma:.3g}", *(f"{value:.2e}" for value in found[-1]))
    columns = np.array(found).T
    for axis, rows, title in (
        (axes[0], columns[:3], r"$\varphi(x) - F_\gamma(x)$"),
        (axes[1], columns[3:], r"$\|y_g^*(x) - y_\gamma^*(x)\|$"),
    ):
        for place, (row, label) in enumerate(
            zip(rows, ("measured", "flatness (Lemma 9)", "slope (Lemma 5)"), strict=True)
        ):
            curve(axis, place, gammas, np.maximum(row, 1e-16), label, marker=".")
        axis.set(title=title, xlabel=r"$\gamma$", xscale="log", yscale="log")
    way_x = way("pbgd-free", 300 if quick else 2000)[0]
    way_x = way_x[np.unique(np.geomspace(1, len(way_x) - 1, 60).astype(int))]
    deltas, slopes = [], []
    for at in way_x:
        a, b = answer(at), answer(at, GAMMA)
        deltas.append(
            max(0.0, abs(preference(at, b) - preference(at, a)) - modulus * abs(b - a) ** alpha)
        )
        slopes.append(abs(preference(at, a + step) - preference(at, a - step)) / (2 * step))
    count = np.arange(len(way_x))
    curve(axes[2], 0, count, np.maximum(deltas, 1e-10), r"$\delta(x)$, $c = 0.5$, $\alpha = 1.5$")
    curve(axes[2], 1, count, slopes, r"$|\nabla_y f(x, y_g^*(x))|$")
    axes[2].set(title="along the way of PBGD-Free", xlabel="point of the way", yscale="log")
    for axis in axes:
        legend(axis)
    table.figures.update(delta=max(deltas), slope=max(slopes), bounds=columns)
    table.remarks.append(
        f"Along PBGD-Free's way δ(x) is at most {max(deltas):.1e} (paper: below 3e-4) and the "
        f"slope of f in y at most "
        f"{max(slopes):.2f} (paper: large). Bounds at x = {x:.3f}, μ = {curvature:.3f}, slope "
        f"{slope:.3f}."
    )
    return table


def figure_11(data: Path | None = None, *, quick: bool = False) -> Table:
    """The trade-off over gamma that the paper shows for a language model, on the toy."""
    gammas = (1.0, 15.0) if quick else (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 50.0)
    table = Table(
        "Figure 11 of the ALT-PBGD paper, on the toy: PBGD-Free over gamma",
        (
            "gamma",
            "DPO loss (x, y)",
            "SFT loss (x, y)",
            "DPO loss after the head is fitted",
            "SFT loss after",
        ),
    )
    table.picture, axes = panels(2, width=4.0)
    rows = []
    for gamma in gammas:
        x, y = (values[-1] for values in way("pbgd-free", 300 if quick else 3000, gamma))
        head = answer(x)
        rows.append((preference(x, y), fit(x, y), preference(x, head), fit(x, head)))
        table.add(f"{gamma:g}", *(f"{value:.5f}" for value in rows[-1]))
        table.figures[gamma] = rows[-1]
    columns = np.array(rows).T
    for axis, places, name in ((axes[0], (0, 2), "DPO"), (axes[1], (1, 3), "SFT")):
        for place, column in enumerate(places):
            label = (r"S1: $(x_T, y_T)$", r"S2: $(x_T, \tilde y)$")[place]
            curve(axis, place, gammas, columns[column], label, marker=".")
        axis.set(title=f"{name} loss of PBGD-Free on the toy", xlabel=r"$\gamma$", xscale="log")
        legend(axis)
    return table
