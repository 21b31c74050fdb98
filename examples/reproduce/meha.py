"""Tables 2, 3, 4 and 8 of the MEHA paper: synthetic problems whose solutions are known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blomodel as bm
from blomodel.problems.meha_paper import lasso, nonconvex, strongly_convex

from .paths import is_there
from .table import Table, timed

Known = tuple[bm.BilevelProblem, Callable[[], float]]
HEADINGS = ("size", "method", "true error", "CPU seconds", "iterations", "status", "paper")
COMMON = (
    "The true error is the distance to the known solution, relative to its length. CPU seconds are "
    "those of solve(), with compiling the model and checking the answer; no method has any setting, "
    "and each is stopped after 100 s by the clock. The paper's seconds are from an Intel i7-8700 with "
    "PyTorch."
)


def relative(found: np.ndarray, solution: np.ndarray) -> float:
    """Relative distance of two vectors."""
    return float(np.linalg.norm(found - solution) / np.linalg.norm(solution))


def known_strongly_convex(n: int) -> Known:
    """(77) from x = y = 0, with its error in x."""
    problem = strongly_convex(n)
    x, y = problem.variables
    x.value, y.value = np.zeros(n), np.zeros(n)
    return problem, lambda: relative(x.value, np.full(n, 0.5))


def known_nonconvex(n: int) -> Known:
    """(19) with a = c = 2 from x = -6, y = 0, with its error in x and y."""
    problem = nonconvex(n)
    x, y = problem.variables
    x.value, y.value = -6.0, np.zeros(n)
    nearest = 3 * np.pi / 2  # C of the paper: the minimum of the sine that is nearest to 2 a
    best_x = ((1 - n) * 2 + n * nearest) / (1 + n)
    solution = np.append(best_x, np.full(n, nearest + 2 - best_x))
    return problem, lambda: relative(np.append(x.value, y.value), solution)


def known_lasso(n: int) -> Known:
    """(20) with its error in y; x is not unique."""
    problem = lasso(n)
    y = problem.variables[1]
    return problem, lambda: relative(y.value, np.repeat([0.0, -1.0], n // 2) / n)


def fill(
    table: Table,
    make: Callable[[int], Known],
    sizes: tuple[int, ...],
    methods: dict[str, dict[int, str]],
) -> None:
    """A row for every size and method; ``methods`` gives the paper's words for each size."""
    methods = {name: paper for name, paper in methods.items() if is_there(name)}
    for name in methods:
        make(2)[0].solve(name, time_limit=10.0)  # so that no row pays for loading compiled code
    for n in sizes:
        for name, paper in methods.items():
            if n not in paper:
                continue
            problem, error = make(n)
            with timed() as clock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(name, time_limit=100.0)
            solution = problem.solution
            iterations = f"{solution.iterations}" + (" (time limit)" if solution.stopped_by else "")
            seconds, status = f"{clock.seconds:.2f}", problem.status
            table.add(n, name, f"{error():.1e}", seconds, iterations, status, paper[n])
            table.figures[n, name] = error(), clock.seconds
    table.remarks.append(COMMON)


def nonconvex_table(title: str, sizes: tuple[int, ...], paper: dict[str, tuple[str, ...]]) -> Table:
    """(19) for several sizes."""
    table = Table(title, HEADINGS)
    methods = {name: dict(zip(sizes, words, strict=True)) for name, words in paper.items()}
    fill(table, known_nonconvex, sizes, methods)
    return table


def table_2(data: Path | None = None, *, quick: bool = False) -> Table:
    """Nonconvex lower level, small sizes."""
    paper = {
        "meha": ("0.774 s", "2.342 s", "9.552 s", "12.26 s"),
        "bome": ("5.062 s", "6.348 s", "11.02 s", "16.48 s"),
        "iaptt": ("21.23 s", "35.73 s", "154.54 s", "290.82 s"),
    }
    sizes: tuple[int, ...] = (1, 10, 50, 100)
    if quick:
        sizes, paper = (1, 10), {"meha": paper["meha"][:2]}
    return nonconvex_table("Table 2 of the MEHA paper: nonconvex lower level (19)", sizes, paper)


def table_4(data: Path | None = None, *, quick: bool = False) -> Table:
    """Nonconvex lower level, large sizes."""
    paper = {
        "meha": ("33.41 s", "37.85 s", "40.25 s", "47.45 s"),
        "bome": ("44.47 s", "48.73 s", "52.83 s", "68.65 s"),
        "iaptt": ("622.77 s", "1164.16 s", "1657.46 s", "3537.19 s"),
    }
    sizes: tuple[int, ...] = (200, 300, 500, 1000)
    if quick:
        sizes, paper = (200,), {"meha": paper["meha"][:1]}
    return nonconvex_table("Table 4 of the MEHA paper: (19) at large size", sizes, paper)


def table_3(data: Path | None = None, *, quick: bool = False) -> Table:
    """Weighted lasso, a nonsmooth lower level."""
    paper = {
        "meha": {2: "1.91 s", 100: "2.34 s", 1000: "22.83 s"},
        "grid-search": {2: "14.87 s"},
        "random-search": {2: "17.11 s", 100: "86.27 s", 1000: "700.74 s"},
        "tpe": {2: "3.32 s", 100: "232.61 s", 1000: "2244.44 s"},
        "auto": dict.fromkeys((2, 100, 1000), "not in it"),
    }
    sizes: tuple[int, ...] = (2, 100, 1000)
    if quick:
        sizes, paper = (2, 100), {"meha": paper["meha"], "grid-search": paper["grid-search"]}
    table = Table("Table 3 of the MEHA paper: weights of a lasso (20)", HEADINGS)
    fill(table, known_lasso, sizes, paper)
    return table


def table_8(data: Path | None = None, *, quick: bool = False) -> Table:
    """Strongly convex lower level, every method that the library shares with the paper."""
    n = 20 if quick else 1000
    paper: dict[str, Any] = {
        "unrolled": "RHG, 14.01 s",
        "bda": "50.13 s",
        "iaptt": "31.98 s",
        "implicit-cg": "CG, 15.66 s",
        "implicit-neumann": "NS, 21.10 s",
        "bome": "11.18 s",
        "f2sa": "16.21 s",
        "brc": "19.48 s",
        "bamm": "2.650 s",
        "meha": "0.166 s",
        "auto": "not in it",
    }
    if quick:
        paper = {name: paper[name] for name in ("meha", "f2sa", "implicit-cg")}
    table = Table(f"Table 8 of the MEHA paper: strongly convex lower level (77), n = {n}", HEADINGS)
    fill(table, known_strongly_convex, (n,), {name: {n: words} for name, words in paper.items()})
    table.remarks.append(
        "The paper does not tell its n, nor how its memory was measured, so that column is left out."
    )
    return table
