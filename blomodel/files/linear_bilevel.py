"""Linear bilevel problems: from their standard files to cvxpy, and from a model to the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.passes.polynomial import CONSTANT, polynomial
from blomodel.declare.followers import Lower, Objective
from blomodel.errors import FileFormatError, ModelError
from blomodel.files.auxiliary import Auxiliary, read_auxiliary, write_auxiliary
from blomodel.files.mps import LinearProgram, read_mps, write_mps
from blomodel.model.bounds import single_bounds
from blomodel.model.model import Model
from blomodel.model.rows import Rows
from blomodel.text.shorten import shorten

SUFFIXES = (".aux", ".txt")  # of the auxiliary file, in the order in which they are looked for


@dataclass(frozen=True, eq=False)
class Parts:
    """What a bilevel problem is made of, in cvxpy's words."""

    objective: Objective
    constraints: list[Constraint]
    lower: Lower


# From files


def read_parts(mps: str | Path, aux: str | Path | None = None) -> Parts:
    """The problem in an MPS file and its auxiliary file, which by default has the same name."""
    path = Path(mps)
    program = read_mps(path)
    auxiliary = read_auxiliary(_beside(path, aux), program.columns, program.rows)
    if auxiliary.is_interdiction:
        return _interdiction(program, auxiliary)
    is_lower = np.zeros(len(program.columns), dtype=bool)
    is_lower[auxiliary.columns] = True
    x, y = _variable("x", program, np.flatnonzero(~is_lower)), _variable("y", program, auxiliary.columns)
    below = np.zeros(len(program.rows), dtype=bool)
    below[auxiliary.rows] = True
    in_x, in_y = program.matrix[:, ~is_lower], program.matrix[:, auxiliary.columns]

    def rows(which: np.ndarray) -> list[Constraint]:
        chosen = np.flatnonzero(which)
        left = _product(in_x[chosen], x) + _product(in_y[chosen], y)
        return _between(left, program.row_low[chosen], program.row_high[chosen])

    cost = program.cost[~is_lower], program.cost[auxiliary.columns]
    value = _product(cost[0], x) + _product(cost[1], y) + program.constant
    upper = cp.Maximize(value) if program.is_maximised else cp.Minimize(value)
    return Parts(upper, rows(~below), _lower(auxiliary, y, rows(below)))


def _interdiction(program: LinearProgram, auxiliary: Auxiliary) -> Parts:
    """The MPS file is the follower's; the upper level attacks columns so that it does badly."""
    n = len(program.columns)
    if len(auxiliary.columns) != n:
        raise FileFormatError(
            f"The auxiliary file of an interdiction problem names {len(auxiliary.columns)} columns "
            f"of the lower level, and the MPS file of the follower has {n}."
        )
    if np.any(program.low != 0) or not np.all(np.isfinite(program.high)):
        raise FileFormatError(
            "An attack sets a column of the follower to zero, so that each needs the lower bound 0 and "
            "a finite upper bound."
        )
    x, y = cp.Variable(n, boolean=True, name="x"), _variable("y", program, range(n))
    rows = _between(_product(program.matrix, y), program.row_low, program.row_high)
    rows.append(y <= cp.multiply(program.high, 1 - x))
    budget = np.array(auxiliary.attack_costs) @ x <= auxiliary.budget
    # The attacker is against what the follower is for, whichever way the files state that.
    sign = 1.0 if auxiliary.is_maximised else -1.0
    harm = (sign * program.cost) @ y + sign * program.constant
    return Parts(cp.Minimize(harm), [budget], _lower(auxiliary, y, rows))


def _lower(auxiliary: Auxiliary, y: cp.Variable, rows: list[Constraint]) -> Lower:
    value = np.array(auxiliary.costs) @ y
    sense = cp.Maximize(value) if auxiliary.is_maximised else cp.Minimize(value)
    return Lower(sense, rows, variables=[y])


def _beside(path: Path, aux: str | Path | None) -> Path:
    if aux is not None:
        return Path(aux)
    places = [path.with_suffix(suffix) for suffix in SUFFIXES]
    for place in places:
        if place.exists():
            return place
    raise FileFormatError(
        f"There is no {places[0]} beside {path}: it tells which columns and rows are the lower level's. "
        "Name it, as in bm.read(mps, aux)."
    )


def _variable(name: str, program: LinearProgram, places: Sequence[int] | np.ndarray) -> cp.Variable:
    """The columns as one vector, in their order."""
    places = np.asarray(places, dtype=int)
    whole = np.flatnonzero(program.is_integer[places])
    integer = bool(whole.size) if whole.size in (0, places.size) else [tuple(int(k) for k in whole)]
    bounds = [program.low[places], program.high[places]]
    is_free = np.all(np.isneginf(bounds[0])) and np.all(np.isposinf(bounds[1]))
    return cp.Variable(places.size, name=name, integer=integer, bounds=None if is_free else bounds)


def _product(matrix: sp.csr_array | np.ndarray, variable: cp.Variable) -> cp.Expression:
    return matrix @ variable if variable.size else cp.Constant(np.zeros(matrix.shape[:-1]))


def _between(left: cp.Expression, low: np.ndarray, high: np.ndarray) -> list[Constraint]:
    """low <= left <= high, row by row, without the sides that are infinite."""
    equal = low == high
    above, below = np.isfinite(high) & ~equal, np.isfinite(low) & ~equal
    found = []
    if equal.any():
        found.append(left[np.flatnonzero(equal)] == high[equal])
    if above.any():
        found.append(left[np.flatnonzero(above)] <= high[above])
    if below.any():
        found.append(left[np.flatnonzero(below)] >= low[below])
    return found


# To files


