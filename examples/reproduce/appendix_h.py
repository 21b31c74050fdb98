"""Appendix H of the paper on global optimality: PBGD on two problems whose optima are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .models import (
    best_network,
    cleaning_errors,
    last_point,
    linear_cleaning,
    network_errors,
    representation_learning,
)
from .table import Table, timed

HEADINGS = ("experiment", "gamma", "iterations", "upper error", "lower error", "CPU seconds", "paper")
PAPER = "nearly linear to about 1e-5"


def representation_rows(table: Table, counts: tuple[int, ...], sizes: dict[str, float]) -> None:
    """H.1: the first layer of a linear network above, the second below."""
    random = np.random.default_rng(0)
    problem, W1, W2, data = representation_learning(random, **sizes)
    start = random.normal(0, 0.01, W1.size), random.normal(2, 0.01, W2.size)
    first = network_errors(
        data, start[0].reshape(W1.shape, order="F"), start[1].reshape(W2.shape, order="F")
    )
    best, _ = best_network(data)
    for gamma in (1.0, 10.0, 100.0):
        for count in counts:
            with timed() as clock:
                point = last_point(problem, start, gamma=gamma, max_steps=count, inner_steps=5)
            f, g = network_errors(data, *point)
            found = abs(f - best) / first[0], g / first[1]
            table.figures["H.1", gamma, count] = found
            table.add(
                "H.1 representation learning", f"{gamma:g}", count, f"{found[0]:.1e}", f"{found[1]:.1e}",
                f"{clock.seconds:.2f}", PAPER,
            )  # fmt: skip


def cleaning_rows(table: Table, counts: tuple[int, ...], sizes: dict[str, int]) -> None:
    """H.2: weights of training samples above, linear regression below."""
    problem, u, W, data, polluted = linear_cleaning(np.random.default_rng(0), **sizes)
    start = np.zeros(u.size), np.zeros(W.size)
    first = cleaning_errors(data, start[0], start[1].reshape(W.shape, order="F"))
    for gamma in (0.1, 1.0, 10.0):
        for count in counts:
            with timed() as clock:
                point = last_point(
                    problem, start, order="gauss-seidel", gamma=gamma, max_steps=count, inner_steps=10
                )
            f, g = cleaning_errors(data, *point)
            table.figures["H.2", gamma, count] = f / first[0], g / first[1]
            table.add(
                "H.2 hyper-cleaning", f"{gamma:g}", count, f"{f / first[0]:.1e}", f"{g / first[1]:.1e}",
                f"{clock.seconds:.2f}", PAPER,
            )  # fmt: skip
    weights = point[0]
    table.figures["weights"] = weights[polluted].max(), weights[~polluted].min()
    table.remarks.append(
        f"H.2, last row: the polluted samples end with u <= {weights[polluted].max():.2f}, the clean "
        f"ones with u >= {weights[~polluted].min():.2f}, so that the weights tell them apart."
    )


def table_h(data: Path | None = None, *, quick: bool = False) -> Table:
    """Both experiments at several iteration counts and penalties."""
    table = Table("Appendix H of the paper on global optimality: pbgd", HEADINGS)
    if quick:
        network = {"n_train": 6, "n_validation": 4, "m": 8, "n": 2, "h": 30, "spread": 5.0}
        representation_rows(table, (100, 300), network)
        cleaning_rows(table, (30, 100), {"n_train": 20, "n_validation": 4, "m": 30, "n": 2})
    else:
        representation_rows(table, (100, 300, 1000, 3000), {})
        cleaning_rows(table, (30, 100, 300, 1000), {})
    table.remarks.append(
        "Errors are those of the last iterate, relative to the first: the upper objective less its "
        "known optimum (H.2: less 0, as in the paper), and the lower objective less its optimum in "
        "closed form."
    )
    return table
