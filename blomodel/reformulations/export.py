"""A single-level problem as a file for other solvers, by SCIP's writers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import EQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.integers import boolean_entries, integer_entries
from blomodel.compiler.lowering import lower
from blomodel.errors import MissingPackageError, ReformulationError
from blomodel.solvers.branching.scip import is_installed
from blomodel.solvers.branching.scip_expressions import Formula, UntranslatableError, formulas, is_number
from blomodel.text.shorten import shorten

FORMATS = {
    ".lp": "linear and quadratic rows",
    ".mps": "linear and quadratic rows",
    ".nl": "all functions that AMPL's solvers know",
    ".cip": "all that SCIP knows",
}
QUADRATIC = 2
_UNWRITTEN = ("symmetric", "PSD", "NSD", "diag", "sparsity")  # attributes that are no bounds


def write_problem(problem: cp.Problem, path: str | Path, name: str) -> Path:
    """Write a problem in the format that the file's ending names.

    What was written is read once more: a writer leaves out rows for which its format has no words.

    Raises
    ------
    ReformulationError
        Where the format cannot hold the problem.
    """
    place = Path(path)
    if place.suffix.lower() not in FORMATS:
        known = ", ".join(f"{ending} ({what})" for ending, what in FORMATS.items())
        raise ReformulationError(
            f"{name}: {place.name!r} has no ending that is known here; there are {known}."
        )
    if not is_installed():
        raise MissingPackageError(f"{name}: files are written by SCIP; run pip install pyscipopt.")
    try:
        scip, largest_degree = _state(problem)
    except UntranslatableError as error:
        raise ReformulationError(f"{name} cannot be written: {error}.") from error
    # The writer of LP files ends the process at some rows that it has no words for.
    is_written = place.suffix.lower() in (".nl", ".cip") or largest_degree <= QUADRATIC
    if is_written:
        scip.writeProblem(str(place), verbose=False)
    if not is_written or not _is_whole(scip, place):
        for written in (place, place.with_suffix(".row"), place.with_suffix(".col")):
            written.unlink(missing_ok=True)
        raise ReformulationError(
            f"{name}: {place.suffix} files are for {FORMATS[place.suffix.lower()]}, and some row is of "
            "another kind; write .nl or .cip."
        )
    return place


def _state(problem: cp.Problem) -> tuple[Any, float]:
    """The problem as SCIP holds it, with names, and the largest degree of a row."""
    import pyscipopt

    scip: Any = pyscipopt.Model()
    scip.hideOutput()
    leaves = problem.variables()
    blocks = Block("x", leaves), Block("p", problem.parameters())
    variables = [variable for leaf in leaves for variable in _variables(scip, leaf)]
    inputs = {
        "x": variables,
        "p": [float(value) for value in blocks[1].pack()] if blocks[1].size else [],
    }
    degree = 0.0
    for number, constraint in enumerate(problem.constraints):
        kind, expression = as_row(constraint)
        if kind == SPECTRAL:
            raise UntranslatableError(f"{shorten(constraint)!r} is a semidefinite constraint")
        rows = formulas(lower([expression], blocks), inputs)
        for k, row in enumerate(rows):
            if is_number(row):
                row = row + 0.0 * variables[0]
            degree = max(degree, _degree(row))
            label = _plain_name(f"c{number + 1}" + (f"_{k + 1}" if len(rows) > 1 else ""))
            scip.addCons(row == 0.0 if kind == EQUALITY else row <= 0.0, name=label)
    (value,) = formulas(lower([problem.objective.args[0]], blocks), inputs)
    sense = "maximize" if isinstance(problem.objective, cp.Maximize) else "minimize"
    if _degree(value) <= 1:
        scip.setObjective(value, sense)
        return scip, degree
    # Most formats hold linear objectives only.
    stand_in = scip.addVar(name="objective_value", lb=None, ub=None)
    scip.addCons(stand_in <= value if sense == "maximize" else stand_in >= value, name="objective_row")
    scip.setObjective(stand_in, sense)
    return scip, max(degree, _degree(value))


def _degree(row: Formula) -> float:
    """Of a polynomial; infinite for other functions."""
    if is_number(row):
        return 0.0
    return float(row.degree()) if getattr(row, "terms", None) is not None else math.inf


def _variables(scip: Any, leaf: cp.Variable) -> list[Any]:
    for attribute in _UNWRITTEN:
        if leaf.attributes[attribute]:
            raise UntranslatableError(f"'{leaf.name()}' is declared {attribute}=True")
    low, high = (
        np.broadcast_to(np.asarray(bound, float), leaf.shape).ravel(order="F")
        for bound in leaf.get_bounds()
    )
    whole, binary = integer_entries(leaf), boolean_entries(leaf)
    names = [_entry_name(leaf, k) for k in range(leaf.size)]
    return [
        scip.addVar(
            name=name,
            vtype="B" if is_binary else "I" if is_whole else "C",
            lb=float(least) if np.isfinite(least) else None,
            ub=float(most) if np.isfinite(most) else None,
        )
        for name, least, most, is_whole, is_binary in zip(names, low, high, whole, binary, strict=True)
    ]


def _entry_name(leaf: cp.Variable, entry: int) -> str:
    if leaf.size == 1:
        return _plain_name(leaf.name())
    place: Sequence[Any] = np.unravel_index(entry, leaf.shape, order="F")
    return _plain_name(f"{leaf.name()}_{'_'.join(str(int(k)) for k in place)}")


def _plain_name(name: str) -> str:
    """A name that every format allows."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return plain if plain and not plain[0].isdigit() else f"v_{plain}"


def _is_whole(scip: Any, place: Path) -> bool:
    """Whether a file has all rows and variables."""
    import pyscipopt

    again = pyscipopt.Model()
    again.hideOutput()
    try:
        again.readProblem(str(place))
    except OSError:
        return False
    return bool(again.getNConss() == scip.getNConss())
