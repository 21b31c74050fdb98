"""From looks at phi to its best points: brackets and ties in one dimension, patterns in few.

A tie is an x at which the lower level is indifferent between distant answers. phi jumps there, and the
better of the two answers is often the optimum, which samples only approach.
"""

from __future__ import annotations

import numpy as np

from blomodel.methods.search.phi_sample import Look, PhiSample
from blomodel.model.model import Model

FINE = 1e-10  # relative width of a bracket at which it counts as a point
BRENT_STEPS = 40
TIES = 8  # jumps of the answer followed in one call
HALVINGS = 7  # that a jump must survive
EQUAL = 1e-9  # relative difference of lower values that are the same
CLOSE = 1e-12  # rows this close to their bounds, relative to the point, are at them
SCANNED = 9, 25  # looks along a variable, evenly and over orders of magnitude
SCANNED_FINELY = 65, 49  # the same where searches that agree are doubted
APART = 0.1  # of the range: looks that are nearer are one valley


def in_order(looks: list[Look], column: int = 0) -> list[Look]:
    """Looks by increasing x."""
    return sorted(looks, key=lambda look: float(look.x[column]))


class Segment:
    """phi along a segment of x, from one look to another."""

    sample: PhiSample
    start: Look
    end: Look
    reach: np.ndarray

    def __init__(self, sample: PhiSample, start: Look, end: Look) -> None:
        self.sample, self.start, self.end = sample, start, end
        self.reach = end.x - start.x

    def at(self, share: float) -> Look:
        """The look at a share of the way."""
        if share <= 0.0:
            return self.start
        if share >= 1.0:
            return self.end
        return self.sample.look(self.start.x + share * self.reach)

    def last_allowed(self) -> Look:
        """The last look from the start on at which the upper rows hold; they do not at the end."""
        low, high = 0.0, 1.0
        at_low, at_high = self.start, self.end
        side = 0
        over_low, over_high = at_low.excess, at_high.excess
        for _ in range(60):
            width = FINE * (1 + np.abs(at_low.x).max(initial=0))
            if (high - low) * np.abs(self.reach).max(initial=0) <= width:
                break
            # Regula falsi (Illinois), and halves where an end has no finite row.
            share = (low + high) / 2
            if np.isfinite(over_low) and np.isfinite(over_high) and over_high > over_low:
                share = low + (high - low) * float(
                    np.clip(-over_low / (over_high - over_low), 0.01, 0.99)
                )
            look = self.at(share)
            if look.is_allowed:
                low, at_low, over_low = share, look, look.excess
                over_high = over_high / 2 if side > 0 else over_high
                side = 1
                if look.excess >= -CLOSE:
                    break
            else:
                high, over_high = share, look.excess
                over_low = over_low / 2 if side < 0 else over_low
                side = -1
        return at_low

    def tie(self) -> list[Look]:
        """Both answers at the x between the ends at which the lower level is indifferent, if any."""
        start, end = self._narrow()
        if start is None or end is None:
            return []
        return self._halved(start, end) if self.model.is_convex_below else self._root(start, end)

    @property
    def model(self) -> Model:
        """The model of the run."""
        return self.sample.run.model

    def _halved(self, start: Look, end: Look) -> list[Look]:
        """By halves: the answers at the tie are a face that holds the limits from both sides."""
        first, last = start, end
        for _ in range(60):
            x = (first.x + last.x) / 2
            if np.array_equal(x, first.x) or np.array_equal(x, last.x):
                break
            middle = self.sample.look(x)
            if not np.isfinite(middle.value):
                return []
            if _distance(start, middle) <= _distance(middle, end):
                first = middle
            else:
                last = middle
        pairs = ((last.x, first.y), (first.x, last.y))
        return [look for x, y in pairs if (look := self._if_answer(x, y)) is not None]

    def _root(self, start: Look, end: Look) -> list[Look]:
        """By the difference of the two valleys' values, each followed on its own."""
        model, p = self.model, self.sample.run.p

        def difference(share: float) -> tuple[float, np.ndarray, np.ndarray]:
            x = start.x + share * (end.x - start.x)
            first, second = (model.multistart.descend_from(x, p, y) for y in (start.y, end.y))
            return float(model.g(x, first, p)[0] - model.g(x, second, p)[0]), first, second

        low, high, side = 0.0, 1.0, 0
        before, after = difference(low)[0], difference(high)[0]
        if not before <= 0.0 <= after:
            return []
        share, found = 0.5, difference(0.5)
        for _ in range(60):
            if found[0] == 0.0:
                break
            if found[0] < 0.0:
                low, before = share, found[0]
                after, side = (after / 2 if side < 0 else after), -1
            else:
                high, after = share, found[0]
                before, side = (before / 2 if side > 0 else before), 1
            if high - low <= 1e-15 or not before < after:
                break
            share = low - before * (high - low) / (after - before)
            if not low < share < high:
                share = (low + high) / 2
            found = difference(share)
        x = start.x + share * (end.x - start.x)
        return [look for y in found[1:] if (look := self._if_answer(x, y)) is not None]

    def _if_answer(self, x: np.ndarray, y: np.ndarray) -> Look | None:
        """A look with this answer, where the lower level has no better one."""
        g, p, asked = self.model.g, self.sample.run.p, self.sample.look(x)
        least = float(g(x, asked.y, p)[0])
        is_answer = float(g(x, y, p)[0]) <= least + EQUAL * (1 + abs(least))
        return self.sample.add(self.sample.measure(x, y)) if is_answer else None

    def _narrow(self) -> tuple[Look, Look] | tuple[None, None]:
        """Ends close to each other whose answers are as distant as before; none where they meet."""
        start, end = self.start, self.end
        distance = _distance(start, end)
        for _ in range(HALVINGS):
            middle = self.sample.look((start.x + end.x) / 2)
            if not np.isfinite(middle.value):
                return None, None
            left, right = _distance(start, middle), _distance(middle, end)
            start, end = (start, middle) if left >= right else (middle, end)
            if max(left, right) < 0.5 * distance / HALVINGS:
                return None, None
        return (start, end) if _distance(start, end) >= 0.25 * distance else (None, None)


