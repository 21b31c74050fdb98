"""Start points for a search that looks for the best solution, not the nearest."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from blomodel.basics import limits
from blomodel.errors import NonconvexLowerError
from blomodel.methods.run.run import Run
from blomodel.methods.run.scales import find_scales
from blomodel.model.model import Model
from blomodel.solvers.answer import InnerStatus

DECADES = 50.0  # ratio of bounds from which a variable is spread by its logarithm
EDGE = 0.05  # share of a range that the outermost starts keep from its ends
FINE_POWER = 4.0  # of a share of a range that begins at zero

HIGH_POINT = "the high-point relaxation (both levels' constraints alone)"

Start = tuple[np.ndarray, np.ndarray]  # x and y, as vectors of the model


def relaxed_solution(run: Run) -> Start | None:
    """Minimise the upper objective over both levels' constraints; its value bounds every answer."""
    return run.once(HIGH_POINT, lambda: _relaxed_solution(run))


def _relaxed_solution(run: Run) -> Start | None:
    model, n_x = run.model, run.model.x.size
    try:
        answer = model.relaxation_program.solve(np.empty(0), run.p)
    except NonconvexLowerError:
        return None
    if answer.status is InnerStatus.INFEASIBLE:
        run.is_infeasible = True
        run.note("no point satisfies the constraints of both levels together")
    parts = [model.f_expression, *model.upper_constraints, *model.lower_constraints]
    is_bound = answer.status is InnerStatus.OPTIMAL and model.unproven_domain(parts) is None
    if is_bound:
        run.raise_bound(answer.value, HIGH_POINT)
    if not answer.status.has_point:
        return None
    return answer.y[:n_x], answer.y[n_x:]


def nearest_allowed(run: Run, x: np.ndarray) -> Start | None:
    """The point nearest to x at which both levels' constraints hold."""
    model, n_x = run.model, run.model.x.size
    try:
        answer = model.projection_program.solve(np.empty(0), np.concatenate([run.p, x]))
    except NonconvexLowerError:
        return _clip(model, run.p, x)
    if answer.status is InnerStatus.INFEASIBLE:
        run.is_infeasible = True
        run.note("no point satisfies the constraints of both levels together")
    if not answer.status.has_point:
        return None
    return answer.y[:n_x], answer.y[n_x:]


def _clip(model: Model, p: np.ndarray, x: np.ndarray) -> Start:
    """Without convex constraints only the bounds on x can be met for certain."""
    return np.clip(x, *model.bounds(p)), np.zeros(model.y.size)


def find_starts(run: Run, count: int) -> list[Start]:
    """The user's point, the relaxed solution, and points spread over the range of x."""
    wishes: list[np.ndarray] = []
    starts: list[Start] = []
    if run.start is not None:
        wishes.append(run.start[0])
    relaxed = relaxed_solution(run)
    if run.is_infeasible:
        return []
    if relaxed is not None:
        starts.append(relaxed)
    center = wishes[0] if wishes else (relaxed[0] if relaxed else np.zeros(run.model.x.size))
    wishes += spread(run.model.bounds(run.p), center, count - len(wishes) - len(starts), run.seed)
    for wish in wishes:
        run.check_limits()
        start = nearest_allowed(run, wish)
        if run.is_infeasible:
            return []
        if start is not None and not _is_known(start, starts):
            starts.append(start)
    return starts


def further_starts(run: Run, first: int, last: int) -> list[Start]:
    """Points spread over the range of x, from the first to before the last of one endless sequence."""
    best = run.best()
    center = np.zeros(run.model.x.size) if best is None else best.x
    starts: list[Start] = []
    for wish in spread(run.model.bounds(run.p), center, last, run.seed)[first:]:
        run.check_limits()
        start = nearest_allowed(run, wish)
        if start is not None and not _is_known(start, starts):
            starts.append(start)
    return starts


def _is_known(point: Start, known: list[Start]) -> bool:
    scale = 1e-6 * (1 + np.abs(point[0]).max(initial=0))
    return any(np.abs(point[0] - other[0]).max(initial=0) <= scale for other in known)


