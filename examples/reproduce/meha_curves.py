"""Figures 1, 2, 4, 5 and 6 of the MEHA paper, and what the settings of its appendix A.11 give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blomodel as bm
from blomodel.problems.meha_paper import lasso, merely_convex, nonconvex, strongly_convex

from .drawing import curve, legend, panels
from .meha import SQUARES, relative, with_squares_below
from .paths import is_there, solved
from .table import Table

# A.11: alpha, beta, eta, gamma, c and p of each problem.
PRINTED = {
    "(77)": (1.5, 0.8, 0.8, 10.0, 33.3, 0.49),
    "(18)": (0.012, 0.1, 0.009, 5.0, 0.167, 0.49),
    "(19)": (5e-4, 5e-4, 0.001, 200.0, 0.02, 0.49),
    "(20)": (0.1, 1e-5, 0.1, 10.0, 2.0, 0.49),
}


def printed(problem: str) -> dict[str, float]:
    """A.11's settings by the library's names."""
    names = "step_x", "step_y", "step_theta", "proximal", "penalty", "penalty_power"
    return dict(zip(names, PRINTED[problem], strict=True))


def nonconvex_solution(n: int) -> tuple[float, np.ndarray]:
    """x* and y* of (19) with a = c = 2."""
    nearest = 3 * np.pi / 2
    x = ((1 - n) * 2 + n * nearest) / (1 + n)
    return x, np.full(n, nearest + 2 - x)


def errors(history: dict[str, np.ndarray], solution: np.ndarray) -> np.ndarray:
    """Relative distances of the history's x to the solution."""
    return np.linalg.norm(history["x"] - solution, axis=1) / np.linalg.norm(solution)


def convergence(
    table: Table,
    axis: Any,
    make: Callable[[], bm.BilevelProblem],
    start: dict[str, Any],
    solution: np.ndarray,
    runs: dict[str, tuple[str, dict[str, Any]]],
    size: int,
    first: int = 0,
) -> None:
    """A curve of the error in x for each method, by iterations, and a row with its last error."""
    for place, (label, (method, settings)) in enumerate(runs.items(), first):
        if not is_there(method):
            continue
        found = solved(make(), method, start, **{**LIMITS, **settings})
        distances = np.maximum(errors(found.history, solution), 1e-12)
        curve(axis, place, found.history["iteration"], distances, label)
        end = relative(np.ravel(found.iterate["x"]), solution) if found.iterate else distances[-1]
        table.add(size, label, f"{distances[-1]:.1e}", f"{end:.1e}", found.iterations, found.status)
        table.figures[size, label] = float(distances[-1])
    axis.set(yscale="log", xscale="log", xlabel="iterations")
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(runs) > 3 or first else {}
    legend(axis, **beside)


# Every iterate is kept, which is slow; the paper's own runs have at most 800 iterations.
LIMITS: dict[str, Any] = {"history_every": 1, "max_iterations": 3000, "time_limit": 60.0}
LONG = {"history_every": 10, "max_iterations": 30_000}  # of MEHA, whose iterations are single steps
HEADINGS = ("n", "method", "error in x, last row", "of the iterate", "iterations", "status")


def figure_1(data: Path | None = None, *, quick: bool = False) -> Table:
    """(18), merely convex: x* = y* = e."""
    n = 10 if quick else 50
    table = Table(f"Figure 1 of the MEHA paper: (18), n = {n}", HEADINGS)
    table.picture, (axis,) = panels(1, width=6.0)
    runs = {
        "MEHA": ("meha", LONG),
        "BDA": ("bda", {"max_steps": 300}),
        "RHG": ("unrolled", {"max_steps": 300}),
        "IAPTT": ("iaptt", {"max_steps": 300}),
        "BOME": ("bome", {}),
        "F2SA": ("f2sa", {"max_steps": 300}),
        "BAMM": ("bamm", {}),
    }
    if quick:
        runs = {name: runs[name] for name in ("MEHA", "BOME")}
    problem = merely_convex(n)
    start = {variable.name(): np.zeros(n) for variable in problem.variables()}
    convergence(table, axis, lambda: problem, start, np.ones(n), runs, n)
    axis.set_title(r"(18): $\|x - x^*\| / \|x^*\|$")
    return table


