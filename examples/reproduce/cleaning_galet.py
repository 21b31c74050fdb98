"""Figures 5 and 7 of the GALET paper: losses and stationarity of hyper-cleaning along the iterations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from blomodel.problems.global_optimality_paper import corrupted, softmax_cleaning

from .cleaning import accuracy, centred, read
from .cleaning_curves import losses
from .drawing import curve, legend, panels
from .measures import f1_score
from .paths import on_the_way
from .table import Table, timed

COMPONENTS = 100  # of MNIST: what is left out holds a twentieth of the variance


def figure_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """GALET as printed and with w kept; V-PBGD and BOME beside it. Features are centred, MNIST as
    components.
    """
    train, validation, test = centred(read(data), COMPONENTS if data else None)
    noisy, is_wrong = corrupted(train[1], 0.5, np.random.default_rng(0))
    n = float(len(noisy))
    source = f"MNIST, {COMPONENTS} components" if data else "digits of scikit-learn (MNIST with --data)"
    table = Table(
        f"Figures 5 and 7 of the GALET paper: {source}",
        (
            "method",
            "iterations",
            "validation loss",
            "test loss",
            "test accuracy, %",
            "F1, %",
            "CPU seconds",
        ),
    )
    table.picture, axes = panels(3, width=3.9)
    galet = {"step_x": 2 * n, "step_y": 2.0, "step_shadow": 8.0, "inner_steps": 5, "shadow_steps": 20}
    runs: dict[str, tuple[str, dict[str, Any]]] = {
        "GALET, w kept": ("galet", {**galet, "restart": False}),
        "GALET, printed": ("galet", {**galet, "restart": True}),
        "V-PBGD": (
            "v-pbgd",
            {"penalty": 1.0, "step_x": 1.0, "step_y": 1.0, "inner_steps": 5, "stop_at": 0.0},
        ),
        "BOME": ("bome", {"step_x": 1.0, "step_y": 1.0, "inner_steps": 5}),
    }
    counts = (5, 20) if quick else (5, 20, 60, 140)
    problem, _, weights = softmax_cleaning((train[0], noisy), validation)
    start = {"x": np.zeros(len(noisy)), "weights": np.zeros(weights.shape)}
    for place, (label, (method, settings)) in enumerate(runs.items()):
        with timed() as clock:
            points, solution = on_the_way(problem, method, start, counts, time_limit=240.0, **settings)
        point = points[-1]
        tests = [losses(point, test) for point in points]
        values = [losses(point, validation) for point in points]
        curve(axes[0], place, counts, tests, label, marker=".")
        curve(axes[1], place, solution.history["iteration"], solution.history["value"], label)
        if method == "galet":
            for name, style in (("R_x", "-"), ("R_w", "--")):
                curve(
                    axes[2],
                    place,
                    solution.history["iteration"],
                    solution.history[name],
                    f"${name}$, {label}",
                    linestyle=style,
                )
        share, f1 = accuracy(point, test), f1_score(point["x"] < 0, is_wrong)
        table.add(
            label, solution.iterations, f"{values[-1]:.3f}", f"{tests[-1]:.3f}", f"{100 * share:.2f}",
            f"{100 * f1:.1f}", f"{clock.seconds:.1f}",
        )  # fmt: skip
        table.figures[label] = values[-1], tests[-1], share
    axes[0].set(title="test loss", xlabel="iteration $k$")
    axes[1].set(title="validation loss", xlabel="iteration $k$", yscale="log")
    axes[2].set(title="stationarity (8) of GALET", xlabel="iteration $k$", yscale="log")
    for axis in axes:
        legend(axis)
    return table
