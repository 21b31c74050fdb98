"""Figure 18 of the ALT-PBGD paper: test accuracy, g and f over the iterations of the support vector
machine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import blomodel as bm

from .drawing import COLOURS, curve, legend, panels
from .paths import solved
from .svm import SETTINGS, Data, machine, plain_machine, read, split
from .table import Table, timed

COUNTS = {"blocc": (1, 3, 10), "pbgd-free": (1, 3, 10), "gam": (1, 3, 10)}
LONG = (10, 100, 1000)  # of lv-hba and bic-gaffa, whose iterations are single steps


def figure_18(data: Path | None = None, *, quick: bool = False) -> Table:
    """Every method stopped after some numbers of iterations, over random splits."""
    features, labels = read(data)
    n_splits = 1 if quick else 2
    names = ("blocc", "pbgd-free") if quick else ("blocc", "pbgd-free", "gam", "lv-hba", "bic-gaffa")
    source = "Pima" if data else "scikit-learn's diabetes data (Pima with --data)"
    table = Table(
        f"Figure 18 of the ALT-PBGD paper: {source}, {n_splits} split(s)",
        ("method", "iterations", "test accuracy", "g", "f", "CPU seconds"),
    )
    table.picture, axes = panels(3)
    for place, name in enumerate(names):
        counts = COUNTS.get(name, LONG)
        counts = counts[:3] if quick else counts
        found = np.zeros((n_splits, len(counts), 3))
        with timed() as clock:
            for seed in range(n_splits):
                parts = split(features, labels, seed)
                for column, count in enumerate(counts):
                    found[seed, column] = after(name, parts, count)
        mean, spread = found.mean(axis=0), found.std(axis=0)
        for axis, column in zip(axes, range(3), strict=True):
            curve(axis, place, counts, mean[:, column], name, marker=".")
            low, high = mean[:, column] - spread[:, column], mean[:, column] + spread[:, column]
            axis.fill_between(counts, low, high, color=COLOURS[place], alpha=0.12, linewidth=0)
        for row, count in enumerate(counts):
            if row in (0, len(counts) - 1):
                accuracy, g, f = mean[row]
                seconds = f"{clock.seconds:.1f}" if row else ""
                table.add(
                    name,
                    count,
                    f"{accuracy:.4f} ± {spread[row, 0]:.4f}",
                    f"{g:.4f}",
                    f"{f:.3f}",
                    seconds,
                )
        table.figures[name] = mean
    for axis, title in zip(
        axes, ("test accuracy", "lower objective $g$", "upper objective $f$"), strict=True
    ):
        axis.set(title=title, xlabel="iterations", xscale="log")
        legend(axis)
    return table


def after(name: str, parts: list[Data], count: int) -> tuple[float, float, float]:
    """Test accuracy, g and f of the answer after so many iterations; NaN without one."""
    train, validation, test = parts
    problem, (c, w, b) = machine(train, validation)
    plain = plain_machine(train, validation)
    violations = np.maximum(0, 1 - train[1] * plain.decision_function(train[0]))
    try:
        solution = solved(problem, name, {"c": violations + 0.1}, max_iterations=count, **SETTINGS[name])
    except bm.BlomodelError:
        return np.nan, np.nan, np.nan
    values = solution.values
    share = float(np.mean(test[1] * (test[0] @ values["w"] + values["b"]) > 0))
    return share, float(values["w"] @ values["w"] / 2), float(problem.objective.value)
