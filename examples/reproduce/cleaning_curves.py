"""Hyper-cleaning: Figures 2, 3 and 6 of the paper on perturbed gradient descent, Table 5 and Figure 3
of MEHA's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import blomodel as bm
from blomodel.problems.global_optimality_paper import corrupted, network_cleaning, softmax_cleaning

from .cleaning import Data, accuracy, read
from .drawing import curve, legend, panels
from .measures import f1_score
from .paths import is_there, on_the_way, solved
from .table import Table, timed

RIDGE = 2e-3  # 0.001 |y|^2, as the paper on perturbed gradient descent has it
N_HIDDEN = 20
Runs = dict[str, tuple[str, dict[str, Any]]]
HEADINGS = (
    *("classifier", "method", "validation loss", "test accuracy, %", "F1, %"),
    *("iterations", "CPU seconds"),
)


def reduced(parts: tuple[Data, ...], n_components: int) -> list[Data]:
    """Principal components of the training images, with a column of ones."""
    images = [features[:, :-1] for features, _ in parts]
    centre = images[0].mean(axis=0)
    axes = np.linalg.svd(images[0] - centre, full_matrices=False)[2][:n_components].T
    return [
        (np.hstack([(image - centre) @ axes, np.ones((len(image), 1))]), labels)
        for image, (_, labels) in zip(images, parts, strict=True)
    ]


def losses(coefficients: dict[str, np.ndarray], samples: Data) -> float:
    """Mean cross entropy of a linear classifier or of a network with tanh."""
    features, labels = samples
    if "weights" in coefficients:
        scores = features @ coefficients["weights"]
    else:
        hidden = np.tanh(features @ coefficients["first"])
        scores = np.hstack([hidden, np.ones((len(labels), 1))]) @ coefficients["second"]
    top = scores.max(axis=1)
    total = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    return float(np.mean(total - scores[np.arange(len(labels)), labels]))


def perturbed_runs(step: float) -> Runs:
    """Methods of Figure 2: one step for both levels, as the papers' theorems have it."""
    return {
        "perturbed-gd, Theorem 4.2": (
            "perturbed-gd",
            {"step_x": step, "rate": 0.5, "rate_rule": "square"},
        ),
        "perturbed-gd, Theorem 4.5": (
            "perturbed-gd",
            {"step_x": step, "rate": 0.5, "rate_rule": "root"},
        ),
        "v-pbgd": (
            "v-pbgd",
            {"step_x": step, "step_y": step, "penalty": 1.0, "inner_steps": 5, "stop_at": 0.0},
        ),
        "bome": ("bome", {"step_x": step, "step_y": step, "inner_steps": 5}),
    }


def follow(
    table: Table,
    axes: Any,
    problem: bm.BilevelProblem,
    start: dict[str, np.ndarray],
    runs: Runs,
    counts: tuple[int, ...],
    parts: tuple[Data, Data],
    is_wrong: np.ndarray,
    classifier: str,
    by_time: bool = False,
    time_limit: float = 120.0,
) -> None:
    """Each method after several numbers of iterations; two panels, a row of the table for the last."""
    validation, test = parts
    for place, (label, (method, settings)) in enumerate(runs.items()):
        with timed() as clock:
            points, solution = on_the_way(
                problem, method, start, counts, time_limit=time_limit, **settings
            )
        point = points[-1]
        shares = [100 * accuracy(point, test) for point in points]
        values = [losses(point, validation) for point in points]
        f1 = 100 * f1_score(point["x"] < 0, is_wrong)
        across = iterating(solution, counts) if by_time else counts
        curve(axes[0], place, across, values, label, marker=".")
        curve(axes[1], place, across, shares, label, marker=".")
        table.add(
            classifier,
            label,
            f"{values[-1]:.3f}",
            f"{shares[-1]:.2f}",
            f"{f1:.1f}",
            solution.iterations,
            f"{clock.seconds:.1f}",
        )
        table.figures[classifier, label] = values[-1], shares[-1], f1
    axes[0].set(title=f"{classifier}: validation loss", yscale="log")
    axes[1].set(title=f"{classifier}: test accuracy, %")
    for axis in axes[:2]:
        axis.set(xlabel="seconds of iterating" if by_time else "iterations", xscale="log")
        legend(axis)


