"""Table 3 of the GALET paper: hyper-cleaning of MNIST with a linear classifier."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from .models import corrupted, f1_score, softmax_cleaning
from .table import Table, timed

Data = tuple[np.ndarray, np.ndarray]
# The paper's accuracies: linear model, mean over 10 seeds.
PAPER = {
    "pbgd, gauss-seidel": "V-PBGD: 90.24",
    "galet": "90.20",
    "bome": "88.76",
    "iaptt": "IAPTT-GM: 90.13",
    "unrolled": "RHG: 87.83",
}


def read(path: Path | None) -> tuple[Data, Data, Data]:
    """Training, validation and test images with a column of ones, and their true labels."""
    if path is None:
        features, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))
        parts = [(features[rows] / 16, labels[rows]) for rows in np.split(order, [600, 1200])]
    else:
        file = np.load(path)
        parts = [(file[f"X_{name}"] / 255, file[f"y_{name}"]) for name in ("train", "val", "test")]
    train, validation, test = (
        (np.hstack([images, np.ones((len(images), 1))]), labels.astype(int)) for images, labels in parts
    )
    return train, validation, test


def settings(n_train: int, n_steps: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name in the library and settings; every sample counts 1 / n, so the steps in x grow with n."""
    step = {"step_size": float(n_train), "max_steps": n_steps}
    inner = {"lower_step": 0.1, "lower_steps": 20}
    first = {"order": "gauss-seidel", "gamma": 1.0, "inner_steps": 1, "stop_at": 0.0}
    return {
        "pbgd, gauss-seidel": (
            "pbgd",
            {**step, **first, "inner_step_size": 0.1, "second_step_size": 0.5, "tolerance": 0.1},
        ),
        "galet": (
            "galet",
            {**step, "lower_step": 0.1, "lower_steps": 5, "shadow_step": 0.01, "shadow_steps": 5,
             "keep_shadow": True},
        ),
        "bome": ("bome", {}),
        "iaptt": ("iaptt", {**step, **inner, "start_step": 0.1}),
        "unrolled": ("unrolled", {**step, **inner}),
    }  # fmt: skip


def table_3(data: Path | None = None, *, quick: bool = False) -> Table:
    """Every method from x = 0 and zero coefficients, on the same corrupted labels."""
    train, validation, test = read(data)
    noisy, is_wrong = corrupted(train[1], 0.5, np.random.default_rng(0))
    problem, x, weights = softmax_cleaning((train[0], noisy), validation)
    with timed() as compiling:
        _ = problem.model
    source = f"MNIST, {len(noisy)} samples" if data else "digits of scikit-learn (MNIST with --data)"
    table = Table(
        f"Table 3 of the GALET paper: hyper-cleaning, linear model, {source}",
        ("method", "test accuracy, %", "F1, %", "iterations", "CPU seconds", "paper, %"),
    )
    runs = settings(len(noisy), 50 if quick else 450)
    for label in ("pbgd, gauss-seidel", "galet") if quick else tuple(runs):
        name, wishes = runs[label]
        x.value, weights.value = np.zeros(x.shape), np.zeros(weights.shape)
        with timed() as clock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(name, time_limit=100.0, **wishes)
        solution = problem.solution
        accuracy = np.mean((test[0] @ weights.value).argmax(axis=1) == test[1])
        f1 = f1_score(x.value < 0, is_wrong)
        iterations = f"{solution.iterations}" + (" (time limit)" if solution.stopped_by else "")
        table.add(
            label, f"{100 * accuracy:.2f}", f"{100 * f1:.1f}", iterations,
            f"{clock.seconds:.1f}", PAPER[label],
        )  # fmt: skip
        table.figures[label] = accuracy, f1
    table.remarks.append(
        f"One seed (paper: 10). Compiling the model took {compiling.seconds:.1f} s, once for all rows; "
        "each method may take 100 s. F1 is that of finding the wrong labels by x < 0."
    )
    return table
