"""Where an expression is not smooth: its atoms with a kink."""

from __future__ import annotations

from typing import Any

from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.atoms import Smoothness, traits_of


def kinks(part: Any, ids: set[int]) -> list[Any]:
    """The outermost atoms with a kink that hold one of the variables."""
    found: dict[int, Any] = {}
    _collect(part, ids, found)
    return list(found.values())


def _collect(part: Any, ids: set[int], found: dict[int, Any]) -> None:
    if not part.args:
        return
    waiting = list(part.args)
    if not isinstance(part, Constraint):
        if part.is_constant():
            return
        # Which variables an atom holds is asked of kinked ones only: it takes a walk through all of it.
        if is_kinked(part):
            if any(variable.id in ids for variable in part.variables()):
                found[id(part)] = part
            return
        first = waiting[0]
        if is_kinked(first) and traits_of(part).flattens_kink(part):
            if traits_of(first).is_kink_at_zero(first):
                waiting = [*first.args, *waiting[1:]]
    for argument in waiting:
        _collect(argument, ids, found)


def is_kinked(part: Any) -> bool:
    """Whether an expression is an atom with a kink; what its arguments are is not asked."""
    if not part.args or part.is_constant():
        return False
    return traits_of(part).smoothness(part) is Smoothness.KINKED