def figure_2(data: Path | None = None, *, quick: bool = False) -> Table:
    """(19), nonconvex, over sizes."""
    sizes = (1, 10) if quick else (10, 50, 100)
    table = Table("Figure 2 of the MEHA paper: (19)", HEADINGS)
    table.picture, axes = panels(len(sizes), width=3.2)
    for axis, n in zip(axes, sizes, strict=True):
        runs = {
            "MEHA": ("meha", LONG),
            "BOME": ("bome", {}),
            "IAPTT": ("iaptt", {"max_steps": 100}),
        }
        if quick:
            runs = {"MEHA": ("meha", {"max_steps": 500})}
        solution = np.array([nonconvex_solution(n)[0]])
        start = {"x": -6.0, "y": np.zeros(n)}
        convergence(table, axis, lambda n=n: nonconvex(n), start, solution, runs, n)
        axis.set_title(rf"(19), $n = {n}$: $|x - x^*| / |x^*|$")
    return table


def figure_4(data: Path | None = None, *, quick: bool = False) -> Table:
    """(77), strongly convex, every method."""
    n = 20 if quick else 100
    table = Table(f"Figure 4 of the MEHA paper: (77), n = {n}", HEADINGS)
    table.picture, (axis,) = panels(1, width=7.2)
    runs = {
        "MEHA": ("meha", LONG),
        "RHG": ("unrolled", {}),
        "BDA": ("bda", {}),
        "IAPTT": ("iaptt", {}),
        "CG": ("implicit-cg", {}),
        "NS": ("implicit-neumann", {}),
        "BOME": ("bome", {}),
        "F2SA": ("f2sa", {}),
        "BAMM": ("bamm", {}),
        "BRC": ("brc", {}),
    }
    if quick:
        runs = {name: runs[name] for name in ("MEHA", "F2SA")}
    start = {"x": np.zeros(n), "y": np.zeros(n)}
    problem = strongly_convex(n)
    convergence(table, axis, lambda: problem, start, np.full(n, 0.5), runs, n)
    if not quick:
        as_squares = {SQUARES: ("brc", {})}
        other = with_squares_below(n)
        convergence(table, axis, lambda: other, start, np.full(n, 0.5), as_squares, n, first=len(runs))
    axis.set(title=r"(77): $\|x - x^*\| / \|x^*\|$", ylim=(1e-12, 1e2))  # BRC leaves it upwards
    return table


def figure_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """(19) with n = 1: step in x, upper objective and error of the methods."""
    table = Table(
        "Figure 5 of the MEHA paper: (19), n = 1",
        ("method", "last step in x", "f at the end", "error in x", "iterations"),
    )
    table.picture, axes = panels(3)
    solution = nonconvex_solution(1)[0]
    runs = {
        "MEHA": ("meha", LONG),
        "BOME": ("bome", {}),
        "IAPTT": ("iaptt", {"max_steps": 300}),
    }
    if quick:
        runs = {"MEHA": ("meha", {"max_steps": 500})}
    for place, (label, (method, settings)) in enumerate(runs.items()):
        history = solved(
            nonconvex(1),
            method,
            {"x": -6.0, "y": np.zeros(1)},
            **{**LIMITS, **settings},
        ).history
        x = np.append(-6.0, history["x"][:, 0])
        steps, count = np.abs(np.diff(x)), history["iteration"]
        curve(axes[0], place, count, np.maximum(steps, 1e-12), label)
        curve(axes[1], place, count, history["value"], label)
        curve(axes[2], place, count, np.abs(x[1:] - solution) / solution, label)
        error = abs(x[-1] - solution) / solution
        table.add(
            label, f"{steps[-1]:.1e}", f"{history['value'][-1]:.4f}", f"{error:.1e}", int(count[-1])
        )
        table.figures[label] = error
    for axis, title in zip(
        axes, (r"$|x^{k+1} - x^k|$", "upper objective $f$", "$|x - x^*| / x^*$"), strict=True
    ):
        axis.set(title=title, xlabel="iterations", xscale="log", yscale="log")
        legend(axis)
    return table


