"""An independent check of a bilevel answer, from the model as the user wrote it.

Objective and constraints are evaluated by cvxpy itself, and the lower level's optimal value comes
from a separate solve (cvxpy's own canonicalisation, Clarabel, tight tolerances), not from the
compiled functions that the methods use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from blomodel.status import Status


@dataclass(frozen=True)
class Certificate:
    """What was checked about a point, and the claim that follows.

    Attributes
    ----------
    claim : Status
        The strongest status that the checks support.
    accepted : bool
        Whether the point is feasible above and optimal below, within ``tolerance``.
    objective : float
        Upper objective in the user's sense.
    upper_violation, lower_violation : float
        Largest violation of a constraint of the level, relative to 1 + the largest entry of the
        variables in that constraint.
    lower_value : float
        v(x): the lower level's optimal value at x, in the user's sense.
    lower_gap : float
        How much better the lower level could do, relative to 1 + abs(v(x)), or to how much g varies
        with y where that is less.
    lower_is_unique : bool or None
        Whether the lower minimiser looks unique; None: not known.
    stationarity : float or None
        Largest relative first-order decrease of f over the pieces that meet here; None: not known.
    bound : float or None
        No bilevel feasible point has a better upper objective than this.
    bound_source : str
        What the bound rests on; where there is none, why.
    bound_slack : float
        Relative to 1 + abs(bound): what was taken off it for the tolerances of what computed it.
    bound_is_recomputed : bool
        Whether the certificate has computed it from the model; else it is as the method reported it.
    gap : float or None
        How far objective and bound are apart, relative to 1 + abs(bound); None: not known.
    optimality_gap : float
        ``gap`` up to which the claim is that the point is optimal.
    multipliers : dict
        Lower constraints' multipliers at x, by position.
    follower_gaps : dict
        With several followers: each one's own lower gap, by its name.
    reasons : tuple of str
        Why the claim is what it is.
    tolerated_objective : tuple of float or None
        The least and the largest upper objective over the lower answers at x that the tolerance
        allows; None: not known.
    tolerated_by : str
        How these two were found.
    descent : array or None
        A move of the upper variables, flattened, along which f seems to improve.
    y : array or None
        The lower answer that the certificate is about, where it replaces the one that was given.
    """

    claim: Status
    accepted: bool
    objective: float
    upper_violation: float
    lower_violation: float
    lower_value: float
    lower_gap: float
    lower_is_unique: bool | None
    stationarity: float | None
    bound: float | None
    bound_source: str
    tolerance: float
    gap: float | None
    optimality_gap: float
    checked_by: str
    reasons: tuple[str, ...]
    multipliers: dict[int, np.ndarray] = field(repr=False)
    bound_slack: float = 0.0
    bound_is_recomputed: bool = False
    follower_gaps: dict[str, float] = field(default_factory=dict)
    tolerated_objective: tuple[float, float] | None = None
    tolerated_by: str = ""
    descent: np.ndarray | None = field(default=None, repr=False)
    y: np.ndarray | None = field(default=None, repr=False)

    @property
    def bound_origin(self) -> str:
        """Who computed the bound from what, and what was taken off it; why there is none."""
        if self.bound is None:
            return self.bound_source or "none is known"
        return f"from {self.bound_source}; {self.bound_trust}"

    @property
    def bound_trust(self) -> str:
        """Who computed the bound, and what was taken off it."""
        how = "recomputed" if self.bound_is_recomputed else "as reported by the method"
        off = f", with a slack of {self.bound_slack:.0e} for tolerances" if self.bound_slack else ""
        return f"{how}{off}"

    @property
    def hidden(self) -> float:
        """How much of the upper objective the tolerated lower gap can hide; zero where not known."""
        if self.tolerated_objective is None:
            return 0.0
        least, largest = self.tolerated_objective
        return largest - least

    def __str__(self) -> str:
        from blomodel.certification.certificate_text import format_certificate

        return format_certificate(self)

    def _repr_html_(self) -> str:
        from blomodel.certification.certificate_text import certificate_html

        return certificate_html(self)
