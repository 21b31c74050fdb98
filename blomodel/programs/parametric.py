"""Inner problems compiled once and solved for many x: values, minimisers, duals, gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.blocks import Block
from blomodel.compiler.passes.derivatives import jvp
from blomodel.errors import DataError
from blomodel.programs.adjoint import Adjoint, active_rows, pull_back
from blomodel.programs.conic import ConicProgram
from blomodel.programs.hoisting import Hoister
from blomodel.programs.lagrangian import Lagrangian, LagrangianPoint
from blomodel.programs.lifting import Lifting
from blomodel.programs.newton import extreme_curvatures, last_input_only
from blomodel.programs.proximal_newton import ProximalProgram, size_places
from blomodel.programs.quadratic import QuadraticProgram
from blomodel.programs.smooth_norms import SmoothedNorms
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.blocks import independent_parts
from blomodel.solvers.question import Cone


class ParametricProgram:
    """Minimise over y, at fixed x: sum_k weights_k terms_k(x, y) subject to constraints.

    Parameters
    ----------
    terms : sequence of scalar cvxpy expressions
        All to be minimised; the last one is the lower objective, which must be convex in y.
    constraints : sequence of cvxpy constraints
    x, y, p : Block
        Upper variables, lower variables, parameters.
    x_bounds : tuple of arrays
        Bounds on x, from which signs of sub-expressions in x are found.
    y_bounds : tuple of arrays
        Bounds on y that the constraints imply, which show that powers stay where they are convex.
    name : str
        How messages call this problem.

    Attributes
    ----------
    kind : {"LP", "QP", "conic"}
    reason : str
        Why it is of this kind.
    """

    x: Block
    y: Block
    p: Block
    name: str
    lagrangian: Lagrangian
    kind: str

    def __init__(
        self,
        terms: Sequence[cp.Expression],
        constraints: Sequence[Constraint],
        *,
        x: Block,
        y: Block,
        p: Block,
        x_bounds: tuple[np.ndarray, np.ndarray] | None = None,
        y_bounds: tuple[np.ndarray, np.ndarray] | None = None,
        name: str = "lower level",
    ) -> None:
        self.x, self.y, self.p, self.name = x, y, p, name
        unbounded = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        bounds = unbounded if x_bounds is None else x_bounds
        self._original = list(terms), list(constraints)
        lifting = Lifting(terms, constraints, (x, y, p), bounds)
        self._is_lifted = lifting.y is not y
        terms, constraints = lifting.terms, lifting.constraints
        self._lifted = terms, constraints
        self.lagrangian = Lagrangian(terms, constraints, (x, lifting.y, p))
        of_rows = self.lagrangian.row_facts
        quadratic = bool((self.lagrangian.term_facts.degree <= 2).all())
        affine_rows = of_rows is None or bool((of_rows.degree <= 1).all())
        self._program: QuadraticProgram | ConicProgram | ProximalProgram
        is_program = quadratic and affine_rows and self.lagrangian.is_polyhedral_form
        sizes = size_places(lifting.definitions, y)
        if (
            is_program
            and sizes is not None
            and len(terms) == 1
            and not self._original[1]
            and self.lagrangian.has_dear_hessian
            and Hoister((x, y, p), bounds)(self._original[0][0]).is_convex()
        ):
            self._program = ProximalProgram(self.lagrangian, *sizes)
            self.kind = "conic"
            self.reason = (
                "its Hessian would take far longer than products with it, which are all that is needed"
            )
        elif is_program and not self.lagrangian.is_large_and_dense:
            self._program = QuadraticProgram(self.lagrangian, terms, bounds, name)
            self.kind = self._program.kind
            what = "linear" if self.kind == "LP" else "quadratic"
            self.reason = f"the objective is {what} and the constraints are affine in y at fixed x"
            try:
                self._program.check(p.pack())
            except DataError:
                pass  # a parameter has no value yet; the first solve checks
        else:
            self._program = ConicProgram(
                self.lagrangian, terms, constraints, bounds, name, y_bounds=y_bounds
            )
            self.kind = "conic"
            self.reason = self._why_conic(quadratic, affine_rows, is_program)

    def _why_conic(self, quadratic: bool, affine_rows: bool, is_program: bool) -> str:
        if is_program:
            return "its Hessian would be large and dense, whereas its squares are few"
        if not quadratic:
            return "the objective is not quadratic in y at fixed x"
        if not affine_rows:
            return "a constraint is not affine in y at fixed x"
        return "a constraint is a second-order, semidefinite, exponential or power cone"

    def solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: Sequence[float] | np.ndarray = (1.0,),
        warm: bool = True,
        accuracy: float = 1e-8,
        near: np.ndarray | None = None,
        deadline: Deadline = NEVER,
    ) -> Answer:
        """Minimise at x; ``warm`` starts from the last answer.

        Where a solve takes long, a cold one starts from ``near``, and ends without answer at the
        deadline.
        """
        weights = self._weights(weights)
        if self.is_for_products and not isinstance(self._program, QuadraticProgram):
            answer = self._program.solve(x, p, weights, warm, accuracy, near, deadline)
        else:
            answer = self._program.solve(x, p, weights, warm, accuracy)
        if self._is_lifted:
            answer.lifted, answer.y = answer.y, answer.y[: self.y.size]
            answer.duals = answer.duals[: len(self._original[1])]
        return answer

    def gradient(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: Sequence[float] | np.ndarray,
        answer: Answer,
    ) -> np.ndarray:
        """Gradient in x of the optimal value (not a number when the answer holds no point)."""
        if not answer.status.has_point:
            return np.full(self.x.size, np.nan)
        weights, multipliers = self._weights(weights), answer.multipliers
        if multipliers is None or (self._is_lifted and answer.lifted is None):
            # An answer made by hand knows nothing of variables that stand for kinked atoms.
            multipliers = self.lagrangian.flatten(answer.duals)
            stated = LagrangianPoint(x, answer.y, p, weights, multipliers)
            return self._plain_lagrangian.gradient_x(stated)
        y = answer.lifted if answer.lifted is not None else answer.y
        return self.lagrangian.gradient_x(LagrangianPoint(x, y, p, weights, multipliers))

    @cached_property
    def _plain_lagrangian(self) -> Lagrangian:
        if not self._is_lifted:
            return self.lagrangian
        return Lagrangian(*self._original, (self.x, self.y, self.p))

    def solution_jacobian(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: Sequence[float] | np.ndarray,
        answer: Answer,
    ) -> np.ndarray | None:
        """Derivative of the minimiser in x (n_y by n_x), or None where it does not exist."""
        if answer.status is not InnerStatus.OPTIMAL or not self._program.is_smooth:
            return None
        y, multipliers = answer.lifted if self._is_lifted else answer.y, answer.multipliers
        if y is None or multipliers is None:
            return None
        tolerance = 1e-8 if self.kind != "conic" else 1e-5
        at = LagrangianPoint(x, y, p, self._weights(weights), multipliers)
        jacobian = self.lagrangian.solution_jacobian(at, tolerance)
        return None if jacobian is None else jacobian[: self.y.size]

    def solution_adjoint(
        self,
        x: np.ndarray,
        p: np.ndarray,
        answer: Answer,
        slope: np.ndarray,
        *,
        keeps_weak: bool = False,
    ) -> Adjoint | None:
        """The product (dy/dx)' slope at a minimiser of the first term alone.

        None where the minimiser moves along the slope while x stands still, or where no derivative is
        known: for matrix inequalities, for kinks that are neither lifted nor norms.

        Parameters
        ----------
        slope : array
            In y.
        keeps_weak : bool
            Which of two pieces is meant where a row touches without pushing: that on which it stays
            tight, or that on which it loosens.
        """
        if isinstance(self._program, ProximalProgram):
            lifted = answer.lifted
            return None if lifted is None else self._program.adjoint(x, p, lifted, slope)
        lagrangian, multipliers = self._differentiable, answer.multipliers
        y = answer.lifted if self._is_lifted else answer.y
        if lagrangian is None or multipliers is None or y is None or not answer.has_point:
            return None
        if lagrangian is not self.lagrangian:
            multipliers = self._smoothed.multipliers(multipliers)
        at = LagrangianPoint(x, y, p, np.ones(1), multipliers)
        tolerance = 1e-8 if self.kind != "conic" else 1e-6
        rows = active_rows(lagrangian, at, tolerance, keeps_weak=keeps_weak)
        everywhere = np.zeros(len(y))
        everywhere[: self.y.size] = slope
        is_same = answer.active is not None and np.array_equal(answer.active, rows.mask)
        return pull_back(lagrangian, at, everywhere, rows, answer.system if is_same else None)

    def curvatures_of_moves(
        self, x: np.ndarray, p: np.ndarray, answer: Answer
    ) -> tuple[float, float] | None:
        """Smallest and largest curvature along which a free minimiser can move, by products alone.

        Entries that a term such as norm1(y) holds at zero do not move. None where it is not known.
        """
        if isinstance(self._program, ProximalProgram):
            lifted = answer.lifted
            return None if lifted is None else self._program.curvatures_of_moves(x, p, lifted)
        if self.lagrangian.rows is not None or not self._program.is_smooth:
            return None
        apply = last_input_only(jvp(self.lagrangian.terms_grad_y, ("y",)), (x, answer.y, p, np.ones(1)))
        return extreme_curvatures(apply, self.y.size)

    @cached_property
    def _smoothed(self) -> SmoothedNorms:
        return SmoothedNorms(*self._lifted, self.lagrangian.blocks)

    @property
    def _differentiable(self) -> Lagrangian | None:
        """The Lagrangian whose second derivatives tell how the minimiser moves."""
        return self.lagrangian if self._program.is_smooth else self._smoothed.lagrangian

    @property
    def why_no_adjoint(self) -> str | None:
        """What keeps the derivative of the minimiser from being known; None where nothing does."""
        if isinstance(self._program, ProximalProgram) or self._differentiable is not None:
            return None
        return "the lower level has kinks or cones, other than norms, whose derivatives are not known"

    @cached_property
    def blocks(self) -> list[np.ndarray]:
        """Numbers of lower variables that nothing ties to the others at fixed x, set by set.

        The minimiser of each set does not depend on the others. Variables that stand for kinked atoms
        tie what they stand between, and are not listed.
        """
        found = [part.variables for part in independent_parts(*self.lagrangian.patterns)]
        own = [variables[variables < self.y.size] for variables in found]
        return [variables for variables in own if len(variables)]

    @property
    def is_smooth(self) -> bool:
        """Whether second derivatives exist wherever objective and constraints are defined."""
        return self._program.is_smooth

    @property
    def cones(self) -> Sequence[Cone]:
        """The cones of a cone program in cvxpy's canonical form; none where none is solved."""
        return getattr(self._program, "cones", ())

    @property
    def served_by(self) -> str:
        """Who answers, in the order in which they are asked."""
        return self._program.served_by

    @property
    def is_large_and_smooth(self) -> bool:
        """Whether it is too large for an interior-point solver and left to Newton's method."""
        return getattr(self._program, "newton", None) is not None

    @property
    def is_for_products(self) -> bool:
        """Whether it is too large for matrices of second derivatives: products with them must do."""
        return self.is_large_and_smooth or isinstance(self._program, ProximalProgram)

    @property
    def seconds_of_stating(self) -> float:
        """What cvxpy took to bring it to its canonical form; 0 where it was not asked to."""
        program = self._program
        return program.seconds_of_stating if isinstance(program, ConicProgram) else 0.0

    def slope_left(
        self, x: np.ndarray, p: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The slope at an answer found by products, and the weights of entries' sizes; else None."""
        if isinstance(self._program, ProximalProgram):
            return self._program.slope_left(x, p, y)
        if not self.is_large_and_smooth or self._is_lifted:
            return None
        return self.lagrangian.terms_grad_y(x, y, p, np.ones(1)), np.zeros(y.size)

    @property
    def has_moving_hessian(self) -> bool:
        """Whether it is quadratic in y with a Hessian that depends on x."""
        return isinstance(self._program, QuadraticProgram) and self._program.has_moving_hessian

    def hessian(
        self, x: np.ndarray, p: np.ndarray, weights: Sequence[float] | np.ndarray = (1.0,)
    ) -> sp.csc_array:
        """Hessian in y of a quadratic program's objective."""
        assert isinstance(self._program, QuadraticProgram)
        return self._program.hessian(x, p, self._weights(weights))

    def is_convex(
        self, x: np.ndarray, p: np.ndarray, weights: Sequence[float] | np.ndarray = (1.0,)
    ) -> bool:
        """Whether the weighted problem is known to be convex in y at this x."""
        return self._program.is_convex(x, p, self._weights(weights))

    def convexity(
        self, x: np.ndarray, p: np.ndarray, weights: Sequence[float] | np.ndarray = (1.0,)
    ) -> float:
        """Smallest eigenvalue of the objective's Hessian in y (not a number for conic problems)."""
        return self._program.convexity(x, p, self._weights(weights))

    def _weights(self, weights: Sequence[float] | np.ndarray) -> np.ndarray:
        vector = np.asarray(weights, float)
        if vector.shape != (self.lagrangian.n_terms,):
            raise ValueError(
                f"{self.name}: the {self.lagrangian.n_terms} terms need as many weights, not "
                f"{weights!r}."
            )
        return vector
