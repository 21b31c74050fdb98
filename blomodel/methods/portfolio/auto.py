"""The automatic method: no step size, penalty weight or iteration count from the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.portfolio.effort import Effort
from blomodel.methods.portfolio.plan import Plan, make_plan
from blomodel.methods.run.capabilities import EVERYTHING, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.model.model import Model


@method
@dataclass(frozen=True, kw_only=True)
class Auto:
    """Choose by structure, search from several starts, polish, keep the best point.

    Lower levels that are not convex go to value-cuts. Small problems whose KKT conditions are linear
    are solved by branch and bound over the pieces, which proves optimality. Larger ones of this kind
    descend on the smoothed lower level; cone programs that are smooth but for norms take the single
    loop of meha, all others follow the reduced penalty, from several starts; each end is improved on
    the KKT pieces. Where that finds nothing, value-cuts is tried. Absolute values, maxima and the like
    get variables of their own where that makes f quadratic and the KKT conditions linear.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = (
        "smoothed lower level or reduced penalty from several starts, polished on the KKT pieces"
    )
    assumes: ClassVar[str] = "nothing; lower levels that are not convex go to value-cuts"
    claims: ClassVar[str] = "what the certificate proves, up to global optimality"
    reference: ClassVar[str] = "reduced penalty as in reduced-penalty; pieces: Bard and Moore (1990)"
    costs: ClassVar[str] = "chosen by structure; see the methods it calls"
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
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
