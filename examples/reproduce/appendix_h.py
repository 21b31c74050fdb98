"""Appendix H of the paper on global optimality: PBGD on two problems whose optima are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blomodel.problems.global_optimality_paper import linear_cleaning, representation_learning

from .measures import (
    best_network,
    cleaning_errors,
    cleaning_steps,
    last_iterate,
    network_errors,
    network_start,
    network_steps,
)
from .table import Table, timed

HEADINGS = ("experiment", "gamma", "iterations", "upper error", "lower error", "CPU seconds", "paper")
PAPER = "nearly linear to about 1e-5"
GAMMAS = 0.01, 0.1, 1.0, 10.0, 500.0


def representation_rows(table: Table, counts: tuple[int, ...], sizes: dict[str, float]) -> None:
    """H.1: the first layer of a linear network above, the second below; Jacobi order."""
    random = np.random.default_rng(0)
    problem, W1, W2, data = representation_learning(random, **sizes)
    start = network_start(random, W1, W2)
    first, (best, _) = network_errors(data, *start), best_network(data)
    for gamma in GAMMAS:
        steps = network_steps(data, start, gamma)
        for count in counts:
            with timed() as clock:
                point = last_iterate(problem, start, penalty=gamma, max_steps=count, **steps)
            f, g = network_errors(data, *point)
            found = abs(f - best) / first[0], g / first[1]
            _add(table, "H.1 representation learning", gamma, count, found, clock.seconds)


def cleaning_rows(table: Table, counts: tuple[int, ...], sizes: dict[str, int]) -> None:
    """H.2: weights of training samples above, linear regression below; Gauss-Seidel order."""
    problem, u, W, data, polluted = linear_cleaning(np.random.default_rng(0), **sizes)
    start = np.zeros(u.shape), np.zeros(W.shape)
    first = cleaning_errors(data, *start)
    for gamma in GAMMAS:
        steps = cleaning_steps(data, gamma)
        for count in counts:
            with timed() as clock:
                point = last_iterate(problem, start, penalty=gamma, max_steps=count, **steps)
            f, g = cleaning_errors(data, *point)
            _add(table, "H.2 hyper-cleaning", gamma, count, (f / first[0], g / first[1]), clock.seconds)
    weights = point[0]
    table.figures["weights"] = weights[polluted].max(), weights[~polluted].min()
    table.remarks.append(
        f"H.2, last row: the polluted samples end with u <= {weights[polluted].max():.2f}, the clean "
        f"ones with u >= {weights[~polluted].min():.2f}, so that the weights tell them apart."
    )


def _add(
    table: Table, name: str, gamma: float, count: int, errors: tuple[float, float], seconds: float
) -> None:
    table.figures[name[:3], gamma, count] = errors
    figures = f"{errors[0]:.2e}", f"{errors[1]:.3e}"
    table.add(name, f"{gamma:g}", count, *figures, f"{seconds:.2f}", PAPER)


def table_h(data: Path | None = None, *, quick: bool = False) -> Table:
    """Both experiments at several iteration counts and penalties."""
    table = Table("Appendix H of the paper on global optimality: pbgd", HEADINGS)
    if quick:
        network = {"n_train": 6, "n_validation": 4, "m": 8, "n": 2, "h": 30}
        representation_rows(table, (3, 10, 100), network)
        cleaning_rows(table, (3, 10, 300), {"n_train": 20, "n_validation": 4, "m": 30, "n": 2})
    else:
        representation_rows(table, (3, 10, 30, 100, 1000), {})
        cleaning_rows(table, (3, 10, 30, 100, 1000), {})
    table.remarks.append(
        "Errors are those of the last iterate, relative to the first: the upper objective less its "
        "known optimum (H.2: less 0, as in the paper), and the lower objective less its optimum in "
        "closed form."
    )
    return table
