"""Where an expression is not smooth: its atoms with a kink."""

from __future__ import annotations

from typing import Any

import numpy as np
from cvxpy.atoms.cummax import cummax
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.elementwise.maximum import maximum
from cvxpy.atoms.elementwise.minimum import minimum
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.max import max as max_atom
from cvxpy.atoms.min import min as min_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.atoms.quad_over_lin import quad_over_lin
from cvxpy.atoms.sum_largest import sum_largest

# Atoms with kinks among those that can be compiled.
_KINKED = (
    *(abs_atom, norm1, norm_inf, Pnorm, PnormApprox, maximum, minimum, max_atom, min_atom),
    *(sum_largest, cummax),
)


def kinks(part: Any, ids: set[int]) -> list[Any]:
    """The outermost atoms with a kink that hold one of the variables."""
    if not any(variable.id in ids for variable in part.variables()):
        return []
    if isinstance(part, _KINKED):
        return [part]
    waiting = list(part.args)
    if _smooths(part) and _is_kink_at_zero(waiting[0]):
        waiting = [*waiting[0].args, *waiting[1:]]
    found: dict[int, Any] = {}
    for argument in waiting:
        found |= {id(kink): kink for kink in kinks(argument, ids)}
    return list(found.values())


def _smooths(part: Any) -> bool:
    """Whether an atom flattens the kink at zero of its first argument."""
    if isinstance(part, Power | PowerApprox):
        return part.p.value is not None and part.p.value >= 2
    return isinstance(part, quad_over_lin)


def _is_kink_at_zero(part: Any) -> bool:
    """Whether the atom is smooth but where its value is zero: |u|, |u|_2, max(u, 0), min(u, 0)."""
    if isinstance(part, maximum | minimum):
        values = [argument.value for argument in part.args if argument.is_constant()]
        return len(part.args) == 2 and any(v is not None and not np.any(v) for v in values)
    if isinstance(part, Pnorm | PnormApprox):
        return bool(part.p == 2)
    return isinstance(part, abs_atom)
