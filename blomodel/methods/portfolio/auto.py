"""The automatic method: no step size, penalty weight or iteration count from the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.portfolio.effort import Effort
from blomodel.methods.portfolio.plan import Plan, make_plan
from blomodel.methods.run.capabilities import WITH_INTEGERS, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.model.model import Model


@method
@dataclass(frozen=True, kw_only=True)
class Auto:
    """Choose by structure, try several ideas with growing effort, keep the best point at once.

    Independent problems are split, zero-sum ones become one convex program. Where the KKT conditions
    are linear, branch and bound over their pieces proves optimality. Other members are descent on
    phi(x) = f(x, y*(x)) with implicit gradients, a sample of phi in few dimensions, relaxed
    complementarity by IPOPT, descent on the smoothed lower level, the reduced penalty, the single loop
    of meha for norms, and value-cuts for lower levels that are not convex. Sizes decide their order and
    how much each may do. Absolute values, maxima and the like get variables of their own where that
    makes f quadratic and the KKT conditions linear.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = (
        "several kinds of search with growing effort, by structure; proofs by trees and duality"
    )
    assumes: ClassVar[str] = "nothing; lower levels that are not convex go to value-cuts"
    claims: ClassVar[str] = "what the certificate proves, up to global optimality"
    reference: ClassVar[str] = "the methods it calls; pieces: Bard and Moore (1990)"
    costs: ClassVar[str] = "chosen by structure; see the methods it calls"
    capabilities: ClassVar[frozenset[Capability]] = WITH_INTEGERS
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = ()

    n_starts: int | None = setting(None, "number of start points; None: by dimension", minimum=1)

    effort: str = setting(
        "normal",
        "how long to go on without a proof",
        choices=("quick", "normal", "thorough"),
        own=True,
    )

    def plan(self, model: Model, p: np.ndarray) -> Plan:
        """What is tried on a model, in which order and why."""
        return make_plan(model, p, self.n_starts, Effort(self.effort))

    def run(self, run: Run) -> None:
        """Run the plan."""
        self.plan(run.model, run.p).run(run)
