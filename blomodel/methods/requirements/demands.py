"""What in a problem asks for a capability: one function each, which refuses a method that lacks it.

Each refusal names the expression that asks for the capability and a method that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cvxpy.constraints.constraint import Constraint

from blomodel.basics.memory import remembered
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import SPECTRAL, as_row
from blomodel.compiler.expressions.integers import first_integer
from blomodel.compiler.expressions.kinks import kinks
from blomodel.errors import ModelError, VariableTypeError
from blomodel.methods.run.capabilities import Capability
from blomodel.methods.run.registry import method_classes
from blomodel.methods.run.run import Run
from blomodel.model.model import Model
from blomodel.structure.prox_terms import split_objective
from blomodel.text.shorten import shorten


def holds_x_below(model: Model) -> bool:
    """Whether some lower constraint holds upper variables."""
    return next(_holding(model.lower_constraints, model.x), None) is not None


def _holding(constraints: list[Constraint], block: Block) -> Iterator[Constraint]:
    """The constraints that hold a variable of the block."""
    ids = {leaf.id for leaf in block.leaves}
    return (c for c in constraints if any(variable.id in ids for variable in c.variables()))


@remembered
def _first_coupled_below(model: Model) -> str | None:
    """The first lower constraint that holds x, in words: half of all methods ask for it."""
    first = next(_holding(model.lower_constraints, model.x), None)
    return None if first is None else shorten(first)


def _refuse_nonconvex(run: Run, method: Any) -> None:
    _ = run.model.lower_program  # raises NonconvexLowerError, which says what is not convex


def _refuse_coupled_below(run: Run, method: Any) -> None:
    coupled = _first_coupled_below(run.model)
    if coupled is not None:
        raise ModelError(
            f"{method.name}: the constraint {coupled} of the lower level contains upper "
            "variables, but this method needs y in a set Y of its own; try blocc or auto."
        )


def refuse_coupled_above(run: Run, method: Any) -> None:
    """Refuse upper constraints that hold y."""
    for constraint in run.model.coupling_constraints:
        raise ModelError(
            f"{method.name}: the constraint {shorten(constraint)} of the upper level contains lower "
            "variables, but this method needs x in a set X of its own; try auto."
        )


def _refuse_lower_constraints(run: Run, method: Any) -> None:
    for constraint in run.model.lower_constraints:
        raise ModelError(
            f"{method.name}: the lower level has the constraint {shorten(constraint)!r}, but this "
            "method's derivatives of the lower answer hold for free y only; try unrolled, which "
            "projects, or blocc, gam or auto."
        )


def refuse_matrix_inequalities(run: Run, method: Any) -> None:
    """Refuse semidefinite constraints of the lower level."""
    for constraint in run.model.lower_constraints:
        if as_row(constraint)[0] == SPECTRAL:
            raise ModelError(
                f"{method.name}: the lower constraint {shorten(constraint)} is a semidefinite one, "
                "which has no rows; try auto or reduced-penalty."
            )


@remembered
def _first_kink_below(model: Model) -> str | None:
    """The first atom of g with a kink in y, in words: a walk through all of g."""
    found = kinks(model.g_expression, {leaf.id for leaf in model.y.leaves})
    return shorten(found[0]) if found else None


def _refuse_kinks(run: Run, method: Any) -> None:
    kink = _first_kink_below(run.model)
    if kink is not None:
        raise ModelError(
            f"{method.name}: {kink!r} in the lower objective has kinks, but this method "
            "needs it smooth; try meha or alt-pbgd, which handle such terms by a prox, or auto."
        )


def refuse_kinks_without_prox(run: Run, method: Any) -> None:
    """Refuse kinks of g that have no proximal step."""
    split_objective(run.model)  # raises ModelError, which names the term


def _refuse_integers(run: Run, method: Any) -> None:
    model = run.model
    for block, mask in ((model.x, model.integer_x), (model.y, model.integer_y)):
        variable = first_integer(block, mask)
        if variable is not None:
            takers = sorted(name for name, cls in method_classes().items() if _takes_integers(cls))
            raise VariableTypeError(
                f"{method.name}: '{variable.name()}' is declared integer or boolean, but this method "
                f"moves every variable continuously; use {' or '.join(takers) or 'a relaxation'}."
            )


def _takes_integers(method: Any) -> bool:
    return Capability.INTEGERS in method.capabilities


_REFUSALS: dict[Capability, Callable[[Run, Any], None]] = {
    Capability.NONCONVEX_LOWER: _refuse_nonconvex,
    Capability.COUPLED_LOWER: _refuse_coupled_below,
    Capability.COUPLED_UPPER: refuse_coupled_above,
    Capability.LOWER_CONSTRAINTS: _refuse_lower_constraints,
    Capability.MATRIX_INEQUALITIES: refuse_matrix_inequalities,
    Capability.PROX_TERMS: _refuse_kinks,
    Capability.KINKS: refuse_kinks_without_prox,
    Capability.INTEGERS: _refuse_integers,
}


def check_capabilities(run: Run, method: Any) -> None:
    """Raise ModelError when the problem asks for something that the method does not take."""
    # Integers first: what else is asked may look at the lower level as a program of real numbers.
    for capability in (Capability.INTEGERS, *Capability):
        if capability not in method.capabilities:
            _REFUSALS[capability](run, method)