@lru_cache(maxsize=8)
def _halton(dimension: int, seed: int, count: int) -> np.ndarray:
    """The first points of a Halton sequence; random ones where it has too many dimensions."""
    rng = np.random.default_rng(seed)
    if not limits.HALTON_SEQUENCE.allows(dimension):
        return rng.random((count, dimension))
    from scipy.stats import qmc

    return qmc.Halton(dimension, rng=rng).random(count)


def spread(
    bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray, count: int, seed: int
) -> list[np.ndarray]:
    """Points of a Halton sequence in the box; an open side is closed at some distance from center.

    Half of them are spread over orders of magnitude, where a range spans some.
    """
    if count <= 0:
        return []
    low, high = _closed_range(bounds, center)
    middle = (low + high) / 2
    if count == 1:
        return [middle]
    sample = _halton(len(center), seed, count - 1)
    points = low + sample * (high - low)
    # One of each pair, drawn: Halton points alternate between the halves of the range.
    drawn, number = np.random.default_rng(seed).random(count), np.arange(count - 1)
    half = (drawn[number // 2] < 0.5) == (number % 2 == 0)
    for column, scale in enumerate(find_scales((low, high), center)):
        if np.isfinite(bounds[0][column]) and np.isfinite(bounds[1][column]):
            points[half, column] = scale.by_magnitude(sample[half, column])
    return [middle, *points]


def has_only_bounds(run: Run) -> bool:
    """Whether the upper rows are nothing but bounds on single variables."""
    return run.model.has_only_upper_bounds(run.p)


def project_onto_x(run: Run, x: np.ndarray) -> np.ndarray:
    """The nearest point of X; where X is more than bounds, of the x that both levels' rows allow."""
    if has_only_bounds(run):
        return np.clip(x, *run.model.bounds(run.p))
    nearest = nearest_allowed(run, x)
    return x if nearest is None else nearest[0]


def _closed_range(
    bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds, an open side closed at some distance from center."""
    reach = 5.0 * (1 + np.abs(center))
    lower, upper = bounds
    low = np.where(np.isfinite(lower), lower, np.minimum(center, upper) - reach)
    high = np.where(np.isfinite(upper), upper, np.maximum(center, lower) + reach)
    return low, high


def _at_shares(
    bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray, shares: np.ndarray, is_fine: np.ndarray
) -> np.ndarray:
    """Points at shares of the range: of its logarithm where it spans decades.

    Where a range begins at zero, or is wide on one side of it, no decade is the first: then ``is_fine``
    points take a power of the share, so that small values are met too.
    """
    low, high = _closed_range(bounds, center)
    points = low + shares * (high - low)
    spans = (low > 0) & (high > DECADES * low)
    ratio = np.where(spans, high, 1.0) / np.where(spans, low, 1.0)
    points = np.where(spans, np.where(spans, low, 1.0) * ratio**shares, points)
    mirrored = (high < 0) & (low < DECADES * high)
    ratio = np.where(mirrored, low, 1.0) / np.where(mirrored, high, 1.0)
    points = np.where(mirrored, np.where(mirrored, high, 1.0) * ratio ** (1 - shares), points)
    from_zero = low == 0
    return np.where(from_zero & is_fine[:, None], high * shares**FINE_POWER, points)


def spread_by_scale(
    bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray, count: int, seed: int
) -> list[np.ndarray]:
    """Points of a Halton sequence in the box, by logarithms where the bounds span decades."""
    if count <= 0:
        return []
    sample = _halton(len(center), seed, count)
    return list(_at_shares(bounds, center, sample, np.arange(count) % 2 == 1))


def diagonal(
    bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray, count: int, level: int
) -> list[np.ndarray]:
    """Points at which all variables stand at the same share of their range, finer at each level.

    In many dimensions scattered points all look alike; these differ in what often matters most, whether
    the variables are small or large together.
    """
    parts = (count - 1) * 2**level
    numbers = np.arange(parts + 1) if level == 0 else np.arange(1, parts, 2)
    shares = EDGE + (1 - 2 * EDGE) * numbers / parts
    shares = shares[np.argsort(np.abs(shares - 0.5), kind="stable")]  # the middle first
    sample = np.repeat(shares[:, None], len(center), axis=1)
    return list(_at_shares(bounds, center, sample, np.zeros(len(shares), bool)))
