"""Atoms written out by their definitions, for passes that do not know the atoms themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cvxpy as cp

from blomodel.compiler.atoms import TRAITS
from blomodel.compiler.expressions.rewriting import rewrite


def write_out(expression: cp.Expression, is_known: Callable[[cp.Expression], bool]) -> cp.Expression:
    """The expression with the definitions of its atoms in the place of those that are not known."""

    def definition(part: cp.Expression) -> Callable[[cp.Expression], cp.Expression] | None:
        traits = TRAITS.get(type(part))
        return None if traits is None or is_known(part) else traits.definition

    def replace(part: cp.Expression) -> cp.Expression | None:
        define = definition(part)
        return None if define is None else write_out(define(part), is_known)

    if any(definition(part) is not None for part in _parts(expression)):
        return rewrite(expression, replace)
    return expression


def _parts(expression: cp.Expression) -> Iterator[cp.Expression]:
    """Every part once, however often it is used: derivatives use the same parts again and again."""
    seen: set[int] = set()
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += part.args
