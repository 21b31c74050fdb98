"""What a method needs of a problem, as checks that the method itself makes before it runs.

Each check takes the run and the method and raises a ModelError that names what is missing. So what
``explain()`` says about a method and what the method does cannot differ. A method lists its checks
in the table here, or in a class variable ``needs`` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blomodel.compiler.expressions.kinks import kinks
from blomodel.errors import ModelError
from blomodel.methods.first_order.constrained import MAX_DENSE, ConstrainedLower
from blomodel.methods.first_order.first_order import set_up, set_up_smooth
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import spread
from blomodel.reformulations.mpec import LowerConditions
from blomodel.structure.curvature import StrongConvexity
from blomodel.text.shorten import shorten

Need = Callable[[Run, Any], object]
PACKAGE = "needs pip install"  # how methods declare an optional package


@dataclass(frozen=True)
class Verdict:
    """Whether a method applies to a problem.

    Attributes
    ----------
    method : str
    applies : bool
    reason : str
        Why not; empty when it applies.
    caution : str
        An assumption of its theory that is not known to hold here; empty when none is.
    """

    method: str
    applies: bool
    reason: str = ""
    caution: str = ""


def own_sets_and_prox(run: Run, method: Any) -> None:
    """x in a set X and y in a set Y of its own, and every kink of g with a proximal step."""
    set_up(run, method.name, prox=True)


def holds_x_below(run: Run) -> bool:
    """Whether some lower constraint holds upper variables."""
    upper = {leaf.id for leaf in run.model.x.leaves}
    return any(
        variable.id in upper
        for constraint in run.model.lower_constraints
        for variable in constraint.variables()
    )


def own_sets_or_convex(run: Run, method: Any) -> None:
    """Sets of x and y of their own, or coupled lower constraints and f / gamma + g convex in y."""
    if not holds_x_below(run):
        own_sets_and_prox(run, method)
        return
    ConstrainedLower(run, method.name).refuse_coupling_above(method.name)
    _ = run.model.lower_program  # raises NonconvexLowerError
    convex_penalised_level(run, method)


def own_sets_and_smooth(run: Run, method: Any) -> None:
    """The same sets, and no kinks in g."""
    set_up_smooth(run, method.name, free_y=False)


def free_and_smooth(run: Run, method: Any) -> None:
    """No constraints on y, and no kinks in g."""
    set_up_smooth(run, method.name)


def lower_rows(run: Run, method: Any) -> None:
    """Lower constraints that can be written row by row."""
    ConstrainedLower(run, method.name)


def no_upper_rows_with_y(run: Run, method: Any) -> None:
    """Upper constraints on x alone."""
    ConstrainedLower(run, method.name).refuse_coupling_above(method.name)


def formula_for_x(run: Run, method: Any) -> None:
    """A projection onto X that compiled loops can call."""
    found = ConstrainedLower(run, method.name).x_set
    if found.spec is None:
        raise ModelError(f"{method.name} needs a set X with a formula, not: {found.text}")


def small_kkt_matrix(run: Run, method: Any) -> None:
    """Few enough lower variables and rows to factorise the KKT matrix."""
    model = run.model
    size = model.y.size + len(model.lower_in) + len(model.lower_eq)
    if size > MAX_DENSE:
        raise ModelError(
            f"{method.name} factorises the lower KKT matrix, here of size {size}; above "
            f"{MAX_DENSE} use blocc or auto."
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


def convex_penalised_level(run: Run, method: Any) -> None:
    """f / gamma + g convex in y, at the largest gamma and some x."""
    model, p = run.model, run.p
    gamma = float(getattr(method, "penalty_last", 0) or method.penalty or 1.0)
    weights = (1.0 / gamma, 1.0)
    program = model.penalised_program
    center = np.zeros(model.x.size) if run.start is None else run.start[0]
    points = [center, *spread(model.bounds(p), center, 5, run.seed)]
    if any(program.is_convex(x, p, weights) for x in points):
        return
    reason = program.solve(center, p, weights).reason
    raise ModelError(
        f"{method.name} minimises f / gamma + g over y, which is not convex in y here (gamma = "
        f"{gamma:g}): {reason}; try auto or value-cuts."
    )


def written_kkt_conditions(run: Run, method: Any) -> None:
    """KKT conditions of the lower level that cvxpy's nonlinear language can hold."""
    LowerConditions(run.model)


_NEEDS: dict[str, tuple[Need, ...]] = {
    "alt-pbgd": (own_sets_and_prox,),
    "auto": (),
    "bda": (own_sets_and_smooth,),
    "bic-gaffa": (lower_rows, no_upper_rows_with_y, formula_for_x),
    "blocc": (convex_penalised_level,),
    "bome": (own_sets_and_smooth,),
    "f2sa": (own_sets_and_prox,),
    "galet": (free_and_smooth,),
    "gam": (lower_rows, no_upper_rows_with_y, small_kkt_matrix, formula_for_x),
    "grid-search": (few_upper_variables,),
    "iaptt": (own_sets_and_smooth,),
    "implicit-cg": (free_and_smooth,),
    "implicit-neumann": (free_and_smooth,),
    "jnt-pbgd": (own_sets_and_smooth,),
    "kkt": (written_kkt_conditions,),
    "lv-hba": (lower_rows, affine_rows),
    "meha": (own_sets_and_prox,),
    "pbgd": (own_sets_and_smooth,),
    "pbgd-free": (own_sets_or_convex,),
    "perturbed-gd": (free_and_smooth,),
    "random-search": (),
    "reduced-penalty": (convex_penalised_level,),
    "unrolled": (own_sets_and_smooth,),
    "v-pbgd": (own_sets_and_smooth,),
    "value-cuts": (),
}


def needs_of(method: Any) -> tuple[Need, ...] | None:
    """The checks of a method; None when it declares none."""
    declared = getattr(type(method), "needs", None)
    return declared if declared is not None else _NEEDS.get(method.name)


def check_needs(run: Run, method: Any) -> None:
    """Raise ModelError when the problem lacks something that the method needs."""
    if not getattr(method, "allows_nonconvex_lower", False):
        _ = run.model.lower_program  # raises NonconvexLowerError
    for need in needs_of(method) or ():
        need(run, method)


def judge(run: Run, method: Any, convexity: StrongConvexity) -> Verdict:
    """Whether a method applies to the problem of a run, and if not, why."""
    try:
        check_needs(run, method)
    except ModelError as error:
        text = str(error).removeprefix(f"{method.name}: ")
        return Verdict(method.name, False, text)
    return Verdict(method.name, True, caution=_caution(run, method, convexity))


def _caution(run: Run, method: Any, convexity: StrongConvexity) -> str:
    """The first assumption that the method declares and the problem is not known to meet."""
    model, assumes = run.model, method.assumes
    if PACKAGE in assumes:  # installed or not, so that the text is the same on every machine
        return assumes[assumes.index(PACKAGE) :]
    if "smooth" in assumes and "prox" not in assumes:
        found = kinks(model.g_expression, {leaf.id for leaf in model.y.leaves})
        if found:
            return f"they assume a smooth lower objective, and {shorten(found[0])} has kinks"
    if "strongly convex" in assumes and convexity.is_strong is not True:
        known = "not" if convexity.is_strong is False else "not known to be"
        other = " (or PL)" if "PL" in assumes else ""
        return f"they assume g strongly convex{other} in y, and it is {known} strongly convex"
    if "flat" in assumes and not model.f.depends_on("x"):
        return "f depends on x only through y, so its step in x is zero"
    return ""
