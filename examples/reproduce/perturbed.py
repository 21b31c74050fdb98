"""Figures 4 and 5 of the paper on perturbed gradient descent: synthetic problems and coresets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from blomodel.problems.smooth_papers import coreset, rotated, waves

from .drawing import curve, legend, panels
from .paths import iterates, path
from .table import Table

CONDITION = 10.0  # of H, the largest that C.1.1 allows
CURVATURE_F = 4.0  # of f, used for the steps of the theorems
CURVATURE_H = {"C.1.1": 30.0, "C.1.3": 3000.0}  # of h = |grad_y g|^2; the cosine's is far larger


def theorem(rule: str, n_steps: int, problem: str = "C.1.1") -> dict[str, Any]:
    """Step gamma and rate alpha of Corollaries 4.3 ("square") and 4.6 ("root") for K iterations."""
    if rule == "root":
        steps = {"rate": n_steps ** (-1 / 6), "step_x": min(n_steps ** (-2 / 3), 1 / CURVATURE_F)}
    else:
        rate = n_steps ** (-1 / 3)
        steps = {"rate": rate, "step_x": min(rate, 1 / (CURVATURE_F + rate * CURVATURE_H[problem]))}
    return {"rate_rule": rule, **steps}


def hypergradient(seed: int, x: np.ndarray, y: np.ndarray) -> float:
    """||F(x, y)|| of (1): the hypergradient of C.1.1 by the implicit function formula at (x, y)
    itself.
    """
    h, (c, d, _) = rotated(20, CONDITION, seed)
    outer, inner = np.cos(c @ x + d @ y), 2 * (x + y) / ((x + y) @ (x + y) + 1)
    return float(np.linalg.norm(outer * c + inner + np.linalg.solve(h.T, outer * d + inner)))


def figure_4(data: Path | None = None, *, quick: bool = False) -> Table:
    """More iterations, with the parameters of the theorems, end nearer to a stationary point; BOME
    beside it.
    """
    numbers = (1000, 10000) if quick else (1000, 10000, 100000)
    seeds = (0,) if quick else (0, 1, 2)
    table = Table(
        f"Figure 4 of the paper on perturbed gradient descent: C.1.1 at condition {CONDITION:g}, C.1.3",
        ("problem", "rho", *(f"K = {n}" for n in numbers), "what"),
    )
    table.picture, axes = panels(4, width=3.4)
    for axis, rule in zip(axes, ("square", "root"), strict=False):
        found = np.zeros((len(seeds), len(numbers)))
        for row, seed in enumerate(seeds):
            for column, n_steps in enumerate(numbers):
                problem = waves(20, CONDITION, seed)
                start = {"x": rotated(20, CONDITION, seed)[1][2]}
                (last,) = iterates(problem, "perturbed-gd", start, (n_steps,), **theorem(rule, n_steps))
                found[row, column] = hypergradient(seed, last["x"], last["y"])
            curve(axis, row, numbers, found[row], f"seed {seed}", marker="o", markersize=4)
        number = "4.2" if rule == "square" else "4.5"
        axis.set(
            title=rf"C.1.1, $\rho$ of Theorem {number}",
            xlabel="iterations $K$",
            xscale="log",
            yscale="log",
        )
        axis.set_ylabel(r"$\|F(x_K, y_K)\|$")
        legend(axis)
        cells = (" / ".join(f"{value:.1e}" for value in values) for values in found.T)
        table.add("C.1.1", rule, *cells, "‖F(x, y)‖ at the last iterate, a seed each")
        table.figures[rule] = found
    n_steps = 2000 if quick else 20000
    h, (_, _, first) = rotated(20, CONDITION, 0)
    for place, (label, method, settings) in enumerate(
        (
            ("perturbed-gd, square", "perturbed-gd", theorem("square", n_steps, "C.1.3")),
            ("perturbed-gd, root", "perturbed-gd", theorem("root", n_steps)),
            (
                "bome",
                "bome",
                {
                    "step_x": theorem("square", n_steps, "C.1.3")["step_x"],
                    "step_y": 0.02,
                    "inner_steps": 10,
                },
            ),
        )
    ):
        counts = np.unique(np.geomspace(10, n_steps, 5 if quick else 9).astype(int))
        problem = waves(20, CONDITION, 0, is_nonconvex=True)
        points = iterates(problem, method, {"x": first, "y": 0.5 * first}, counts, **settings)
        slopes, levels = [], []
        for point in points:
            rest = h @ point["y"] - point["x"]
            half = 0.5 * rest @ rest
            slopes.append(np.linalg.norm(np.sin(half) * (h.T @ rest)))
            levels.append(np.cos(half) + 1)
        curve(axes[2], place, counts, np.maximum(levels, 1e-16), label, marker=".")
        curve(axes[3], place, counts, np.maximum(slopes, 1e-16), label, marker=".")
        table.add(
            "C.1.3",
            label,
            *[""] * (len(numbers) - 1),
            f"{levels[-1]:.1e}",
            f"g + 1 after {n_steps} iterations",
        )
        table.figures["C.1.3", label] = levels[-1], slopes[-1]
    axes[2].set(
        title=r"C.1.3: $g(x_k, y_k) - \min g$", yscale="log", xscale="log", xlabel="iteration $k$"
    )
    axes[3].set(
        title=r"C.1.3: $\|\nabla_y g(x_k, y_k)\|$", yscale="log", xscale="log", xlabel="iteration $k$"
    )
    for axis in axes[2:]:
        legend(axis)
    return table


def figure_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """Coreset selection, C.1.2; the paper does not print its data, these are the library's."""
    n_steps = 60 if quick else 300
    table = Table(
        "Figure 5 of the paper on perturbed gradient descent: coreset selection C.1.2",
        ("method", "settings", *(f"f after {k}" for k in (10, 50, n_steps))),
    )
    table.picture, (axis,) = panels(1, width=5.0)
    runs = {
        "perturbed-gd, Theorem 4.2": ("perturbed-gd", theorem("square", n_steps)),
        "perturbed-gd, Theorem 4.5": ("perturbed-gd", theorem("root", n_steps)),
        "bome": ("bome", {"step_x": 0.1, "step_y": 0.25, "inner_steps": 10}),
        "AID (implicit-cg)": ("implicit-cg", {"step_x": 0.1, "step_y": 0.25, "inner_steps": 10}),
        "v-pbgd": (
            "v-pbgd",
            {"penalty": 10.0, "step_x": 0.02, "step_y": 0.25, "inner_steps": 10, "stop_at": 0.0},
        ),
    }
    for place, (label, (method, settings)) in enumerate(runs.items()):
        problem = coreset()
        x, _ = path(problem, method, {"x": np.zeros(4), "y": np.zeros(2)}, max_steps=n_steps, **settings)
        values = reached(x)
        curve(axis, place, np.arange(len(values)), values, label)
        words = ", ".join(
            f"{name} {value:.2g}" for name, value in settings.items() if isinstance(value, float)
        )
        table.add(label, words, *(f"{values[min(k, len(values) - 1)]:.1e}" for k in (10, 50, n_steps)))
        table.figures[label] = values
    axis.set(title=r"$\|y^*(x_k) - y_0\|^2$", xlabel="iteration $k$", yscale="log")
    legend(axis)
    return table


def reached(x: np.ndarray) -> np.ndarray:
    """The upper objective of the coreset problem at the exact lower answers."""
    corners = np.array([[1.0, 3.0, -2.0, 0.0], [3.0, 1.0, 0.0, -2.0]])
    shares = np.exp(x - x.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return np.sum((shares @ corners.T - np.array([1.0, 0.5])) ** 2, axis=1)
