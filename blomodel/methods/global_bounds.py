"""Global optimum and bound of every problem that can be written down for SCIP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from blomodel.errors import MissingPackageError, ModelError
from blomodel.methods.run.capabilities import WITH_INTEGERS, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.search.bounding import Bounding
from blomodel.reformulations.forms.bounding import why_no_bounds
from blomodel.solvers.branching.scip import is_installed

PROGRAMS_OF_A_NODE = 100  # on average, where nodes are limited: SCIP may add weak cuts without end


def formulas_for_scip(run: Run, method: Any) -> None:
    """Functions and rows for which SCIP has words."""
    if not is_installed():
        raise MissingPackageError(f"{method.name} needs SCIP; run pip install pyscipopt.")
    reason = why_no_bounds(run.model)
    if reason is not None:
        raise ModelError(f"{method.name} cannot state this problem for SCIP: {reason}; use auto.")


@method
@dataclass(frozen=True, kw_only=True)
class GlobalBounds:
    """Close in on the optimum from both sides, whatever the lower level's curvature.

    From below: SCIP minimises f over both levels' constraints and conditions that every lower
    minimiser satisfies, by branch and bound on pairs of row and multiplier and on boxes. From above: at
    the x found the lower level is solved globally, and of its minimisers the best one for f is taken. A
    relaxed point that the lower level would leave is cut off: for the lower point y_k that is better,
    either a lower row excludes y_k at x, or g(x, y) <= g(x, y_k).
    """

    name: ClassVar[str] = "global"
    summary: ClassVar[str] = "spatial branch and bound on optimality conditions and value cuts, by SCIP"
    assumes: ClassVar[str] = "bounds on the variables of nonlinear terms, without which bounds may fail"
    claims: ClassVar[str] = "the global optimum, proved by a bound"
    reference: ClassVar[str] = "Mitsos, Lemonidis and Barton (2008); SCIP: Bolusani et al. (2024)"
    costs: ClassVar[str] = "one global nonlinear program and a few lower ones for each round"
    capabilities: ClassVar[frozenset[Capability]] = WITH_INTEGERS - {Capability.MATRIX_INEQUALITIES}
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (formulas_for_scip,)

    max_nodes: int | None = setting(None, "nodes of the tree; None: no limit", minimum=1, own=True)

    def run(self, run: Run) -> None:
        """Bound and cut until value and bound meet, or a limit is reached."""
        bounding = Bounding(run, run.optimality_gap)
        if run.start is not None:
            x, y = run.start
            below, _ = run.solve_lower(x, y if y is not None else 0.0 * run.model.y_bounds[0])
            if below.has_point:
                run.propose(x, below.y, "lower answer at the start")
        nodes = math.inf if self.max_nodes is None else self.max_nodes
        bounding.go_on(run, nodes, PROGRAMS_OF_A_NODE * nodes)
        if math.isfinite(run.bound):
            run.note(f"{run.bound_source}; no feasible point lies below {run.bound:.9g}")
