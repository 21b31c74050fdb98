"""The nearest x of X, for methods that ask a solver for the lower answer at each x."""

from __future__ import annotations

import numpy as np

from blomodel.methods.reduced_penalty import has_only_bounds
from blomodel.methods.run import Run
from blomodel.methods.starts import nearest_allowed


def project_onto_x(run: Run, x: np.ndarray) -> np.ndarray:
    """The nearest point of X; where X is more than bounds, of the x that both levels' rows allow."""
    if has_only_bounds(run):
        return np.clip(x, *run.model.bounds(run.p))
    nearest = nearest_allowed(run, x)
    return x if nearest is None else nearest[0]
