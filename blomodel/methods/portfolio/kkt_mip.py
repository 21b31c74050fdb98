"""Global optimum and bound: branch and bound on the lower level's complementarity pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blomodel.errors import ModelError
from blomodel.methods.portfolio.auto import StartSearch, search_until_agreement
from blomodel.methods.portfolio.equivalent import search_without_kinks
from blomodel.methods.requirements.needs import Need, check_needs
from blomodel.methods.run.parallel import Task
from blomodel.methods.run.registry import method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import find_starts
from blomodel.methods.search.pieces import ExactPieces
from blomodel.methods.search.spatial import SpatialTree
from blomodel.reformulations.forms.duality_rows import with_duality_rows
from blomodel.reformulations.forms.pieces import convex_objective

FEW_PAIRS = 12  # up to this many the tree is faster than a search for a first point
FIRST_STARTS = 6  # searches for a first point where boxes are divided


def linear_or_quadratic_lower(run: Run, method: Any) -> None:
    """A lower level whose multipliers always exist: affine rows and a quadratic objective in y."""
    model = run.model
    if not model.has_smooth_kkt or model.lower_program.kind not in ("LP", "QP"):
        raise ModelError(
            f"{method.name} needs a lower level that is an LP or a convex QP in y at fixed x, but it is "
            f"{model.lower_program.kind}: {model.lower_program.reason}; use auto."
        )
    if model.own_pairs is not None and not has_exact_pieces(run):
        raise ModelError(
            f"{method.name} takes multipliers of the lower level in the upper one only where all rows "
            "are affine and the upper objective is linear or convex quadratic in them; use auto."
        )
    if model.upper_in.spectral:
        raise ModelError(f"{method.name} takes no matrix inequalities in the upper level; use auto.")


def has_exact_pieces(run: Run) -> bool:
    """Whether the KKT conditions are linear and f is convex on them, so that no box is needed."""
    return run.model.has_linear_kkt and convex_objective(run.model, run.p) is not None


@method
@dataclass(frozen=True, kw_only=True)
class KktMip:
    """Solve LP and convex QP lower levels to global optimality.

    The lower level is replaced by its KKT conditions. Of every pair "row tight or multiplier zero"
    the tree tries both sides, so no bound on the multipliers (no "big M") is asked for or assumed.
    A node drops the complementarity of the pairs not yet decided: a linear program, solved by HiGHS
    from its parent's basis, or a convex quadratic one. Rows that follow from strong duality keep
    answers and multipliers together where complementarity is dropped. Products of x, y and
    multipliers, and other nonlinear terms, are enclosed by linear ones over boxes, which the tree then
    divides too. At a time limit the best point and the bound so far are returned.
    """

    name: ClassVar[str] = "kkt-mip"
    summary: ClassVar[str] = "branch and bound on the complementarity pairs of the KKT conditions"
    assumes: ClassVar[str] = (
        "lower level LP or convex QP in y; bounds for what occurs in products and nonlinear terms"
    )
    claims: ClassVar[str] = "the global optimum, proved by a bound"
    reference: ClassVar[str] = (
        "Bard and Moore (1990); Kleinert, Labbé, Plein and Schmidt (2021); "
        "HiGHS: Huangfu and Hall (2018)"
    )
    needs: ClassVar[tuple[Need, ...]] = (linear_or_quadratic_lower,)

    gap: float = setting(
        1e-8,
        "relative difference of value and bound at which the point is optimal",
        minimum=0.0,
        own=True,
    )
    max_nodes: int | None = setting(None, "relaxations to solve; None: no limit", minimum=1, own=True)

    def run(self, run: Run) -> None:
        """Look for a good point first, where there are many pairs, then branch."""
        check_needs(run, self)
        search_without_kinks(run, self._branch)

    def _branch(self, run: Run) -> None:
        max_nodes = np.inf if self.max_nodes is None else self.max_nodes
        if not has_exact_pieces(run):
            self._divide_boxes(run, max_nodes)
            return
        exact = ExactPieces(run)
        if run.model.n_pairs > FEW_PAIRS and run.model.x.size:
            exact = self._search_first(run, exact)
            if run.is_infeasible:
                return
            exact.qp = with_duality_rows(exact.qp, run.model, run.p)
        exact.solve_globally(
            run,
            node_limit=max_nodes,
            time_limit=run.remaining,
            gap=self.gap,
        )
        if run.best() is not None and np.isfinite(run.bound):
            run.note(f"{run.bound_source}; no feasible point lies below {run.bound:.9g}")

    def _divide_boxes(self, run: Run, max_nodes: float) -> None:
        starts = find_starts(run, FIRST_STARTS)
        if run.is_infeasible:
            return
        search_until_agreement(StartSearch(run), starts)
        # Boxes close the error quadratically, so that the last digits would cost most of the time.
        SpatialTree(run, gap=max(self.gap, run.tolerance / 3), max_nodes=max_nodes).search()

    def _search_first(self, run: Run, exact: ExactPieces) -> ExactPieces:
        search = StartSearch(run)
        for start in find_starts(run, 1)[:1]:
            search(Task(*start, is_first=True))
        return search.exact or exact
