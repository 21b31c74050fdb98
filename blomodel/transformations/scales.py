r"""Variables, rows and objectives in units of their own, where what was stated spans many decades.

A row times 1e-6 looks satisfied to every tolerance, a variable counted in millionths looks like zero.
Where sizes (see ``magnitudes``) are far from one, variables are replaced, :math:`z_j = c_j z_j'`, rows
multiplied and objectives divided, all by powers of two, which change no digit. Other models stay as they
are. A multiplier comes back as :math:`t_g r_i \lambda_i'`. Where the lower answer holds multipliers,
that is their unit, and the equations that say that y is stationary are counted in :math:`t_g / c_j`: so
the level is the one that its primal level in these units would have given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import cvxpy as cp
import numpy as np
from cvxpy.constraints import Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.followers import Lower
from blomodel.declare.point import Values
from blomodel.declare.statement import Statement
from blomodel.model.model import Model
from blomodel.model.rows import Rows
from blomodel.transformations.magnitudes import Magnitudes, find_magnitudes
from blomodel.transformations.transformation import Applied, Transformation
from blomodel.transformations.units import objective_units

FAR = 13.0  # sizes beyond 2^13 or below 2^-13, about four decades, are far from one
FARTHEST = 300.0  # logarithm to base two: what is beyond is no unit
_ROW_BY_ROW = (Inequality, Equality, NonNeg, NonPos, Zero)


class FittingScales(Transformation):
    """Every variable, row and objective counted in its own size, where some are far from one.

    Parameters
    ----------
    model : Model
        The statement, compiled.
    p : array
        Values of the parameters, at which sizes are looked at.
    """

    model: Model
    p: np.ndarray
    found: Magnitudes | None

    name: ClassVar[str] = "scales"

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        is_out = bool(model.statement.is_equilibrium or model.statement.integers)
        self.found = None if is_out else find_magnitudes(model, p, ordinary=FAR)

    def obstacle(self, statement: Statement) -> str | None:
        """Some variable or row must be far from a size of one."""
        if statement.integers:
            return "some variables are whole numbers, which have no other unit"
        if statement.is_equilibrium:
            return "the answer contains multipliers of several objectives, each in a unit of its own"
        if self.found is None or not _is_far(self.found):
            return "variables and rows are of order one"
        return None

    def apply(self, statement: Statement) -> Applied:
        """Both levels in the new units."""
        found = self.found
        assert found is not None
        primal, of_dual = None, None
        if statement.partners:
            found, primal, of_dual = _with_multipliers(self.model, self.p, found)
        sizes = _powers(found.variables)
        of_f, of_g = objective_units(self.model, self.p, sizes, primal)
        levels, n_x = statement.levels, statement.levels.x.size
        factors = dict(levels.x.unpack(sizes[:n_x])) | dict(levels.y.unpack(sizes[n_x:]))
        counted = {v: cp.Variable(v.shape, name=v.name()) for v in factors if np.any(factors[v] != 1.0)}
        substitute = Substitution(
            [*counted], [_times(factors[old], new) for old, new in counted.items()]
        )
        above = _factors(statement.upper_constraints, self.model.upper_in, self.model.upper_eq, found, 0)
        below = _factors(statement.lower.constraints, self.model.lower_in, self.model.lower_eq, found, 2)
        if of_dual is not None:
            below[of_dual.position] = of_dual.factor
        after = statement.rewritten(substitute, counted)
        level = after.lower
        objective = type(level.objective)((1.0 / of_g) * level.objective.args[0])
        rows = [_scaled(c, r) for c, r in zip(level.constraints, below, strict=True)]
        after = replace(
            after,
            upper_objective=(1.0 / of_f) * after.upper_objective,
            upper_constraints=tuple(
                _scaled(c, r) for c, r in zip(after.upper_constraints, above, strict=True)
            ),
            followers=(Lower(objective, rows, level.variables, name=level.name),),
        )
        units = {old: (new, factors[old]) for old, new in counted.items()}
        return _Scaled(self.name, _reason(found, self.model), statement, after, units, below, of_f, of_g)


@dataclass(frozen=True, eq=False)
class _Scaled(Applied):
    units: Mapping[cp.Variable, tuple[cp.Variable, np.ndarray]]  # by the variable that was replaced
    rows: Sequence[np.ndarray]  # factor on each lower constraint
    of_f: float
    of_g: float

    def forward(self, values: Values, p: np.ndarray) -> Values:
        """The values in the new units."""
        found = {}
        for variable, value in values.items():
            new, unit = self.units.get(variable, (variable, 1.0))
            found[new] = np.asarray(value) / unit
        return found

    def invert(self, values: Values) -> Values:
        """The values in the units that were stated."""
        stated = {new: (old, unit) for old, (new, unit) in self.units.items()}
        found = {}
        for variable, value in values.items():
            old, unit = stated.get(variable, (variable, 1.0))
            found[old] = np.asarray(value) * unit
        return found

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """Multipliers of rows and objective as they were stated."""
        return [
            self.of_g * np.asarray(part) * (factor.flat[0] if _is_one(factor) else factor)
            for part, factor in zip(multipliers, self.rows, strict=True)
        ]

    def invert_value(self, value: float) -> float:
        """The upper objective in the stated units."""
        return self.of_f * value

    def invert_lower_value(self, value: float) -> float:
        """The lower objective in the stated units."""
        return self.of_g * value


@dataclass(frozen=True, eq=False)
class _DualRows:
    """The constraint that says that y is stationary, and what to multiply it with."""

    position: int
    factor: np.ndarray


def _powers(sizes: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp2(np.round(sizes.clip(-FARTHEST, FARTHEST))))


def _with_multipliers(
    model: Model, p: np.ndarray, found: Magnitudes
) -> tuple[Magnitudes, np.ndarray, _DualRows | None]:
    """Sizes with those of multipliers in the answer as they follow from rows and objective."""
    statement, n_x = model.statement, model.x.size
    stationary = next(p for p in statement.partners if p.is_stationarity)
    entries = np.arange(model.y.size)
    primal = np.concatenate([entries[model.y.slice_of(leaf)] for leaf in stationary.variables])
    of_g = objective_units(model, p, _powers(found.variables), primal)[1]
    sizes = found.variables.copy()
    for partner in statement.partners:
        if partner.is_stationarity:
            continue
        places = [entries[model.y.slice_of(multiplier)] for multiplier in partner.variables]
        mine = n_x + np.concatenate(places)
        for rows, of_rows in zip((model.lower_in, model.lower_eq), found.scaled_rows[2:], strict=True):
            if partner.position in rows.slices:
                own = np.round(of_rows[rows.slices[partner.position]].clip(-FARTHEST, FARTHEST))
                sizes[mine] = np.log2(of_g) - own
    constraint = statement.lower.constraints[stationary.position]
    factor = _powers(sizes[n_x + primal]) / of_g
    dual = _DualRows(stationary.position, factor.reshape(constraint.shape, order="F"))
    return found.with_variables(sizes), primal, dual


def _is_far(found: Magnitudes) -> bool:
    parts = (found.variables, *found.rows)
    return any(np.abs(part).max(initial=0.0) > FAR for part in parts)


def _is_one(factor: np.ndarray) -> bool:
    return bool(np.all(factor == factor.flat[0]))


def _times(factor: np.ndarray, expression: cp.Expression) -> cp.Expression:
    """Entry by entry; one number where all are the same."""
    if factor.size == 0:
        return expression
    if _is_one(factor):
        unit = float(factor.flat[0])
        return expression if unit == 1.0 else unit * expression
    return cp.multiply(factor, expression)


def _factors(
    constraints: Sequence[Constraint], inequalities: Rows, equalities: Rows, found: Magnitudes, kind: int
) -> list[np.ndarray]:
    """What to multiply each constraint with, in its shape; a cone's rows by one number."""
    factors = []
    for position, constraint in enumerate(constraints):
        for rows, sizes in (
            (inequalities, found.scaled_rows[kind]),
            (equalities, found.scaled_rows[kind + 1]),
        ):
            if position not in rows.slices:
                continue
            own = np.round(sizes[rows.slices[position]].clip(-FARTHEST, FARTHEST))
            if isinstance(constraint, _ROW_BY_ROW):
                factors.append(np.exp2(-own).reshape(constraint.shape, order="F"))
            else:
                factors.append(np.atleast_1d(np.exp2(-own.max(initial=-FARTHEST))))
    return factors


