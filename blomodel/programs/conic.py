"""Convex inner problems beyond quadratic ones: canonicalised once by cvxpy, solved by Clarabel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints import SOC, Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.power import PowCone3D, PowConeND
from cvxpy.utilities.scopes import dpp_scope

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.convexity import explain_nonconvex, is_guarded, is_smooth
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import dense_jacobian
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.tape import Tape
from blomodel.errors import NonconvexLowerError
from blomodel.programs.cone_data import ConeData
from blomodel.programs.hoisting import Hoister
from blomodel.programs.lagrangian import KeptFactor, Lagrangian, LagrangianPoint
from blomodel.programs.newton import NewtonMinimiser
from blomodel.programs.objective import WeightedObjective
from blomodel.programs.points import pack_or_generic
from blomodel.programs.sequential import SequentialQuadratics
from blomodel.solvers.answer import Answer, InnerStatus, OptimalitySystem
from blomodel.solvers.cascade import describe
from blomodel.solvers.choice import Preferred, count
from blomodel.solvers.question import Cone, ProblemClass
from blomodel.solvers.registry import InnerSolver
from blomodel.text.shorten import shorten

SECOND = "newton on quadratic programs"
Pair = tuple[np.ndarray, np.ndarray]  # y and multipliers


class ConicProgram:
    """min_y sum_k weights_k terms_k(x, y) s.t. constraints, for anything convex at fixed x."""

    lagrangian: Lagrangian
    name: str
    n: int
    is_smooth: bool
    hoister: Hoister
    objective: WeightedObjective
    constraints: list[Constraint]
    problem: cp.Problem

    def __init__(
        self,
        lagrangian: Lagrangian,
        terms: Sequence[cp.Expression],
        constraints: Sequence[Constraint],
        x_bounds: tuple[np.ndarray, np.ndarray],
        name: str,
        *,
        y_bounds: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.lagrangian, self.name = lagrangian, name
        self.n = lagrangian.blocks[1].size
        self.is_smooth = lagrangian.is_polyhedral_form and is_smooth(terms, constraints)
        self._is_guarded = lagrangian.is_polyhedral_form and is_guarded(
            terms, constraints, partial(_is_nonnegative, lagrangian.blocks, x_bounds, y_bounds)
        )
        self._answered: tuple[tuple[Any, ...], Answer] | None = None  # the last question and its answer
        self._last: Pair | None = None  # where the next solve may start
        self._kept = KeptFactor()  # of the optimality system at the last answer
        self._misses = self._unlucky = 0  # failed starts in a row, and solves to wait until the next
        self._failed_refinements = 0  # in a row; a kinked objective makes every attempt fail
        self._preferred = Preferred()
        self._second: SequentialQuadratics | None = None
        if self.is_smooth and SequentialQuadratics.takes(lagrangian):
            self._second = SequentialQuadratics(lagrangian)
        self._stalls = 0  # of the cone solver in a row
        self._near = np.zeros(self.n)  # where the second solver starts
        self.hoister = Hoister(lagrangian.blocks, x_bounds)
        self.objective = WeightedObjective(self.hoister, terms, name)
        self.constraints = [self._rewrite(constraint) for constraint in constraints]
        self.problem = cp.Problem(
            cp.Minimize(self.objective.expression),
            [*self.constraints, *self.objective.epigraphs, *self.hoister.bounds],
        )
        hoisted = [expression for _, expression in self.hoister.hoisted]
        self._phi: Tape | None = lower(hoisted, lagrangian.blocks) if hoisted else None
        self.newton: NewtonMinimiser | None = None
        is_free = not constraints and self.is_smooth and self._is_guarded
        if is_free and not limits.INTERIOR_POINT_PRODUCTS.allows(lagrangian.terms.n_products):
            self.newton = NewtonMinimiser(lagrangian.terms, lagrangian.terms_grad_y)
        else:
            _ = self.data  # canonicalised now, so that the first solve does not take longer

    @cached_property
    def data(self) -> ConeData | None:
        """The canonical form; None where it must be made anew at each x.

        That is so for problems that are convex, yet not affine in the parameters.
        """
        points, p = self.hoister.points, pack_or_generic(self.lagrangian.blocks[2])
        self._set_values(points[0], p, np.ones(self.lagrangian.n_terms))
        if not self.problem.is_dpp():
            return None
        return ConeData(self.problem, self.constraints, self.hoister.variables())

    @property
    def seconds_of_stating(self) -> float:
        """What cvxpy took for the canonical form."""
        data = self.data if self.newton is None else None
        return 0.0 if data is None else data.seconds

    @property
    def cones(self) -> Sequence[Cone]:
        """Those of the canonical form; none where Newton's method takes the place of cone solvers."""
        if self.newton is not None:
            return ()
        if self.data is not None:
            return self.data.cones
        variables = self.hoister.variables()
        return ConeData(self.problem, self.constraints, variables, ignore_dpp=True).cones

    # -- modelling ---------------------------------------------------------------------------

    def _rewrite(self, constraint: Constraint) -> Constraint:
        if isinstance(constraint, Inequality | NonPos):
            expression = constraint.expr if isinstance(constraint, Inequality) else constraint.args[0]
            return self._at_most_zero(expression, constraint) <= 0
        if isinstance(constraint, NonNeg):
            return self._at_most_zero(-constraint.args[0], constraint) <= 0
        if isinstance(constraint, Equality | Zero):
            expression = constraint.expr if isinstance(constraint, Equality) else constraint.args[0]
            return self._affine(expression, constraint) == 0
        parts: list[Any] = [self._affine(argument, constraint) for argument in constraint.args]
        extra: dict[str, Any] = {}
        if isinstance(constraint, PowCone3D | PowConeND):
            extra["alpha"] = constraint.alpha
        if isinstance(constraint, SOC | PowConeND):
            extra["axis"] = constraint.axis
        return type(constraint)(*parts, **extra)

    def _at_most_zero(self, expression: cp.Expression, constraint: Constraint) -> cp.Expression:
        rewritten = self.hoister(expression)
        if _is_parametric(rewritten, rewritten.is_convex):
            return rewritten
        for attempt in (self.hoister.affine, self.hoister.quadratic_rows):
            other = attempt(expression)
            if other is not None and other.is_convex():
                return other
        if rewritten.is_convex():
            return self.hoister.lifted(expression)
        raise self._refuse(constraint, rewritten)

    def _affine(self, expression: cp.Expression, constraint: Constraint) -> cp.Expression:
        rewritten = self.hoister(expression)
        if _is_parametric(rewritten, rewritten.is_affine):
            return rewritten
        other = self.hoister.affine(expression)
        if other is None:
            raise self._refuse(constraint, rewritten)
        return other

    def _refuse(self, constraint: Constraint, rewritten: cp.Expression) -> NonconvexLowerError:
        return NonconvexLowerError(
            f"{self.name}: the constraint {shorten(constraint)!r} is not known to be convex in the "
            f"lower variables: {explain_nonconvex(rewritten)}"
        )

    # -- numbers -----------------------------------------------------------------------------

    def _set_values(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> None:
        values = self._phi(x, np.zeros(self.n), p) if self._phi is not None else np.zeros(0)
        for position, (parameter, _) in enumerate(self.hoister.hoisted):
            assert self._phi is not None
            part = values[self._phi.output_slices[position]]
            parameter.save_value(part.reshape(parameter.shape, order="F"))
        for parameter, compute in self.hoister.computed:
            parameter.save_value(compute(x, p).reshape(parameter.shape, order="F"))
        for parameter, value in self.objective.values(x, p, weights):
            parameter.save_value(value.reshape(parameter.shape, order="F"))

    def _vector(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Values of all parameters, laid out as cvxpy's tensors want them."""
        assert self.data is not None
        layout, vector = self.data.columns, self.data.blank.copy()
        if self._phi is not None:
            values = self._phi(x, np.zeros(self.n), p)
            for position, (parameter, _) in enumerate(self.hoister.hoisted):
                where = layout.get(parameter.id)
                if where is not None:
                    vector[where] = values[self._phi.output_slices[position]]
        for parameter, compute in self.hoister.computed:
            where = layout.get(parameter.id)
            if where is not None:
                vector[where] = compute(x, p).ravel(order="F")
        for parameter, value in self.objective.values(x, p, weights):
            where = layout.get(parameter.id)
            if where is not None:
                vector[where] = value.ravel(order="F")
        return vector

    def is_convex(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> bool:
        """Whether the weighted objective is known to be convex in y at this x."""
        return self.objective.why_not_convex(x, p, weights) == ""

    def convexity(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> float:
        """Not defined for objectives that are not quadratic."""
        return np.nan

    @property
    def served_by(self) -> str:
        """Who answers, in the order in which they are asked."""
        cone_solvers = describe(ProblemClass.CONIC, self.n, 0)
        return cone_solvers if self.newton is None else f"Newton's method, then {cone_solvers}"

    # -- solving -----------------------------------------------------------------------------

    def solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        warm: bool,
        accuracy: float,
        near: np.ndarray | None = None,
        deadline: Deadline = NEVER,
    ) -> Answer:
        """Minimise over y at x; ``warm`` allows the last answer, or Newton steps from it."""
        preferred = self._preferred.solver(ProblemClass.CONIC)
        asked = (x.tobytes(), p.tobytes(), weights.tobytes(), accuracy, preferred)
        if warm and self._answered is not None and self._answered[0] == asked:
            return replace(self._answered[1])
        answer = self._solve(x, p, weights, warm, accuracy, preferred, near, deadline)
        if answer.status is InnerStatus.FAILED and min(deadline, end_of_work()).is_over:
            return answer
        # Elsewhere the next answer to the same question may be sharper than this one.
        self._answered = None if self.lagrangian.can_refine else (asked, replace(answer))
        return answer

    def _solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        warm: bool,
        accuracy: float,
        preferred: InnerSolver | None,
        near: np.ndarray | None,
        deadline: Deadline,
    ) -> Answer:
        reason = self.objective.why_not_convex(x, p, weights)
        if reason:
            return Answer.without_point(InnerStatus.FAILED, self.n, reason)
        # One term is solved with weight 1, and its multipliers scaled.
        scale = 1.0
        if len(weights) == 1:
            scale, weights = float(weights[0]), np.ones(1)
        if self.newton is not None and preferred is None:
            answer = self.newton.solve(x, p, weights, warm, accuracy, near, deadline)
            if answer.status is InnerStatus.OPTIMAL:
                answer.value *= scale
                return answer
            if deadline.is_over:  # cone solvers would take longer still
                return answer
        if warm and self._last is not None and preferred is None:
            point = self._continue(x, p, weights)
            if point is not None:
                count("newton")
                answer = self._answer(x, p, weights, scale, point, InnerStatus.OPTIMAL, "newton")
                if scale == 1.0:
                    answer.active, answer.system = self._system(
                        LagrangianPoint(x, point[0], p, weights, point[1])
                    )
                return answer
        # Without rows damped Newton steps cost a small part of what the cones do.
        is_free = warm and self._is_guarded and not self.lagrangian.n_rows
        if (self._stalls > 1 or is_free) and preferred is None:
            second = self._without_cones(x, p, weights, scale, accuracy)
            if second is not None:
                return second
        if self.data is None:
            self._set_values(x, p, weights)
            data = ConeData(self.problem, self.constraints, self.hoister.variables(), ignore_dpp=True)
            vector = data.blank
        else:
            data, vector = self.data, self._vector(x, p, weights)
        result = data.solve(vector, self.objective.linear(x, p, weights), accuracy, preferred)
        has_stalled = result.status in (InnerStatus.FAILED, InnerStatus.INACCURATE)
        self._stalls = self._stalls + 1 if has_stalled else 0
        # Cones of badly scaled powers may even look infeasible.
        if result.status in (InnerStatus.FAILED, InnerStatus.INFEASIBLE):
            second = self._without_cones(x, p, weights, scale, accuracy)
            if second is not None:
                return second
        if not result.has_point:
            reason = f"{result.solver.capitalize()}: {result.reason}"
            return Answer.without_point(result.status, self.n, reason, result.iterations)
        assert result.multipliers is not None
        y, multipliers = data.y.apply(result.y), data.duals.apply(result.multipliers)
        point, status, solver = (y, multipliers), result.status, result.solver
        refined = self._refine(LagrangianPoint(x, y, p, weights, multipliers))
        if refined is not None:
            # Its optimality conditions were checked.
            point, status, solver = refined, InnerStatus.OPTIMAL, f"{result.solver}, newton"
        self._last = point if refined is not None and self._is_guarded else None
        answer = self._answer(x, p, weights, scale, point, status, solver)
        answer.iterations = result.iterations
        if answer.status is not InnerStatus.OPTIMAL:
            second = self._without_cones(x, p, weights, scale, accuracy, y)
            if second is not None:
                return second
            answer.reason = f"{result.solver.capitalize()}: {result.reason}"
        return answer

    def _without_cones(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        scale: float,
        accuracy: float,
        near: np.ndarray | None = None,
    ) -> Answer | None:
        """The second solver, for what is smooth: it works on the functions, not on cones for them."""
        if self._second is None:
            return None
        found = self._second.solve(x, p, weights, self._near if near is None else near, accuracy)
        if found is None:
            return None
        # Newton steps on the optimality conditions, which they also check.
        point = self.lagrangian.refine(LagrangianPoint(x, found[0], p, weights, found[1]), max_factors=4)
        if point is None:
            return None
        count(SECOND)
        self._near = point[0]
        self._last = point if self._is_guarded else None
        return self._answer(x, p, weights, scale, point, InnerStatus.OPTIMAL, SECOND)

    def _answer(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        scale: float,
        point: Pair,
        status: InnerStatus,
        solver: str,
    ) -> Answer:
        y, multipliers = point[0], scale * point[1]
        value = scale * float(weights @ self.lagrangian.terms(x, y, p))
        if not np.isfinite(value):
            status = InnerStatus.FAILED
        duals = self.lagrangian.split(multipliers)
        return Answer(status, value, y, duals, 0, multipliers, "", solver)

    def _refine(self, at: LagrangianPoint) -> Pair | None:
        """Sharpen the interior point answer where the problem is smooth around it."""
        if not self.lagrangian.is_polyhedral_form or self._failed_refinements >= 3:
            return None
        refined = self.lagrangian.refine(at)
        if refined is not None:
            moved = np.abs(refined[0] - at.y).max(initial=0.0)
            if moved > 1e-2 * (1.0 + np.abs(at.y).max(initial=0.0)):
                refined = None  # not the point that was found
        self._failed_refinements = 0 if refined is not None else self._failed_refinements + 1
        return refined

    def _system(self, at: LagrangianPoint) -> tuple[np.ndarray | None, OptimalitySystem | None]:
        """The active rows and their system, its factor that of the last Newton step; for small ones."""
        lagrangian, chosen, whole, n = self.lagrangian, self._kept.chosen, self._kept.solve, self.n
        if whole is None or not limits.PLAIN_SYSTEM.allows(n + lagrangian.n_rows):
            return None, None
        active = np.zeros(lagrangian.n_rows, bool)
        active[chosen] = True
        A = np.zeros((0, n))
        if len(chosen) and lagrangian.rows is not None:
            slopes = dense_jacobian(lagrangian.rows, ("y",), at[:3])
            A = lagrangian.signs[chosen, None] * slopes[chosen]

        def solve(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            both = whole(np.concatenate([r, s]))
            return both[:n], both[n:]

        return active, OptimalitySystem(_Products(lagrangian, at), A, solve)

    def _continue(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> Pair | None:
        """Follow the last answer to the new x by Newton steps.

        What satisfies the optimality conditions of a convex problem is a minimiser, however it was
        found, provided that the expressions are convex wherever their tapes give numbers.
        """
        assert self._last is not None
        self._unlucky -= 1
        if self._unlucky > 0:
            return None
        last = LagrangianPoint(x, self._last[0], p, weights, self._last[1])
        point = self.lagrangian.refine(last, max_factors=5, kept=self._kept)
        if point is None:
            self._misses += 1
            self._unlucky = min(2**self._misses, 32)  # try more seldom where it does not work
        else:
            self._misses, self._last = 0, point
        return point


class _Products:
    """The Hessian at a point as far as refinement needs it: its products with vectors."""

    def __init__(self, lagrangian: Lagrangian, at: LagrangianPoint) -> None:
        self.lagrangian, self.at = lagrangian, at
        self.shape = (len(at.y), len(at.y))

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return self.lagrangian.hessian_product(self.at, vector)


def _is_nonnegative(
    blocks: Sequence[Block],
    x_bounds: tuple[np.ndarray, np.ndarray],
    y_bounds: tuple[np.ndarray, np.ndarray] | None,
    argument: cp.Expression,
) -> bool:
    """Whether the bounds on single variables keep an expression nonnegative."""
    ranges = {"x": x_bounds}
    if y_bounds is not None:
        n_further = blocks[1].size - len(y_bounds[0])  # variables that stand for kinked atoms
        far = np.full(n_further, np.inf)
        ranges["y"] = (np.append(y_bounds[0], -far), np.append(y_bounds[1], far))
    return float(intervals(lower([argument], blocks), ranges)[0].min(initial=np.inf)) >= 0


def _is_parametric(expression: cp.Expression, test: Any) -> bool:
    """Whether the curvature also holds with the parameters left open (cvxpy's DPP rules)."""
    if not test():
        return False
    with dpp_scope():
        return bool(test())
