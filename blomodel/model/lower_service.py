"""Who answers the lower level at fixed x, for a person."""

from __future__ import annotations

from blomodel.model.model import Model

_KINDS = {
    "LP": "a linear program",
    "QP": "a quadratic program",
    "conic": "a cone program",
    "mixed-integer": "a mixed-integer program",
}


def describe_service(model: Model) -> str:
    """What the lower level is at fixed x, and who is asked for its answers, as a sentence."""
    below = model.lower_solver
    kind = _KINDS.get(below.kind, "not known to be convex")
    return f"At fixed x the lower level is {kind}, answered by {below.served_by}."
