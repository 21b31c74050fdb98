"""Grid search over the box of x, with the lower problem solved at each point."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.needs import check_needs
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run
from blomodel.methods.search import Search


@method
@dataclass(frozen=True, kw_only=True)
class GridSearch:
    """A regular grid, then finer ones around its best point."""

    name: ClassVar[str] = "grid-search"
    summary: ClassVar[str] = "f at the lower answer on a grid of x, refined around the best"
    assumes: ClassVar[str] = "few upper variables; a lower level that can be solved at fixed x"
    claims: ClassVar[str] = "the best of the points looked at"
    reference: ClassVar[str] = (
        "baseline of hyper-parameter tables; see Bergstra and Bengio, Random search for "
        "hyper-parameter optimization (JMLR 2012)"
    )
    allows_nonconvex_lower: ClassVar[bool] = True

    n_points: int = setting(400, "points of each grid, over all variables together", minimum=2)
    refinements: int = setting(6, "finer grids around the best point", minimum=0)

    def run(self, run: Run) -> None:
        """Search; the points seen until a limit is reached count."""
        check_needs(run, self)
        search = Search(run, self.name)
        low, high = search.box()
        per_side = int(self.n_points ** (1 / low.size) + 1e-9)
        first, last = low, high
        try:
            for _ in range(self.refinements + 1):
                sides = [np.linspace(a, b, per_side) for a, b in zip(first, last, strict=True)]
                search.evaluate(np.array(list(itertools.product(*sides))))
                if not search.best:
                    break
                center, cell = search.best[0][1], (last - first) / (per_side - 1)
                # Half the range at least: a coarse grid may have missed the cell of the minimum.
                reach = np.minimum(np.maximum(1.5 * cell, 0.02 * (last - first)), (last - first) / 3)
                first, last = np.maximum(center - reach, low), np.minimum(center + reach, high)
                if np.all(last - first <= 1e-9 * (1 + np.abs(center))):
                    break
        finally:
            search.finish()