def figure_6(data: Path | None = None, *, quick: bool = False) -> Table:
    """(20), a lasso: errors of MEHA in y over sizes."""
    sizes = (2, 10) if quick else (2, 100, 1000)
    table = Table(
        "Figure 6 of the MEHA paper: (20) by MEHA", ("n", "iterations", "error in y at the end")
    )
    table.picture, (axis,) = panels(1, width=4.8)
    for place, n in enumerate(sizes):
        best = np.repeat([0.0, -1.0], n // 2) / n
        counts = np.unique(np.geomspace(5, 3000, 6 if quick else 10).astype(int))
        problem, distances = lasso(n), []
        for count in counts:
            found = solved(
                problem, "meha", {"x": np.full(n, 0.5), "y": np.zeros(n)}, max_iterations=int(count)
            )
            distances.append(relative(found.iterate["y"], best))
        curve(axis, place, counts, np.maximum(distances, 1e-12), f"n = {n}", marker=".")
        table.add(n, found.iterations, f"{distances[-1]:.1e}")
        table.figures[n] = distances[-1]
    axis.set(title=r"(20): $\|y - y^*\| / \|y^*\|$", xlabel="iterations", xscale="log", yscale="log")
    legend(axis)
    return table


def settings_table(data: Path | None = None, *, quick: bool = False) -> Table:
    """Algorithm 1 with the settings that A.11 prints, after the paper's 800 iterations and more."""
    counts = (800,) if quick else (800, 8000, 80000)
    table = Table(
        "What the settings of A.11 give (MEHA, Algorithm 1 as printed, θ⁰ = y⁰)",
        ("problem", "n", *(f"error after {k}" for k in counts), "error without settings"),
    )
    problems: list[
        tuple[str, int, Callable[[int], bm.BilevelProblem], Callable[[int], dict[str, Any]]]
    ] = [
        ("(77)", 50, strongly_convex, lambda n: {"x": np.zeros(n), "y": np.zeros(n)}),
        ("(18)", 50, merely_convex, lambda n: {}),
        *[("(19)", n, nonconvex, lambda n: {"x": -6.0, "y": np.zeros(n)}) for n in (1, 10, 50, 100)],
        ("(20)", 100, lasso, lambda n: {"x": np.full(n, 0.5), "y": np.zeros(n)}),
    ]
    if quick:
        problems = problems[:1] + problems[2:3]
    for name, n, make, start in problems:
        problem, cells = make(n), []
        at = start(n) or {variable.name(): np.zeros(n) for variable in problem.variables()}
        for count in counts:
            found = solved(problem, "meha", at, max_steps=count, **printed(name))
            cells.append(distance(name, n, found.iterate))
        own = solved(problem, "meha", at, time_limit=20.0)
        table.add(name, n, *(f"{cell:.1e}" for cell in cells), f"{distance(name, n, own.values):.1e}")
        table.figures[name, n] = cells
    table.remarks.append(
        "Errors in x for (77) and (18), in (x, y) for (19), in y for (20), relative. The steps "
        "are fixed; the paper "
        "anneals those of (18) and does not print how."
    )
    return table


def distance(name: str, n: int, point: dict[str, np.ndarray]) -> float:
    """Relative distance to the known solution."""
    with np.errstate(all="ignore"):
        if name == "(77)":
            return relative(point["x"], np.full(n, 0.5))
        if name == "(18)":
            return relative(point["x"], np.ones(n))
        if name == "(20)":
            return relative(point["y"], np.repeat([0.0, -1.0], n // 2) / n)
        x, y = nonconvex_solution(n)
        return relative(np.append(point["x"], point["y"]), np.append(x, y))