def write_files(
    model: Model, p: np.ndarray, path: str | Path, aux: str | Path | None, is_maximised: bool
) -> tuple[Path, Path]:
    """Write a linear problem as an MPS file and an auxiliary file; where they are.

    The upper objective is written as something to minimise, which is what readers of both files take.
    """
    _check_linear(model)
    mps = Path(path)
    auxiliary = mps.with_suffix(".aux") if aux is None else Path(aux)
    program, found = _program(model, p, mps.stem)
    remarks = ["an auxiliary file beside this one names the lower level's columns and rows"]
    if is_maximised:
        remarks.append("the upper level maximises; its objective is written with the other sign")
    write_mps(program, mps, remarks)
    write_auxiliary(found, auxiliary)
    return mps, auxiliary


def _check_linear(model: Model) -> None:
    """Refuse what is not linear, naming it."""
    if model.statement.partners:
        raise ModelError(
            "MPS files have no word for an upper level that uses multipliers of the lower one."
        )
    in_x = polynomial(model.f, variable="x", coefficient="y")
    in_y = polynomial(model.f, variable="y", coefficient="x")
    is_affine = in_x.degree[0] <= 1 and in_y.degree[0] <= 1
    if not is_affine or in_y.coefficient_class[0, 1] > CONSTANT:
        raise ModelError(
            f"MPS files are for linear problems; {shorten(model.f_expression)!r} is not linear."
        )
    below = polynomial(model.g, variable="y", coefficient="x")
    if below.degree[0] > 1 or below.coefficient_class[0, 1] > CONSTANT:
        raise ModelError(
            "MPS files are for linear problems whose lower objective has coefficients that are numbers; "
            f"{shorten(model.g_expression)!r} is no such objective."
        )
    for constraints in (model.upper_constraints, model.lower_constraints):
        for constraint in constraints:
            for kind in ("inequality", "equality"):
                if not Rows([constraint], kind, model.blocks).is_affine:
                    raise ModelError(
                        f"MPS files are for linear problems; {shorten(constraint)} is not linear."
                    )


def _program(model: Model, p: np.ndarray, name: str) -> tuple[LinearProgram, Auxiliary]:
    """All columns, those of x first, and the rows that are no bounds."""
    n_x, n_y = model.x.size, model.y.size
    zeros = np.zeros(n_x), np.zeros(n_y), p
    bounds = [
        _own_bounds((model.upper_in, model.upper_eq), model, "x", p),
        _own_bounds((model.lower_in, model.lower_eq), model, "y", p),
    ]
    parts, lows, highs, n_upper = [], [], [], 0
    for level, own in enumerate(((model.upper_in, model.upper_eq), (model.lower_in, model.lower_eq))):
        for rows, is_equality, is_bound in zip(own, (False, True), bounds[level][2], strict=True):
            line = rows.linearise(*zeros)
            kept = np.flatnonzero(~is_bound)
            parts.append(sp.hstack([line.in_x[kept], line.in_y[kept]], format="csr"))
            right = -line.value[kept]
            highs.append(right)
            lows.append(right if is_equality else np.full(kept.size, -np.inf))
        if level == 0:
            n_upper = sum(part.shape[0] for part in parts)
    matrix = sp.csr_array(sp.vstack(parts))
    matrix.eliminate_zeros()
    n_rows = matrix.shape[0]
    columns = [*_names(model.x.leaves), *_names(model.y.leaves)]
    program = LinearProgram(
        name=name,
        columns=columns if len(set(columns)) == len(columns) else [f"C{k}" for k in range(n_x + n_y)],
        rows=[f"{'U' if k < n_upper else 'L'}{k}" for k in range(n_rows)],
        cost=model.f_grad(*zeros),
        constant=float(model.f(*zeros)[0]),
        is_maximised=False,
        matrix=matrix,
        row_low=np.concatenate(lows) + 0.0,
        row_high=np.concatenate(highs) + 0.0,
        low=np.concatenate([bounds[0][0], bounds[1][0]]),
        high=np.concatenate([bounds[0][1], bounds[1][1]]),
        is_integer=np.concatenate([model.integer_x, model.integer_y]),
    )
    auxiliary = Auxiliary(
        columns=list(range(n_x, n_x + n_y)),
        rows=list(range(n_upper, n_rows)),
        costs=[float(c) for c in model.g_grad(*zeros)[n_x:]],
    )
    return program, auxiliary


def _own_bounds(
    rows: tuple[Rows, Rows], model: Model, variable: str, p: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Bounds of a level's own variables, and which of its rows of either kind say nothing else."""
    size = model.x.size if variable == "x" else model.y.size
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    is_bound = tuple(np.zeros(len(part), dtype=bool) for part in rows)
    for part, marks, is_equality in zip(rows, is_bound, (False, True), strict=True):
        found = single_bounds(part, model.blocks, variable, p)
        marks[found.rows] = True
        bound = -found.constants / found.slopes
        above, below = (found.slopes > 0) | is_equality, (found.slopes < 0) | is_equality
        np.minimum.at(high, found.columns[above], bound[above])
        np.maximum.at(low, found.columns[below], bound[below])
    if np.any(low > high):
        raise ModelError("Bounds of a variable contradict each other, which no MPS file can say.")
    return low + 0.0, high + 0.0, (is_bound[0], is_bound[1])


def _names(leaves: Sequence[cp.Variable]) -> list[str]:
    """A name for every entry of the variables, without blanks."""
    found = []
    for leaf in leaves:
        plain = "_".join(leaf.name().split()) or "C"
        if leaf.size == 1:
            found.append(plain)
            continue
        for k in range(leaf.size):
            place = np.unravel_index(k, leaf.shape, order="F")
            found.append(f"{plain}[{','.join(str(int(i)) for i in place)}]")
    return found
