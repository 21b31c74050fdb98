"""What a method needs of a problem beyond its capabilities: checks that its class lists in ``needs``.

Each check takes the run and the method, whose settings it may look at, and raises a ModelError that
names what is missing. A check that only one method makes stands in that method's file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.quad_form import QuadForm

from blomodel.basics import limits
from blomodel.basics.memory import remembered
from blomodel.compiler.passes.derivatives import hessian
from blomodel.compiler.passes.polynomial import CONSTANT, polynomial
from blomodel.errors import ModelError
from blomodel.methods.run.registry import Need
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import spread
from blomodel.model.model import Model
from blomodel.programs.hoisting import Hoister
from blomodel.programs.quadratic import is_positive_semidefinite, smallest_eigenvalue
from blomodel.reformulations.mpec import LowerConditions


def projections(run: Run, method: Any) -> None:
    """Projections onto the sets X and Y that the levels' own constraints describe."""
    _ = run.x_set, run.y_set  # raise NotProjectable, which names the constraint


def formula_for_x(run: Run, method: Any) -> None:
    """A projection onto X that compiled loops can call."""
    if run.x_set.spec is None:
        raise ModelError(f"{method.name} needs a set X with a formula, not: {run.x_set.text}")


def small_kkt_matrix(run: Run, method: Any) -> None:
    """Few enough lower variables and rows to factorise the KKT matrix."""
    model = run.model
    size = model.lower_size
    if not limits.KKT_MATRIX.allows(size):
        raise ModelError(
            f"{method.name} factorises the lower KKT matrix, here of size {size}; above "
            f"{limits.KKT_MATRIX.value} use blocc or auto."
        )


def affine_rows(run: Run, method: Any) -> None:
    """Every constraint affine in (x, y)."""
    model = run.model
    parts = (model.lower_in, model.lower_eq, model.upper_in, model.upper_eq)
    if not all(part.is_affine for part in parts):
        raise ModelError(
            f"{method.name} projects onto both levels' constraints together, which needs them affine in "
            "(x, y); bic-gaffa and blocc do without that."
        )


def few_upper_variables(run: Run, method: Any) -> None:
    """A grid with at least two points along every upper variable."""
    n_x = run.model.x.size
    if n_x == 0 or int(method.n_points ** (1 / n_x) + 1e-9) < 2:
        raise ModelError(
            f"{method.name}: {n_x} upper variables need at least 2^{n_x} points, more than "
            f"n_points = {method.n_points}; use random-search or a method with gradients."
        )


def convex_penalised_level(largest: Callable[[Any], float | None]) -> Need:
    """f / gamma + g convex in y at some x; ``largest`` tells a method's largest gamma."""

    def check(run: Run, method: Any) -> None:
        model, p = run.model, run.p
        gamma = float(largest(method) or 1.0)
        weights = (1.0 / gamma, 1.0)
        center = np.zeros(model.x.size) if run.start is None else run.start[0]

        def points() -> Iterator[np.ndarray]:
            yield center  # mostly enough
            yield from spread(model.bounds(p), center, 5, run.seed)

        if _is_quadratic(model):  # which costs a small part of compiling the program
            looked_at = [center] if _are_hessians_fixed(model) else points()
            if _are_convex_by_rules(model) or any(
                _is_convex_at(model, x, p, weights) for x in looked_at
            ):
                return
            reason = "the Hessian in y of the weighted sum has a negative eigenvalue"
            if limits.DENSE_EIGENVALUE.allows(model.y.size):
                lowest = smallest_eigenvalue(_curvature(model, center, p, weights))
                reason = f"the Hessian in y of the weighted sum has the eigenvalue {lowest:.4g}"
        else:
            program = model.penalised_program
            if any(program.is_convex(x, p, weights) for x in points()):
                return
            reason = program.solve(center, p, weights).reason
        raise ModelError(
            f"{method.name} minimises f / gamma + g over y, which is not convex in y here (gamma = "
            f"{gamma:g}): {reason}; try auto or value-cuts."
        )

    return check


def _is_quadratic(model: Model) -> bool:
    """Whether f and g are quadratic in y at fixed x."""
    degrees = (polynomial(tape, variable="y", coefficient="x").degree[0] for tape in (model.f, model.g))
    return all(degree <= 2 for degree in degrees)


def _are_hessians_fixed(model: Model) -> bool:
    """Whether the second derivatives in y are the same at every x."""
    return all(
        polynomial(tape, variable="y", coefficient="x").coefficient_class[0, 2] <= CONSTANT
        for tape in (model.f, model.g)
    )


@remembered
def _are_convex_by_rules(model: Model) -> bool:
    """Whether cvxpy's rules show f and g convex in y at any x, without a look at numbers."""
    terms = (model.f_expression, model.g_expression)
    if any(QuadForm in term.atoms() for term in terms):
        return False  # these rules would ask for the eigenvalues of its matrix
    hoister = Hoister(model.blocks, model.x_bounds)
    return all(hoister(term).is_convex() for term in terms)


def _is_convex_at(model: Model, x: np.ndarray, p: np.ndarray, weights: tuple[float, float]) -> bool:
    """Whether the weighted sum of f and g is convex in y at x."""
    if _are_both_convex(model, x, p):
        return True  # with any weights
    return is_positive_semidefinite(_curvature(model, x, p, weights))


@remembered  # methods with different weights ask for the same point
def _are_both_convex(model: Model, x: np.ndarray, p: np.ndarray) -> bool:
    return all(map(is_positive_semidefinite, _hessians(model, x, p)))


@remembered
def _hessians(model: Model, x: np.ndarray, p: np.ndarray) -> tuple[sp.csc_array, sp.csc_array]:
    """The Hessians of f and g in y."""
    at = (x, np.zeros(model.y.size), p)
    above, below = (sp.csc_array(hessian(tape, ("y",), at)) for tape in (model.f, model.g))
    return above, below


def _curvature(model: Model, x: np.ndarray, p: np.ndarray, weights: tuple[float, float]) -> sp.csc_array:
    """The Hessian in y of the weighted sum of f and g."""
    above, below = _hessians(model, x, p)
    total = sp.csc_array(weights[0] * above + weights[1] * below)
    total.eliminate_zeros()
    return total


def written_kkt_conditions(run: Run, method: Any) -> None:
    """KKT conditions of the lower level that cvxpy's nonlinear language can hold."""
    lower_conditions(run)


def lower_conditions(run: Run) -> LowerConditions:
    """These conditions, written once in a run."""
    return run.once(LowerConditions, lambda: LowerConditions(run.model))
