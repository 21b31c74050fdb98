"""Figure 4 of the paper on global optimality: steps of PBGD, and other first-order methods, on H.1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blomodel.problems.global_optimality_paper import representation_learning

from .drawing import curve, legend, panels
from .measures import best_network, network_errors, network_start, network_steps
from .paths import iterates
from .table import Table, timed

SMALL = {"n_train": 6, "n_validation": 4, "m": 8, "n": 2, "h": 30}
FARTHEST = 1e30  # entries beyond it: the iterates have run away
LIMIT = 3.0  # seconds of a solve, most of them for the check of a point that has run away


def figure_4(data: Path | None = None, *, quick: bool = False) -> Table:
    """(a)-(b): steps in x and y of 1/10, 1, 4 and 20 times the one of pbgd-h; (c)-(d): F2SA and BOME."""
    counts = (1, 3, 10, 30, 100) if quick else (1, 2, 3, 5, 10, 20, 30, 50, 100, 300)
    table = Table(
        "Figure 4 of the paper on global optimality: representation learning H.1, gamma = 1",
        ("what", *(f"upper error, {k}" for k in counts[-3:]), "lower error at the end", "CPU seconds"),
    )
    random = np.random.default_rng(0)
    problem, W1, W2, arrays = representation_learning(random, **(SMALL if quick else {}))
    start = dict(zip(("W1", "W2"), network_start(random, W1, W2), strict=True))
    first, (best, _) = network_errors(arrays, *start.values()), best_network(arrays)
    steps = network_steps(arrays, tuple(start.values()), 1.0)
    pbgd = {**steps, "penalty": 1.0, "restart": True, "inner_steps": 50, "stop_at": 0.0}
    runs = {
        f"pbgd, {times:g} times the step": ("pbgd", {**pbgd, "step_x": times * steps["step_x"]})
        for times in (0.1, 1.0, 4.0, 20.0)
    }
    runs |= {"f2sa": ("f2sa", {}), "bome": ("bome", {})}
    table.picture, axes = panels(4, width=3.3)
    for place, (label, (method, settings)) in enumerate(runs.items()):
        with timed() as clock:
            points = iterates(problem, method, start, counts, time_limit=LIMIT, **settings)
        errors = np.array([_errors(arrays, point["W1"], point["W2"]) for point in points])
        upper, lower = np.abs(errors[:, 0] - best) / first[0], errors[:, 1] / first[1]
        table.add(
            label, *(f"{error:.1e}" for error in upper[-3:]), f"{lower[-1]:.1e}", f"{clock.seconds:.1f}"
        )
        table.figures[label] = upper, lower
        for pair, is_shown in (
            ((0, 1), method == "pbgd"),
            ((2, 3), method != "pbgd" or " 1 times" in label),
        ):
            if is_shown:
                for axis, values in zip(axes[list(pair)], (upper, lower), strict=True):
                    curve(axis, place, counts, np.clip(values, None, 1e6), label, marker=".")
    for axis, title in zip(
        axes,
        ("(a) upper, steps", "(b) lower, steps", "(c) upper, methods", "(d) lower, methods"),
        strict=True,
    ):
        axis.set(title=title, xscale="log", yscale="log", xlabel="iterations $K$")
        legend(axis)
    axes[0].set_ylabel("error, relative to the start")
    table.remarks.append("pbgd as printed: w = 0 at the start of every inner loop, T = 50.")
    return table


def _errors(data: tuple[np.ndarray, ...], W1: np.ndarray, W2: np.ndarray) -> tuple[float, float]:
    """Both errors; infinite where a step that is too large has sent the iterates off."""
    if not max(np.abs(W1).max(), np.abs(W2).max()) < FARTHEST:
        return np.inf, np.inf
    return network_errors(data, W1, W2)
