"""Tables 2, 3, 4 and 8 of the MEHA paper: synthetic problems whose solutions are known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.problems.meha_paper import lasso, nonconvex, strongly_convex

from .paths import is_there
from .table import Table, timed

Known = tuple[bm.BilevelProblem, Callable[[], float]]
HEADINGS = ("size", "method", "true error", "CPU seconds", "iterations", "status", "paper")
SQUARES = "BRC, ‖x‖²/2 added to g"
LONGEST, LONGEST_OTHERS = 60.0, 20.0  # seconds by the clock for one run of MEHA, and of the others
COMMON = (
    "The true error is the distance to the known solution, relative to its length. CPU seconds are "
    "those of solve(), with compiling the model and checking the answer; no method has any setting, "
    f"and each is stopped after {LONGEST_OTHERS:g} s by the clock, meha after {LONGEST:g}. The "
    "paper's seconds are from an Intel i7-8700 with PyTorch."
)


def relative(found: np.ndarray, solution: np.ndarray) -> float:
    """Relative distance of two vectors."""
    return float(np.linalg.norm(found - solution) / np.linalg.norm(solution))


def known_strongly_convex(n: int, method: str = "") -> Known:
    """(77) from x = y = 0, with its error in x."""
    problem = with_squares_below(n) if method == SQUARES else strongly_convex(n)
    x, y = problem.variables
    x.value, y.value = np.zeros(n), np.zeros(n)
    return problem, lambda: relative(x.value, np.full(n, 0.5))


def with_squares_below(n: int) -> bm.BilevelProblem:
    """(77) with ||x||^2 / 2 added to g, which changes neither the answers nor the problem."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x) / 2), variables=[y])
    above = cp.sum_squares(x - 1) / 2 + cp.sum_squares(y) / 2
    return bm.BilevelProblem(cp.Minimize(above), [], lower)


def known_nonconvex(n: int, method: str = "") -> Known:
    """(19) with a = c = 2 from x = -6, y = 0, with its error in x and y."""
    problem = nonconvex(n)
    x, y = problem.variables
    x.value, y.value = -6.0, np.zeros(n)
    nearest = 3 * np.pi / 2  # C of the paper: the minimum of the sine that is nearest to 2 a
    best_x = ((1 - n) * 2 + n * nearest) / (1 + n)
    solution = np.append(best_x, np.full(n, nearest + 2 - best_x))
    return problem, lambda: relative(np.append(x.value, y.value), solution)


def known_lasso(n: int, method: str = "") -> Known:
    """(20) with its error in y; x is not unique."""
    problem = lasso(n)
    y = problem.variables[1]
    return problem, lambda: relative(y.value, np.repeat([0.0, -1.0], n // 2) / n)


def fill(
    table: Table,
    make: Callable[[int, str], Known],
    sizes: tuple[int, ...],
    methods: dict[str, dict[int, str]],
) -> None:
    """A row for every size and method; ``methods`` gives the paper's words for each size."""
    methods = {name: paper for name, paper in methods.items() if is_there(name.split(",")[0].lower())}
    for name in methods:
        make(2, name)[0].solve(
            name.split(",")[0].lower(), time_limit=10.0
        )  # so that no row pays for loading compiled code
    for n in sizes:
        for name, paper in methods.items():
            if n not in paper:
                continue
            problem, error = make(n, name)
            limit = LONGEST if name == "meha" else LONGEST_OTHERS
            with timed() as clock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(name.split(",")[0].lower(), time_limit=limit)
            solution = problem.solution
            assert solution is not None
            iterations = f"{solution.iterations}" + (" (time limit)" if solution.stopped_by else "")
            seconds, status = f"{clock.seconds:.2f}", problem.status
            distance = error() if problem.status.has_point else float("inf")
            table.add(n, name, f"{distance:.1e}", seconds, iterations, status, paper[n])
            table.figures[n, name] = distance, clock.seconds
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
        SQUARES: "",
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
