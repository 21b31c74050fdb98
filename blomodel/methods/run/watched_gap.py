"""The lower gap of the point that a compiled loop moves, measured now and then."""

from __future__ import annotations

import math

from blomodel.basics import limits
from blomodel.methods.run.run import Run


def watched_gap(run: Run, count: int) -> dict[str, float]:
    """Lower gap of the watched point, or its violation where that is larger; often nothing.

    Measured after numbers of iterations that grow by a quarter, and only where a lower answer is
    cheap and proven. These numbers do not depend on the clock: each lower solve starts from the last
    one, and a busy machine shall give the same answer as an idle one.

    Parameters
    ----------
    count : int
        Iterations since the last step.
    """
    done = run.iterations + count
    if run.watched is None or done < run.next_gap:
        return {}
    if not limits.FEW_LOOKS.allows(run.model.g.n_products):
        return {}
    run.next_gap, model = math.ceil(1.25 * done), run.model
    if not limits.MEASURED_GAP.allows(model.lower_size) or not model.is_convex_below:
        return {}
    x, y = run.watched
    answer, is_proven = run.solve_lower(x, y)
    if not answer.status.has_point or not is_proven:
        return {}
    gap = (float(model.g(x, y, run.p)[0]) - answer.value) / (1 + abs(answer.value))
    return {"gap": max(gap, run.violation(x, y))}