def iterating(solution: bm.Solution, counts: tuple[int, ...]) -> list[float]:
    """Seconds by the clock up to each number of iterations, without what comes before the first."""
    history = solution.history
    at = {int(k): float(t) for k, t in zip(history["iteration"], history["time"], strict=True)}
    first = 2 * at[10] - at[20]  # when iteration 0 was, as the first ten take what the next ten take
    return [at[count] - first for count in counts]


def figure_2(data: Path | None = None, *, quick: bool = False) -> Table:
    """A quarter of the labels wrong; principal components, then all pixels."""
    train, validation, test = read(data)
    n_components = 81 if data else 20
    source = "MNIST" if data else "digits of scikit-learn (MNIST with --data)"
    table = Table(f"Figure 2 of the paper on perturbed gradient descent: {source}, p = 25 %", HEADINGS)
    table.picture, axes = panels(2 if quick else 4, width=3.5)
    noisy, is_wrong = corrupted(train[1], 0.25, np.random.default_rng(0))
    counts = (10, 100) if quick else (10, 30, 100, 300)
    few = reduced((train, validation, test), n_components)
    for place, (a, b, c) in enumerate([few] if quick else [few, (train, validation, test)]):
        problem, _, weights = softmax_cleaning((a[0], noisy), b, ridge=RIDGE)
        start = {"x": np.zeros(len(noisy)), "weights": np.zeros(weights.shape)}
        runs = perturbed_runs(0.5)
        if place == 0:  # AID is compared at small size only, as in the paper
            aid = {"step_x": 2.0 * len(noisy), "step_y": 0.5, "inner_steps": 5}
            runs["AID (implicit-cg)"] = ("implicit-cg", aid)
        name = f"{n_components} components" if place == 0 else f"{train[0].shape[1] - 1} pixels"
        follow(table, axes[2 * place :], problem, start, runs, counts, (b, c), is_wrong, name)
    return table


def network_figure(title: str, data: Path | None, quick: bool, by_time: bool) -> Table:
    """A network below, tanh in place of ReLU: p = 25 %."""
    train, validation, test = reduced(read(data), 81 if data else 20)
    if quick:
        train, validation = ((features[:100], labels[:100]) for features, labels in (train, validation))
    table = Table(title, HEADINGS)
    table.picture, axes = panels(2, width=4.4)
    noisy, is_wrong = corrupted(train[1], 0.25, np.random.default_rng(0))
    problem, _, first, second = network_cleaning((train[0], noisy), validation, N_HIDDEN)
    random = np.random.default_rng(1)
    start = {
        "x": np.zeros(len(noisy)),
        "first": random.normal(0, 0.2, first.shape),
        "second": random.normal(0, 0.2, second.shape),
    }
    runs = perturbed_runs(0.5)
    if not by_time:
        del runs["perturbed-gd, Theorem 4.5"]
    counts = (10, 100) if quick else (10, 30, 100, 300)
    seconds = 5.0 if quick else 20.0
    follow(
        table,
        axes,
        problem,
        start,
        runs,
        counts,
        (validation, test),
        is_wrong,
        f"network, {N_HIDDEN} units",
        by_time,
        seconds,  # most of them for the search whether the lower answer is the best one
    )
    table.remarks.append(
        "tanh in place of ReLU, no ridge; principal components as features. Each solve has "
        f"{seconds:g} s by the clock, of which the search for a better lower answer takes what the "
        "method leaves."
    )
    return table


def figure_3(data: Path | None = None, *, quick: bool = False) -> Table:
    """Against the number of iterations."""
    title = "Figure 3 of the paper on perturbed gradient descent: a network below"
    return network_figure(title, data, quick, by_time=False)


def figure_6(data: Path | None = None, *, quick: bool = False) -> Table:
    """Against the clock."""
    title = "Figure 6 of the paper on perturbed gradient descent: the network, by time"
    return network_figure(title, data, quick, by_time=True)


