"""One level of a model in words and formulas: what it minimises, over what, subject to what."""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.text.mathematics import plain


def level(
    objective: cp.Minimize | cp.Maximize,
    variables: Sequence[cp.Variable],
    constraints: Sequence[Constraint],
) -> str:
    """A line for the objective, one for the variables, and one for each constraint."""
    sense = "maximise" if isinstance(objective, cp.Maximize) else "minimise"
    declared = ", ".join(declaration(variable) for variable in variables)
    text = [
        f"{sense:<10}  {plain(objective.args[0])}",
        f"{'over':<10}  {declared or 'nothing'}",
    ]
    for k, item in enumerate(constraints):
        text.append(f"{'subject to' if k == 0 else '':<10}  {plain(item)}")
    return "\n".join(text)


def declaration(variable: cp.Variable) -> str:
    """Name, shape and declared attributes, e.g. ``x (10, nonneg)``."""
    notes = ["x".join(str(length) for length in variable.shape)] if variable.shape else []
    notes += [name for name, value in variable.attributes.items() if value is True]
    if variable.attributes.get("bounds") is not None:
        notes.append("bounds")
    return f"{variable.name()} ({', '.join(notes)})" if notes else str(variable.name())