def _scaled(constraint: Constraint, factor: np.ndarray) -> Constraint:
    """The constraint with its arguments multiplied."""
    if factor.size == 0 or np.all(factor == 1.0):
        return constraint
    new = constraint.copy([_times(factor, argument) for argument in constraint.args])
    if constraint.label:
        new.set_label(constraint.label)
    return new


def _reason(found: Magnitudes, model: Model) -> str:
    """What is farthest from one, in words."""
    parts = []
    far = int(np.abs(found.variables).argmax()) if found.variables.size else 0
    if found.variables.size and abs(found.variables[far]) > FAR:
        parts.append(
            f"'{entry_name(model, far)}' is counted in units of {2.0 ** round(found.variables[far]):.3g}"
        )
    labels = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    worst = [(float(np.abs(sizes).max(initial=0.0)), k) for k, sizes in enumerate(found.rows)]
    size, kind = max(worst)
    if size > FAR:
        row = int(np.abs(found.rows[kind]).argmax())
        unit = 2.0 ** round(found.rows[kind][row])
        parts.append(f"rows such as '{labels[kind].labels[row]}' are divided by their size, {unit:.3g}")
    return "; ".join(parts) + "; other variables and rows likewise, by powers of two"


def entry_name(model: Model, position: int) -> str:
    """How messages call an entry of (x, y)."""
    for block, first in ((model.x, 0), (model.y, model.x.size)):
        for leaf in block.leaves:
            place = position - first - block.slice_of(leaf).start
            if 0 <= place < leaf.size and first <= position < first + block.size:
                if leaf.size == 1:
                    return leaf.name()
                at = np.unravel_index(place, leaf.shape, order="F")
                return f"{leaf.name()}[{','.join(str(int(k)) for k in at)}]"
    raise IndexError(position)