def _distance(one: Look, other: Look) -> float:
    return float(np.abs(one.y - other.y).max(initial=0.0))


def refine_brackets(sample: PhiSample, count: int) -> list[Look]:
    """Brent's method around the best samples of a single variable; the ends reached."""
    looks = [look for look in in_order(sample.looks) if np.isfinite(look.value)]
    values = np.array([np.inf, *(look.merit for look in looks), np.inf])
    is_least = (values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]) & np.isfinite(values[1:-1])
    valleys = sorted(np.flatnonzero(is_least), key=lambda k: values[k + 1])[:count]
    return [_brent(sample, looks, int(k)) for k in valleys]


def _brent(sample: PhiSample, looks: list[Look], k: int) -> Look:
    from scipy.optimize import minimize_scalar

    here, ends = looks[k], []
    for other in (looks[k - 1] if k else None, looks[k + 1] if k + 1 < len(looks) else None):
        if other is None:
            ends.append(here)
        elif other.is_allowed:
            ends.append(other)
        else:
            ends.append(Segment(sample, here, other).last_allowed())
    low, high = float(ends[0].x[0]), float(ends[1].x[0])
    found = min([here, *ends], key=lambda look: look.merit)
    if high - low <= FINE * (1 + abs(high)):
        return found

    def value(at: float) -> float:
        nonlocal found
        look = sample.look(np.array([at]))
        if look.merit < found.merit:
            found = look
        return min(look.merit, 1e100)

    xatol = 1e-9 * (1e-3 + abs(float(here.x[0])))
    for _ in range(2):  # once more around what the first pass found, where it lies beside the bracket's
        minimize_scalar(
            value, bounds=(low, high), method="bounded", options={"xatol": xatol, "maxiter": BRENT_STEPS}
        )
        at, reach = float(found.x[0]), 0.02 * (high - low)
        if reach <= 1e3 * xatol:
            break
        low, high = max(low, at - reach), min(high, at + reach)
    return found


def find_ties(sample: PhiSample, looks: list[Look]) -> list[Look]:
    """Looks at the x between neighbours at which distant answers are equally good below."""
    answered = [look for look in in_order(looks) if np.isfinite(look.value)]
    if len(answered) < 3:
        return []
    pairs = list(zip(answered, answered[1:], strict=False))
    jumps = np.array([_distance(*pair) for pair in pairs])
    spread = float(np.ptp([look.y for look in answered], axis=0).max(initial=0.0))
    large = np.flatnonzero(jumps >= max(0.02 * spread, 1e-6))
    found: list[Look] = []
    for k in sorted(large, key=lambda k: -jumps[k])[:TIES]:
        found += Segment(sample, *pairs[k]).tie()
    return found


