"""Random search over the box of x, with the lower problem solved at each point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run
from blomodel.methods.search import BATCH, Search


@method
@dataclass(frozen=True, kw_only=True)
class RandomSearch:
    """Independent uniform points in the box, the start among them."""

    name: ClassVar[str] = "random-search"
    summary: ClassVar[str] = "f at the lower answer at uniformly random x"
    assumes: ClassVar[str] = "a lower level that can be solved at fixed x"
    claims: ClassVar[str] = "the best of the points looked at"
    reference: ClassVar[str] = (
        "Bergstra and Bengio, Random search for hyper-parameter optimization (JMLR 2012)"
    )
    allows_nonconvex_lower: ClassVar[bool] = True

    n_points: int = setting(2000, "points to look at", minimum=1)

    def run(self, run: Run) -> None:
        """Search; the points seen until a limit is reached count."""
        search = Search(run, self.name)
        low, high = search.box()
        random = np.random.default_rng(run.seed)
        try:
            for begin in range(0, self.n_points, BATCH):  # drawing all at once takes seconds
                count = min(BATCH, self.n_points - begin)
                points = low + random.random((count, low.size)) * (high - low)
                if begin == 0 and run.start is not None:
                    points[0] = np.clip(run.start[0], low, high)
                search.evaluate(points)
        finally:
            search.finish()