def rescaling_advice(model: Model, p: np.ndarray) -> str:
    """Which variable or row of a model is farthest from one, and by which factor; empty: none is far.

    For messages about a solver that fails where units were of no use: with a coefficient that no choice
    of units brings near the others.
    """
    found = find_magnitudes(model, p, ordinary=0.0)
    if found is None:
        return ""
    kinds = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    advice: list[tuple[float, str]] = []
    if found.variables.size:
        far = int(np.abs(found.variables).argmax())
        size = float(found.variables[far])
        text = f"'{entry_name(model, far)}' is about {2.0**size:.1g}: count it in units of that size"
        advice.append((abs(size), text))
    for rows, sizes in zip(kinds, found.rows, strict=True):
        if len(sizes):
            far = int(np.abs(sizes).argmax())
            text = f"the row '{rows.labels[far]}' is about {2.0 ** sizes[far]:.1g}: divide it by that"
            advice.append((abs(float(sizes[far])), text))
    if found.odd is not None:
        odd = found.odd
        name, row = entry_name(model, odd.variable), kinds[odd.kind].labels[odd.row]
        text = (
            f"'{name}' stands in the row '{row}' with a coefficient {2.0**odd.size:.1g} times what its "
            f"size elsewhere suggests: rescale it by {2.0**-odd.size:.1g} there, or restate the row"
        )
        advice.append((abs(odd.size), text))
    worst = max(advice, default=(0.0, ""))
    return worst[1] if worst[0] > FAR else ""
