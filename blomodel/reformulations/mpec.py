r"""The KKT reformulation as a cvxpy problem (a mathematical program with complementarity).

.. math:: \min_{x,y,\lambda,\mu,s} f(x,y) \quad \text{s.t.} \quad
          \nabla_y g + \lambda\cdot\nabla_y c + \mu\cdot\nabla_y h = 0, \quad
          s = -c(x,y), \quad h(x,y) = 0, \quad \lambda, s \ge 0, \quad \lambda_i s_i \le t,

and the upper constraints. The stationarity is differentiated symbolically, so that everything is an
expression of cvxpy's nonlinear language. At t = 0 these are the KKT conditions; a nonlinear solver
needs t > 0, which is driven to zero (Scholtes' relaxation).

Kinks of the lower level are written with further variables: absolute values and maxima by the rows
of their epigraph (``programs/lifting.py``), a Euclidean norm by its length and its direction, which runs
through the subgradients of the norm (``smooth_parts.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints import SOC, Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import EQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.errors import NonconvexLowerError, ReformulationError
from blomodel.model.model import Model
from blomodel.programs.lifting import Lifting
from blomodel.reformulations.nonlinear_language import (
    check_language,
    state_constraint,
    state_expression,
)
from blomodel.reformulations.smooth_parts import NormParts, SmoothParts
from blomodel.reformulations.symbolic import check_pull_back, pull_back, spread, times
from blomodel.text.shorten import shorten

RELAXATION = 1e-8  # t until it is set to something else


@dataclass(frozen=True, eq=False)
class LowerRow:
    """One lower constraint: c <= 0 or h == 0, with its multiplier."""

    label: str
    expression: cp.Expression
    multiplier: cp.Variable
    slack: cp.Variable | None  # -c; None for an equality


class LowerConditions:
    """The lower level's KKT conditions in cvxpy expressions.

    Parameters
    ----------
    model : Model
    variables : sequence of cvxpy.Variable, optional
        What to write for the model's variables (upper, then lower); by default these themselves.

    Attributes
    ----------
    lower_variables : tuple of cvxpy.Variable
        The lower variables, and those that stand for kinks.
    rows : list of LowerRow
    smooth : SmoothParts
        Variables that stand for kinked atoms.
    relaxation : cvxpy.Parameter
        t, the largest product of a multiplier and its slack.
    """

    variables: tuple[cp.Variable, ...] | tuple[cp.Variable | cp.Parameter, ...]
    substitute: Substitution
    lower_variables: tuple[cp.Expression | Constraint, ...]
    relaxation: cp.Parameter
    smooth: SmoothParts
    objective: Any
    rows: list[LowerRow]

    def __init__(self, model: Model, variables: Sequence[cp.Variable] | None = None) -> None:
        self.model = model
        own = (*model.x.leaves, *model.y.leaves)
        self.variables = tuple(variables) if variables is not None else own
        self.substitute = Substitution(own, self.variables)
        self._lifting = Lifting(
            [model.g_expression], model.lower_constraints, model.blocks, model.x_bounds
        )
        self.lower_variables = tuple(self.substitute(leaf) for leaf in self._lifting.y.leaves)
        n_upper = len(model.x.leaves)
        self._x, self._y = Block("x", self.variables[:n_upper]), Block("y", self.variables[n_upper:])
        self._lifted_y = Block("y", self.lower_variables)
        self._lower_ids = {variable.id for variable in self.lower_variables}
        self.relaxation = cp.Parameter(nonneg=True, name="t", value=RELAXATION)
        self.smooth = SmoothParts()
        self.objective = self._split_norms(self.substitute(self._lifting.terms[0]))
        self.rows = [
            self._row(number, constraint) for number, constraint in enumerate(self._lifting.constraints)
        ]
        if not self._norms():
            check_pull_back(
                [self.objective, *(row.expression for row in self.rows)], self.lower_variables
            )
        else:
            _ = self.stationarity

    @cached_property
    def stationarity(self) -> list[tuple[cp.Expression | Constraint, cp.Expression]]:
        """A lower variable and the Lagrangian's gradient in it, for each."""
        return list(zip(self.lower_variables, self._gradient(), strict=True))

    def _row(self, number: int, constraint: Constraint) -> LowerRow:
        kind, expression = as_row(constraint)
        if kind == SPECTRAL:
            raise ReformulationError(
                f"The lower constraint {shorten(constraint)!r} demands a semidefinite matrix, whose "
                "multiplier is a matrix too; the KKT conditions are written here row by row only. "
                "Use method 'auto' or 'reduced-penalty'."
            )
        stated = self.model.lower_constraints[number : number + 1]
        label = (stated[0].label if stated else None) or str(number + 1)
        expression = self._split_norms(self.substitute(expression))
        shape = expression.shape
        if kind == EQUALITY:
            return LowerRow(label, expression, cp.Variable(shape, name=f"mu_{label}"), None)
        multiplier = cp.Variable(shape, nonneg=True, name=f"lambda_{label}")
        slack = cp.Variable(shape, nonneg=True, name=f"slack_{label}")
        return LowerRow(label, expression, multiplier, slack)

    def _split_norms(self, expression: Any) -> Any:
        return self.smooth.split_norms(expression, self._holds_y)

    def _holds_y(self, part: Any) -> bool:
        return any(variable.id in self._lower_ids for variable in part.variables())

    def _gradient(self) -> list[cp.Expression]:
        """Gradient of the Lagrangian in the lower variables, through the norms."""
        outputs = [(self.objective, cp.Constant(np.ones(self.objective.shape)))]
        outputs += [(row.expression, row.multiplier) for row in self.rows]
        # A norm may stand inside another one's argument, so the outermost (last) come first.
        for norm in reversed(self._norms()):
            pressure = pull_back(outputs, [norm.length])[0]
            slope = times(spread(pressure, norm.argument.shape, norm.axis), norm.direction)
            outputs.append((norm.argument, slope))
        return pull_back(outputs, self.lower_variables)

    def _norms(self) -> list[NormParts]:
        return [part for part in self.smooth.parts if isinstance(part, NormParts)]

    @property
    def has_complementarity(self) -> bool:
        """Whether the relaxation parameter occurs at all."""
        return bool(self.smooth.parts) or any(row.slack is not None for row in self.rows)

    def constraints(self, has_products: bool = True) -> list[Constraint]:
        """The conditions as constraints of cvxpy's nonlinear language."""
        t = self.relaxation
        found: list[Constraint] = []
        for variable, slope in self.stationarity:
            if slope.variables():
                equation = state_expression(slope) == 0
                equation.set_label(f"stationarity in {variable.name()}")
                found.append(equation)
            elif np.any(slope.value):
                raise ReformulationError(
                    f"The lower objective is linear in '{variable.name()}', which no constraint "
                    "bounds; the lower level has no minimum."
                )
        for row in self.rows:
            expression = state_expression(row.expression)
            if row.slack is None:
                found.append(expression == 0)
                continue
            found.append(expression + row.slack == 0)
            if has_products:
                products = cp.multiply(row.multiplier, row.slack) <= t
                products.set_label(f"complementarity of {row.label}")
                found.append(products)
        return found

    def start(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> None:
        """Give every variable a value: y and multipliers as the lower level answers at x."""
        model = self.model
        lifted, duals = y, None
        try:
            answer = model.lower_program.solve(x, p)
            if answer.status.has_point and answer.multipliers is not None:
                lifted = answer.y if answer.lifted is None else answer.lifted
                duals = model.lower_program.lagrangian.split(answer.multipliers)
        except NonconvexLowerError:
            pass
        self.assign(x, lifted if len(lifted) == self._lifting.y.size else y)
        if len(lifted) != self._lifting.y.size:
            for variable in self.lower_variables[len(model.y.leaves) :]:
                variable.save_value(np.zeros(variable.shape))
        self.smooth.start()
        for number, row in enumerate(self.rows):
            values = np.asarray(row.expression.value, dtype=float)
            if row.slack is not None:
                row.slack.save_value(np.maximum(-values, 0.0))
            multiplier = np.ones(row.multiplier.shape) * (row.slack is not None)
            if duals is not None:
                found = _row_dual(self._lifting.constraints[number], duals[number])
                multiplier = multiplier if found is None else found.reshape(row.multiplier.shape)
            row.multiplier.save_value(multiplier)

    def assign(self, x: np.ndarray, y: np.ndarray) -> None:
        """Set the variables of both levels; y may hold the values of those for kinks."""
        self._x.assign(x)
        (self._lifted_y if len(y) == self._lifted_y.size else self._y).assign(y)

    def point(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The present values as vectors x and y of the model; None where one is missing."""
        if not (self._x.has_values and self._y.has_values):
            return None
        x, y = self._x.pack(), self._y.pack()
        return (x, y) if np.all(np.isfinite(x)) and np.all(np.isfinite(y)) else None


def _row_dual(constraint: Constraint, dual: np.ndarray) -> np.ndarray | None:
    """The multiplier of the row that stands for a constraint, from the dual of the constraint."""
    if isinstance(constraint, Inequality | Equality | NonPos | NonNeg | Zero):
        return np.asarray(dual).reshape(constraint.shape, order="F") if dual.ndim else dual
    if isinstance(constraint, SOC):
        return np.ravel(dual, order="F")[: constraint.args[0].size]
    return None


def build_problem(
    conditions: LowerConditions,
    objective: cp.Minimize | cp.Maximize | None = None,
    instead_of_products: Constraint | None = None,
) -> cp.Problem:
    """Upper objective and constraints with the lower level's conditions, as one cvxpy problem.

    Parameters
    ----------
    conditions : LowerConditions
    objective : cvxpy.Minimize or cvxpy.Maximize, optional
        The upper objective as the user wrote it; by default the model's, minimised.
    instead_of_products : constraint, optional
        One that stands for all rows "multiplier times slack at most t".
    """
    model, substitute = conditions.model, conditions.substitute
    if objective is None:
        stated: Any = cp.Minimize(state_expression(substitute(model.f_expression)))
    else:
        stated = type(objective)(state_expression(objective.args[0]))
    upper = [state_constraint(substitute(constraint)) for constraint in model.upper_constraints]
    rows = conditions.constraints(has_products=instead_of_products is None)
    if instead_of_products is not None:
        rows.append(state_constraint(instead_of_products))
    parts = [stated, *upper, *rows]
    # Kinks that stand where cvxpy's epigraph would not be exact, such as abs(x) times y.
    smooth = conditions.smooth
    parts = [part if part.is_dnlp() else smooth.split_kinks(part) for part in parts]
    definitions = map(state_expression, smooth.constraints(conditions.relaxation))
    problem = cp.Problem(parts[0], [*parts[1:], *definitions])
    check_language(problem)
    return problem