# MEHA, Table 5: accuracy and F1 on MNIST.
PAPER_5 = {
    "RHG (unrolled)": "86.93, 89.46",
    "BDA": "85.83, 89.20",
    "CG (implicit-cg)": "84.02, 81.39",
    "BAMM": "88.60, 89.91",
    "IAPTT": "87.57, 91.10",
    "BOME": "88.19, 87.95",
    "V-PBGD": "89.10, 90.64",
    "MEHA": "89.55, 91.26",
    "MEHA, steps of A.11": "89.55, 91.26",
}


def meha_runs(n: int) -> dict[str, tuple[str, dict[str, Any], int]]:
    """Name, settings and number of iterations. Steps in x grow with n, as each sample counts 1 / n."""
    inner = {"inner_steps": 10, "step_x": 10.0 * n, "step_y": 0.5}
    meha = {"penalty": 0.2, "penalty_power": 0.25, "proximal": 100.0}
    return {
        "RHG (unrolled)": ("unrolled", inner, 100),
        "BDA": ("bda", inner, 100),
        "CG (implicit-cg)": ("implicit-cg", inner, 100),
        "BAMM": ("bamm", {"max_iterations": 200}, 200),  # of 50 steps each
        "IAPTT": ("iaptt", {**inner, "step_start": 0.5}, 100),
        "BOME": ("bome", {"inner_steps": 10, "step_x": 1.0, "step_y": 0.5}, 1000),
        "V-PBGD": (
            "v-pbgd",
            {"penalty": 1.0, "step_x": 1.0, "step_y": 0.5, "inner_steps": 10, "stop_at": 0.0},
            1000,
        ),
        "MEHA": ("meha", {**meha, "step_x": 0.5 * n, "step_y": 0.5, "step_theta": 0.5}, 1000),
        "MEHA, steps of A.11": (
            "meha",
            {**meha, "step_x": 0.1, "step_y": 0.15, "step_theta": 0.001},
            1000,
        ),
    }


def table_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """Half of the labels wrong, a linear classifier and every method of the table, several draws of
    the labels.
    """
    train, validation, test = reduced(read(data), 81) if data else read(None)
    seeds = (0,) if quick else (0, 1, 2)
    source = "MNIST, 81 components" if data else "digits of scikit-learn (MNIST with --data)"
    table = Table(
        f"Table 5 of the MEHA paper: hyper-cleaning, {source}, half of the labels wrong, "
        f"{len(seeds)} draw(s)",
        (
            "method",
            "test accuracy, %",
            "F1, %",
            "iterations",
            "CPU seconds",
            "paper on MNIST: accuracy, F1",
        ),
    )
    table.picture, axes = panels(2, width=4.4)
    place = 0
    for label, (method, settings, n_steps) in meha_runs(len(train[1])).items():
        if not is_there(method) or (quick and method in ("bda", "iaptt", "implicit-cg", "unrolled")):
            continue
        found, count = [], n_steps // 10 if quick else n_steps
        with timed() as clock:
            for seed in seeds:
                noisy, is_wrong = corrupted(train[1], 0.5, np.random.default_rng(seed))
                problem, _, weights = softmax_cleaning((train[0], noisy), validation)
                start = {"x": np.zeros(len(noisy)), "weights": np.zeros(weights.shape)}
                wishes = {"max_steps": count, "time_limit": 120.0, "history_every": max(1, count // 50)}
                solution = solved(problem, method, start, **wishes, **settings)
                point = solution.iterate
                found.append((100 * accuracy(point, test), 100 * f1_score(point["x"] < 0, is_wrong)))
        history = solution.history
        curve(axes[0], place, history["iteration"], history["value"], label)
        curve(axes[1], place, history["time"], history["value"], label)
        place += 1
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        cells = (f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, spread, strict=True))
        table.add(
            label, *cells, solution.iterations, f"{clock.seconds / len(seeds):.1f}", PAPER_5[label]
        )
        table.figures[label] = tuple(mean)
    axes[0].set(title="validation loss of the iterates", xlabel="iterations", xscale="log", yscale="log")
    axes[1].set(title="validation loss by time", xlabel="seconds", xscale="log", yscale="log")
    for axis in axes:
        legend(axis)
    table.remarks.append(
        "± is the standard deviation over the draws of the wrong labels; curves: the last draw."
    )
    return table
