"""Where an expression is not smooth: its atoms with a kink."""

from __future__ import annotations

from typing import Any

from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.atoms import Smoothness, traits_of


def kinks(part: Any, ids: set[int]) -> list[Any]:
    """The outermost atoms with a kink that hold one of the variables."""
    if not any(variable.id in ids for variable in part.variables()) or not part.args:
        return []
    waiting = list(part.args)
    if not isinstance(part, Constraint):
        if is_kinked(part):
            return [part]
        first = waiting[0]
        if traits_of(part).flattens_kink(part) and is_kinked(first):
            if traits_of(first).is_kink_at_zero(first):
                waiting = [*first.args, *waiting[1:]]
    found: dict[int, Any] = {}
    for argument in waiting:
        found |= {id(kink): kink for kink in kinks(argument, ids)}
    return list(found.values())


def is_kinked(part: Any) -> bool:
    """Whether an expression is an atom with a kink; what its arguments are is not asked."""
    if not part.args or part.is_constant():
        return False
    return traits_of(part).smoothness(part) is Smoothness.KINKED
