"""How much of a time limit to keep for the certificate: what it will need, from what was measured."""

from __future__ import annotations

import time

import numpy as np

from blomodel.basics.memory import remembered
from blomodel.model.model import Model

OVERHEAD = 0.03  # seconds that cvxpy takes for the smallest problem
EACH = 4e-5  # seconds for each lower variable and row: canonicalisation and derivatives
EACH_ENTRY = 1e-6  # seconds for each number in the lower rows, which cvxpy copies several times
LOCAL = 2e-4  # the same for the tests of the neighbourhood
PRODUCT = 1e-9  # seconds for each multiplication in f and g, where they are too few to be measured
HESSIANS, COLUMN = 2, 1.5  # of the lower level, and what a column takes beside the slopes
LOOKS = 10  # evaluations of f and g, and of their slopes
SOLVERS = 4  # for a lower level with integers, in units of the overhead
SOLVES = 2.0  # lower solves with tight tolerances, two of which are asked for, against one measured


def certificate_reserve(model: Model, lower_seconds: float, load: float = 1.0) -> float:
    """Seconds that the certificate of one point will take: a lower solve of its own and local tests.

    Parameters
    ----------
    model : Model
    lower_seconds : float
        What a lower solve from scratch has taken in this run.
    load : float
        Time that passes for each second of work, on a machine that others use too.
    """
    if model.integer_y.any():  # stated to HiGHS first, then to SCIP, which both are slow to start
        return (SOLVERS * OVERHEAD + SOLVES * lower_seconds) * min(max(load, 1.0), 5.0)
    if not model.is_convex_below:
        return OVERHEAD + lower_seconds  # the certificate searches from as many starts
    tests = local_seconds(model) + LOOKS * _evaluation(model)
    return lower_reserve(model, lower_seconds, load) + tests * min(max(load, 1.0), 5.0)


def lower_reserve(model: Model, lower_seconds: float, load: float = 1.0) -> float:
    """The part of it without which no point can be kept: the lower level of a convex model once more."""
    size = model.x.size + model.lower_size
    entries = sum(rows.tape.n_products for rows in (model.lower_in, model.lower_eq) if rows.tape)
    stated = OVERHEAD + EACH * size + EACH_ENTRY * entries
    solves = SOLVES + 1 if model.has_dear_curvatures else SOLVES
    # Hundreds of norms or exponentials cost cvxpy more than their size tells; the load is in the figure.
    again = model.lower_program.seconds_of_stating if model.is_convex_below else 0.0
    return stated * min(max(load, 1.0), 5.0) + again + solves * lower_seconds


def local_seconds(model: Model) -> float:
    """Roughly what the tests of a point's neighbourhood take: derivatives, a sparse factor, products."""
    if model.has_dear_curvatures:
        return 0.0  # those by products take about as long as a lower solve
    work = 3 * OVERHEAD + LOCAL * (model.x.size + model.lower_size)
    return work + HESSIANS * COLUMN * min(model.y.size, model.n_curvatures) * _evaluation(model)


@remembered
def _evaluation(model: Model) -> float:
    """Seconds for the slopes of both objectives: by the products in them, or measured where these count.

    Memory of one machine is many times as slow as that of another, and functions of long vectors take as
    long as products. A file is not read for that.
    """
    told = PRODUCT * (model.f.n_products + model.g.n_products)
    slopes = (model.f_grad, model.g_grad)
    if LOOKS * told <= OVERHEAD or any(slope.pieces is not None for slope in slopes):
        return told
    measured = 0.0
    for slope in slopes:
        at = [np.zeros(size) for size in slope.input_sizes]
        _ = slope.machinery  # made before the clock runs
        began = time.perf_counter()
        slope(*at)
        measured += time.perf_counter() - began
    return measured