def valleys(sample: PhiSample, count: int) -> list[Look]:
    """The best looks that none of their neighbours beats, of which no two are near each other.

    Those with different lower answers come first: where phi is flat, many looks are one valley.
    """
    from scipy.spatial import cKDTree

    allowed = [look for look in sample.looks if np.isfinite(look.merit)]
    if not allowed:
        return []
    merits = np.array([look.merit for look in allowed])
    where = np.column_stack(
        [
            scale.share_of(np.array([look.x[k] for look in allowed]))
            for k, scale in enumerate(sample.scales)
        ]
    )
    near = min(2 * where.shape[1] + 2, len(allowed))
    _, neighbours = cKDTree(where).query(where, near)
    is_least = merits <= merits[np.reshape(neighbours, (len(allowed), near))].min(axis=1)
    order = [k for k in np.argsort(merits, kind="stable") if is_least[k]]
    answers = np.array([look.y for look in allowed])
    spread = np.ptp(answers, axis=0).max(initial=0.0)
    chosen: list[int] = []
    for has_new_answer in (True, False):
        for k in order:
            is_far = all(np.abs(where[k] - where[other]).max() > APART for other in chosen)
            is_new = all(np.abs(answers[k] - answers[other]).max() > APART * spread for other in chosen)
            if len(chosen) < count and is_far and (is_new or not has_new_answer):
                chosen.append(int(k))
    return [allowed[k] for k in chosen]


def scan_axes(sample: PhiSample, best: Look) -> Look:
    """The best look along each variable's whole range through a point.

    Where phi is flat in one variable, its other valleys are seen from far along this variable only.
    """
    coarse, fine = (np.linspace(0.0, 1.0, count) for count in SCANNED)
    for column, scale in enumerate(sample.scales):
        ends = np.unique(np.concatenate([scale.even(coarse), scale.by_magnitude(fine)]))
        points = np.repeat(best.x[None, :], len(ends), axis=0)
        points[:, column] = np.clip(ends, sample.bounds[0][column], sample.bounds[1][column])
        best = min([best, *map(sample.look, points)], key=lambda look: look.merit)
    return best


def valleys_along_axes(sample: PhiSample, through: Look, count: int) -> list[Look]:
    """The best looks on fine lines along the variables that neither of their neighbours beats."""
    even, magnitudes = (np.linspace(0.0, 1.0, finely) for finely in SCANNED_FINELY)
    found: list[Look] = []
    for column, scale in enumerate(sample.scales):
        shares = np.unique(np.concatenate([scale.even(even), scale.by_magnitude(magnitudes)]))
        points = np.repeat(through.x[None, :], len(shares), axis=0)
        points[:, column] = np.clip(shares, sample.bounds[0][column], sample.bounds[1][column])
        looks = [sample.look(point) for point in points]
        for before, here, after in zip(looks, looks[1:], looks[2:], strict=False):
            if here.merit < before.merit and here.merit < after.merit:
                found.append(here)
    return sorted(found, key=lambda look: look.merit)[:count]


def refine_patterns(sample: PhiSample, starts: list[Look], share: float, polls: int) -> list[Look]:
    """Patterns that turn and shrink around each start, of a first size that is a share of the range."""
    random = np.random.default_rng(sample.run.seed)
    return [_poll(sample, start, share, polls, random) for start in starts]


def _poll(sample: PhiSample, best: Look, share: float, polls: int, random: np.random.Generator) -> Look:
    n = best.x.size
    low, high = sample.bounds
    steps = np.array([scale.step_at(at, share) for scale, at in zip(sample.scales, best.x, strict=True)])
    size, least = 1.0, 1e-7
    turn = np.eye(n)
    for _ in range(polls):
        if size < least:
            break
        # Each direction and its opposite; the first better one is taken, and the next poll is larger.
        is_better = False
        for direction in (*turn, *-turn):
            x = np.clip(best.x + size * steps * direction, low, high)
            if np.array_equal(x, best.x):
                continue
            look = sample.look(x)
            if look.merit < best.merit - 1e-12 * (1 + abs(best.merit)):
                ahead = sample.look(np.clip(x + 2 * size * steps * direction, low, high))
                best, is_better = (ahead if ahead.merit < look.merit else look), True
                break
        size = 2 * size if is_better else size / 2
        turn = np.linalg.qr(random.normal(size=(n, n)))[0] if not is_better else turn
    return best
