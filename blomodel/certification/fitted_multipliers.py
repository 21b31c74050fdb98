"""Lower multipliers from the slopes at an answer, where these settle them: nothing is solved again."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from blomodel.certification.factor import Factor
from blomodel.certification.surroundings import TIGHT
from blomodel.model.model import Model

BALANCED = 1e-7  # slope of g that multipliers leave, relative to its largest entry
CLEAR = 1e-4  # slack of a loose row and multiplier of a tight one, relative, that nothing puts in doubt


def fit_multipliers(model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The only multipliers with which tight rows balance the slope of g; None where there are not one.

    Where the gradients of the tight rows are independent, least squares tell them: for entries that are
    fixed at zero, as on the manifold of a norm, each is what the slope leaves there. A row that hardly
    presses, or is hardly loose, is left to a solver, whose multipliers show how near a tie is.
    """
    below, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    size = abs(sp.csr_array(sp.hstack([below.in_x, below.in_y])))
    reach = np.zeros(len(below.value))
    if size.nnz:
        spread = size @ sp.diags_array(1 + np.abs(np.concatenate([x, y])))
        reach = np.asarray(sp.csr_array(spread).max(axis=1).toarray()).ravel()
    slack = -below.value / np.maximum(reach, 1e-300)
    active = np.flatnonzero(slack <= TIGHT)
    if np.any((slack > TIGHT) & (slack < CLEAR)):
        return None
    gradients = sp.csr_array(sp.vstack([below.in_y[active], equal.in_y]))
    slope = model.g_grad(x, y, p)[x.size :]
    if not (np.all(np.isfinite(gradients.data)) and np.all(np.isfinite(slope))):
        return None
    factor = Factor.of(sp.csr_array(gradients @ gradients.T))
    if factor is None:
        return None
    found = -factor.solve(gradients @ slope)
    found -= factor.solve(gradients @ (slope + gradients.T @ found))  # what squaring has cost in digits
    scale = np.abs(slope).max(initial=0.0)
    if np.abs(slope + gradients.T @ found).max(initial=0.0) > BALANCED * scale:
        return None
    if found[: len(active)].min(initial=np.inf) < CLEAR * scale:
        return None
    multipliers = np.zeros(model.n_lower_rows)
    multipliers[active] = found[: len(active)]
    multipliers[len(below.value) :] = found[len(active) :]
    return multipliers
