r"""The strong-duality reformulation of linear and convex quadratic lower levels.

With :math:`g = \tfrac12 y'Qy + q(x)'y + r(x)` and rows :math:`c(x,y) = A(x)y - b(x)`, the gradient of
the Lagrangian is affine in y, and where it is zero the dual value is

.. math:: d(x,y,\lambda,\mu) = r(x) - \tfrac12 y'Qy + \lambda\cdot c(x,0) + \mu\cdot h(x,0).

One inequality, primal value at most dual value, stands in for all products of multipliers and
slacks: it holds no product of :math:`\lambda` and y, and none at all where the rows do not hold x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.errors import ReformulationError
from blomodel.reformulations.kkt import WithConditions
from blomodel.reformulations.mpec import build_problem
from blomodel.reformulations.reformulation import (
    EQUIVALENT,
    Requirement,
    documented,
    reformulation,
)
from blomodel.reformulations.symbolic import add, gradient, in_shape


@reformulation
class StrongDuality(WithConditions):
    """Primal and dual feasibility of the lower level, and equal values."""

    name = "strong-duality"
    title = "Strong-duality reformulation"
    abstract_text = (
        "min over x, y, lambda, mu of f(x, y)  s.t.  grad_y L(x, y, lambda, mu) = 0, c(x, y) <= 0, "
        "h(x, y) = 0, lambda >= 0, g(x, y) <= d(x, y, lambda, mu) + t, x in X;  d the dual value"
    )
    abstract_latex = (
        r"\min_{x,y,\lambda,\mu} f(x,y) \;\text{s.t.}\; \nabla_y L(x,y,\lambda,\mu) = 0,\; "
        r"c(x,y) \le 0,\; h(x,y) = 0,\; \lambda \ge 0,\; g(x,y) \le d(x,y,\lambda,\mu) + t,\; x \in X"
    )

    def judge(self) -> tuple[str, str]:
        """Exact, since such a lower level has no duality gap."""
        return EQUIVALENT, "at t = 0: a linear or convex quadratic lower level has no duality gap"

    def check(self) -> Sequence[Requirement]:
        """A linear or convex quadratic lower level with affine rows."""
        if self.lower_kind not in ("LP", "QP"):
            raise ReformulationError(
                "strong-duality: the lower level must be linear or convex quadratic in y with affine "
                f"constraints, but it is {self.lower_kind}; 'kkt' takes any smooth lower level."
            )
        _ = self.problem
        return [
            Requirement(
                "the lower level is linear or convex quadratic in y with affine constraints",
                self.model.lower_program.reason,
            )
        ]

    @cached_property
    def dual_value(self) -> cp.Expression:
        """The dual value where the Lagrangian's gradient vanishes."""
        conditions = self.conditions
        lower = conditions.lower_variables
        zeros = [cp.Constant(np.zeros(variable.shape)) for variable in lower]
        at_zero = Substitution(lower, zeros)
        g = conditions.objective
        terms = [at_zero(g)]
        for row in conditions.rows:
            offset = at_zero(row.expression)
            if offset.variables() or offset.parameters() or np.any(offset.value):
                terms.append(cp.sum(cp.multiply(row.multiplier, offset)))
        if self.lower_kind == "QP":
            # y'Qy is what the gradient of g gains from 0 to y, times y.
            for variable, slope in zip(lower, gradient(g, lower), strict=True):
                gain = slope - at_zero(slope)
                terms.append(-0.5 * cp.sum(cp.multiply(variable, in_shape(gain, variable.shape))))
        return add([in_shape(term, ()) for term in terms])

    @cached_property
    def problem(self) -> cp.Problem:
        """The single-level problem in cvxpy's nonlinear language."""
        conditions = self.conditions
        values = in_shape(conditions.objective, ()) <= self.dual_value + conditions.relaxation
        values.set_label("equal values")
        return build_problem(conditions, self.stated_objective, instead_of_products=values)

    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of the KKT conditions, and the duality gap."""
        functions = super().make_functions()
        products, equalities = functions["complementarity"], functions["equalities"]
        n_in = len(self.model.lower_in)

        def gap(x: Any, y: Any, multipliers: Any) -> float:
            weights = np.ravel(np.asarray(multipliers, dtype=float))
            return float(products(x, y, multipliers).sum() - weights[n_in:] @ equalities(x, y))

        functions["duality_gap"] = documented(
            gap, "g(x, y) less the dual value, where grad_y of the Lagrangian is zero"
        )
        return functions
