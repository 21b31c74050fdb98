"""A lower level that is not convex: local searches from many starts, the best one kept.

Elements of y that meet neither in g nor in a row, such as those of different followers, are searched
group by group, and groups of one element side by side. The value found is an upper bound of the optimal
value and usually equal to it, but nothing proves that; whoever reports it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.passes.dependence import dependence, independent_groups
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.passes.terms import owners_of_terms, terms
from blomodel.model.box_corners import BoxCorners
from blomodel.model.local_search import (
    FAR,
    N_ALONE,
    NEARLY_LEAST,
    RADII,
    SCAN_POINTS,
    LocalSearch,
    spread_around,
)
from blomodel.model.side_by_side import SideBySide
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.choice import count
from blomodel.solvers.threads import one_blas_thread

if TYPE_CHECKING:
    from blomodel.compiler.tape import Tape
    from blomodel.model.model import Model
    from blomodel.model.rows import Rows

MAX_KNOWN = 100  # x whose answers are remembered
FEWEST = 4  # searches of one group, however late it is or however many groups there are
MOST_IN_VAIN = 12  # searches of one group of which none reaches a feasible point; they are dear there
MOST = 300  # searches of one call
MAX_VALLEYS, N_VALLEYS = 3, 4  # variables up to which valleys are searched, and how many of them
MAX_SWEEPS = 4  # over the coordinates
TOO_LONG = "the time limit is over, and a local search from one point was not finished"
CORNERS = "all corners of the box"


class _Group:
    """The searches over one group of elements of y, and the best point that they found."""

    def __init__(self, search: LocalSearch) -> None:
        self.search = search
        self.point: np.ndarray | None = None
        self.value = np.inf
        self.searches = self.steps = self.finished = 0

    def offer(self, point: np.ndarray) -> None:
        """Keep a feasible point that is better."""
        value = self.search.value(point)
        if value < self.value and self.search.is_feasible(point):
            self.point, self.value = point.copy(), value

    def descend(self, start: np.ndarray) -> None:
        """Search from a point, which counts itself where the search from it goes astray."""
        end, steps = self.search.descend(start)
        self.searches += 1
        self.finished += not self.search.is_cut
        self.steps += steps
        self.offer(end)
        self.offer(start)

    def is_settled_by(self, points: Sequence[np.ndarray]) -> bool:
        """Whether one of the points will do without a search of this group's own."""
        for point in points:
            self.offer(point)
        return self.point is not None and not self.search.is_cut

    def take(self, beside: SideBySide, k: int) -> None:
        """Take over what searches in step have found for the element at this position."""
        self.point, self.value = beside.points[k : k + 1].copy(), float(beside.values[k])
        self.searches += int(beside.searches[k])
        self.finished += 1

    def sharpen(self, bottom: np.ndarray, reach: float) -> None:
        """Make the bottom of a valley of one variable exact."""
        end, steps = self.search.sharpen(bottom, reach)
        self.searches += 1
        self.steps += steps
        self.offer(end)
        self.offer(bottom)

    @property
    def is_unknown(self) -> bool:
        """Whether time was over before a single search had ended."""
        return self.search.is_cut and not self.finished

    @property
    def ran_away(self) -> bool:
        """Whether the objective seems to have no lower bound."""
        return self.point is not None and (self.value < -FAR or np.abs(self.point).max(initial=0) > FAR)


class MultistartLower:
    """Minimises g(x, .) over the lower constraints by local searches.

    Parameters
    ----------
    model : Model
    reason : str
        Why the lower level does not count as convex.
    seed : int
        Of the start points, which are the same in every call.
    objective : Tape, optional
        What to minimise; g by default.
    """

    model: Model
    reason: str
    seed: int
    objective: Tape
    n: int
    slope: Tape

    kind = "nonconvex"
    served_by = "local searches from many starts"

    def __init__(
        self, model: Model, reason: str = "", seed: int = 0, objective: Tape | None = None
    ) -> None:
        self.model, self.reason, self.seed = model, reason, seed
        self.objective = model.g if objective is None else objective
        self.n = model.y.size
        self.slope = gradient(self.objective, ("y",))
        self._corners = BoxCorners(model)
        self._last: np.ndarray | None = None
        # What was searched from everywhere: the best y at x, and the number of searches.
        self._known: dict[tuple[bytes, bytes, float], tuple[np.ndarray, int]] = {}
        self._spread: dict[tuple[int, int], np.ndarray] = {}  # starts in the unit cube

    def solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: Sequence[float] | np.ndarray = (1.0,),
        warm: bool = True,
        accuracy: float = 1e-8,
        near: Sequence[np.ndarray] = (),
        deadline: Deadline = NEVER,
    ) -> Answer:
        """Minimise at x; ``near`` holds points to search from first.

        With ``warm`` earlier answers are used; without, nothing of them, and other starts. After
        ``deadline`` no more than FEWEST searches are made; of several groups, those that have not been
        searched by then keep the end of one search over all of them. Searches that take longer are given
        up, and where none has ended the answer has no point.
        """
        with one_blas_thread():
            whole = LocalSearch(self, x, p, float(np.asarray(weights)[-1]), accuracy, deadline)
            answer = self._solve(whole, warm, near)
        if answer.has_point:
            count("local searches")
        return answer

    def _solve(self, whole: LocalSearch, warm: bool, near: Sequence[np.ndarray]) -> Answer:
        if np.any(whole.low > whole.high):
            return Answer.without_point(InnerStatus.INFEASIBLE, self.n, "bounds on y contradict")
        corner = self._corners.answer(whole) if self.objective is self.model.g else None
        if corner is not None:
            return self._answer(whole, corner, CORNERS, 0)
        given = [np.asarray(point, float) for point in near]
        given = [whole.clip(point) for point in given if np.all(np.isfinite(point))]
        key = (whole.x.tobytes(), whole.p.tobytes(), whole.weight)
        if warm and key in self._known:
            return self._search_again(whole, key, given)
        if warm and self._last is not None:
            given.append(whole.clip(self._last))
        y = given[0] if given else self._middle(whole)
        seed = self.seed if warm else self.seed + 1
        is_thorough, searches, steps = True, 0, 0
        groups = self._split(whole, y)
        beside = self._search_side_by_side(whole, groups, given, seed)
        is_thorough &= all(beside.values())
        for number, group in enumerate(groups):
            search = group.search
            together, search.base = search.base[search.free], y
            own = [point[search.free] for point in given]
            if number in beside:
                pass  # all of them have been searched in step
            elif len(groups) > 1 and whole.deadline.is_over and group.is_settled_by([together, *own]):
                is_thorough = False  # one search over all groups together must do for this one
            else:
                is_thorough &= self._search(group, own, seed)
            searches, steps = searches + group.searches, steps + group.steps
            if group.is_unknown:
                return Answer.without_point(InnerStatus.FAILED, self.n, TOO_LONG, steps)
            if group.point is None:
                reason = f"none of {group.searches} local searches reached a feasible point"
                return Answer.without_point(InnerStatus.FAILED, self.n, reason, steps)
            if group.ran_away:
                reason = "a local search ran away"
                return Answer.without_point(InnerStatus.UNBOUNDED, self.n, reason, steps)
            y = search.embed(group.point)
        self._last = y
        if is_thorough:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = (y, searches)
        return self._answer(whole, y, searches, steps)

    def fewest_searches(self, x: np.ndarray, p: np.ndarray) -> int:
        """Local searches that an answer at x takes at least, told without any of them."""
        whole = LocalSearch(self, x, p, 1.0, 1e-8)
        if np.any(whole.low > whole.high):
            return 0
        if self.objective is self.model.g and self._corners.answer(whole) is not None:
            return 0
        middle = self._middle(whole)
        searches = [whole]
        if np.isfinite(whole.value(middle)):
            searches = [whole.restricted(free, rows, middle) for free, rows in self._groups]
        return sum(
            1 + len(self._fractions(search.n, self.seed))
            for search in searches
            if not search.is_interval
        )

    def _search_again(
        self, whole: LocalSearch, key: tuple[bytes, bytes, float], given: list[np.ndarray]
    ) -> Answer:
        """At an x searched from everywhere before: only the points given now can add anything."""
        known, searches = self._known[key]
        group = _Group(whole)
        group.offer(known)
        for start in given:
            if not np.array_equal(start, known):
                group.descend(start)
        y = known if group.point is None else group.point
        self._last, self._known[key] = y, (y, searches)
        return self._answer(whole, y, searches, group.steps)

    def _answer(self, whole: LocalSearch, y: np.ndarray, by: int | str, steps: int) -> Answer:
        return Answer(
            InnerStatus.OPTIMAL,
            whole.value(y),
            y,
            self.fit_duals(whole.x, y, whole.p),
            steps,
            solver=by if isinstance(by, str) else f"{by} local searches",
        )

    def _split(self, whole: LocalSearch, y: np.ndarray) -> list[_Group]:
        """A search for each group of elements that can be judged alone, the others as in y."""
        # Where g is undefined for the elements of one group, no other group can be judged.
        if len(self._groups) == 1 or not np.isfinite(whole.value(y)):
            return [_Group(whole)]
        # Large values of the other groups would hide what one of them gains.
        end = whole.descend(y)[0]
        base = end if abs(whole.value(end)) < FAR else y
        return [_Group(whole.restricted(free, rows, base)) for free, rows in self._groups]

    def _search_side_by_side(
        self, whole: LocalSearch, groups: list[_Group], given: list[np.ndarray], seed: int
    ) -> dict[int, bool]:
        """Search groups of one element in step: which of them have a point now, and had all the time."""
        numbers = np.array([k for k, group in enumerate(groups) if group.search.is_single], dtype=int)
        if whole.deadline.is_over or len(numbers) < 2 or self._summands is None:
            return {}
        summands, owners = self._summands
        place = np.full(len(groups) + 1, -1)
        place[numbers] = np.arange(len(numbers))
        elements = np.array([groups[number].search.free[0] for number in numbers])
        base = groups[0].search.base
        beside = SideBySide(whole, base, elements, summands, place[owners])
        middle = self._middle(whole)[elements]
        center = given[0][elements] if given else middle
        points = [*(point[elements] for point in given), base[elements], middle]
        spread = spread_around(center, beside.low, beside.high, self._fractions(1, seed))
        is_thorough = beside.search(points, spread)
        found = {}
        for k, number in enumerate(numbers):
            if beside.values[k] < np.inf:
                groups[number].take(beside, k)
                found[int(number)] = is_thorough
        groups[numbers[0]].steps += beside.steps
        return found

    def _search(self, group: _Group, given: list[np.ndarray], seed: int) -> bool:
        """Search from the given points and from everywhere; whether the time allowed all of it."""
        if group.search.is_interval and self._search_interval(group, given):
            return True
        starts = [*given, *self._starts(group.search, given[0] if given else None, seed)]
        for number, start in enumerate(starts):
            if number >= FEWEST and group.search.deadline.is_over:
                return False
            group.descend(start)
            if group.ran_away or group.search.is_cut:
                return False
            if group.point is None and group.searches >= MOST_IN_VAIN:
                return True
        self._scan(group)
        return True

    def _search_interval(self, group: _Group, given: list[np.ndarray]) -> bool:
        """Search a closed interval valley by valley; whether g is defined at some point looked at first.

        The scan sees every valley that a search from a given point would end in, so that only the best
        of them are searched to the end.
        """
        search = group.search
        for point in [*given, self._middle(search)]:
            group.offer(search.clip(point))
        if group.point is None:
            return False
        bottoms = self._lower_along(group, 0, search.low[0], search.high[0], given)
        values = [search.value(bottom) for bottom in bottoms]
        least = min([group.value, *values])
        for bottom, value in zip(bottoms, values, strict=True):
            if value <= least + NEARLY_LEAST * (1 + abs(least)):
                group.sharpen(bottom, (search.high[0] - search.low[0]) / (SCAN_POINTS - 1))
        return not group.search.is_cut

    def descend_from(self, x: np.ndarray, p: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The end of one local search."""
        search = LocalSearch(self, x, p, 1.0, 1e-9)
        with one_blas_thread():
            return search.descend(search.clip(start))[0]

    def _scan(self, group: _Group) -> None:
        """Look along each coordinate through the best point, all the way, and search from lower ones.

        Local searches from spread starts seldom have every coordinate in its best basin at once.
        """
        search, best = group.search, group.point
        if not limits.SCANNED_COORDINATES.allows(search.n) or best is None:
            return
        reach = RADII[-1] * (1 + np.abs(best))
        low = np.where(np.isfinite(search.low), search.low, best - reach)
        high = np.where(np.isfinite(search.high), search.high, best + reach)
        for _ in range(MAX_SWEEPS if search.n > 1 else 1):
            before = group.value
            for k in range(search.n):
                for start in self._lower_along(group, k, low[k], high[k]):
                    group.descend(start)
            if not group.value < before - 1e-9 * (1 + abs(before)):
                break

    def _lower_along(
        self, group: _Group, k: int, low: float, high: float, given: Sequence[np.ndarray] = ()
    ) -> list[np.ndarray]:
        """Points along coordinate k from which a search may end lower.

        In few variables the valleys of the scan, since its points may lie on the slope of a better one;
        in many only a point that is lower already. The scan looks at the given points too.
        """
        search = group.search
        places = np.linspace(low, high, SCAN_POINTS)
        if given:
            places = np.unique(np.concatenate([places, [search.clip(point)[k] for point in given]]))
        points = np.repeat(np.asarray(group.point)[None, :], len(places) + 2, axis=0)
        points[1:-1, k] = places
        values = np.full(len(points), np.inf)
        seen = np.arange(1, len(points) - 1)
        if search.has_rows:
            seen = np.array([number for number in seen if search.is_feasible(points[number])], int)
        if seen.size:
            values[seen] = search.values(points[seen])
        if search.n > MAX_VALLEYS:
            lowest = int(np.argmin(values))
            return [points[lowest]] if values[lowest] < group.value else []
        is_valley = (values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])
        valleys = 1 + np.flatnonzero(is_valley & np.isfinite(values[1:-1]))
        order = valleys[np.argsort(values[valleys])]
        step = (high - low) / (SCAN_POINTS - 1)
        if search.n > 1:
            # The valley of the best point itself leads back to it.
            is_own = np.abs(points[order, k] - np.asarray(group.point)[k]) <= step
            return [points[number] for number in order[~is_own][:N_VALLEYS]]
        # A step of a descent might leave the valley that it begins in.
        return [search.valley(points[number], step) for number in order[:N_ALONE]]

    def _starts(self, search: LocalSearch, center: np.ndarray | None, seed: int) -> list[np.ndarray]:
        """Halton points over the bounds of y; where a side is open, around the given point."""
        low, high = search.low, search.high
        middle = self._middle(search)
        center = middle if center is None else center
        starts = [middle]
        if search.n == 1 and not search.has_rows and np.isfinite(high - low).all():
            return starts  # the scan looks everywhere
        return starts + spread_around(center, low, high, self._fractions(search.n, seed))

    def _middle(self, search: LocalSearch) -> np.ndarray:
        """The middle of the bounds; the point nearest to zero where a side is open."""
        middle = search.clip(np.zeros(search.n))
        closed = np.isfinite(search.low) & np.isfinite(search.high)
        middle[closed] = (search.low[closed] + search.high[closed]) / 2
        return middle

    def _fractions(self, n: int, seed: int) -> np.ndarray:
        """Points spread over the unit cube of n dimensions, the same in every call."""
        if (n, seed) not in self._spread:
            count = min(_number_of_starts(n), max(FEWEST, MOST // len(self._groups)))
            rng = np.random.default_rng(seed)
            if limits.RANDOM_STARTS_FROM.allows(n):
                from scipy.stats import qmc  # slow to load, and seldom needed

                self._spread[n, seed] = qmc.Halton(n, rng=rng).random(count - 1)
            else:
                self._spread[n, seed] = rng.random((count - 1, n))
        return self._spread[n, seed]

    @cached_property
    def _groups(self) -> list[tuple[np.ndarray, list[np.ndarray]]]:
        """Elements of y that meet nowhere: each group, and which rows of either kind it must keep."""
        kinds = (self.model.lower_in, self.model.lower_eq)
        everything = [(np.arange(self.n), [np.ones(len(rows), bool) for rows in kinds])]
        if any(rows.spectral for rows in kinds):
            return everything
        groups = independent_groups(self.slope, [rows.tape for rows in kinds if rows.tape is not None])
        if len(groups) == 1:
            return everything
        empty = np.zeros((0, self.n), dtype=bool)
        holds = [empty if rows.tape is None else dependence(rows.tape, "y") for rows in kinds]
        found: list[tuple[np.ndarray, list[np.ndarray]]] = [
            (free, [np.asarray(held[:, free].any(axis=1)) for held in holds]) for free in groups
        ]
        for kept, held in zip(found[0][1], holds, strict=True):
            kept |= ~held.any(axis=1)  # rows in x alone are checked with the first group
        return found

    @cached_property
    def _summands(self) -> tuple[Tape, np.ndarray] | None:
        """What the objective adds up, and the number of the group that each summand holds."""
        summands = terms(self.objective)
        owners = owners_of_terms(summands, [free for free, _ in self._groups])
        return None if owners is None else (summands, owners)

    @cached_property
    def rows_in_single_variables(self) -> tuple[np.ndarray, np.ndarray]:
        """Which inequality and equality rows are affine in y (candidates for bounds)."""
        return _affine_in_y(self.model.lower_in), _affine_in_y(self.model.lower_eq)

    def fit_duals(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
        """Multipliers that fit the KKT conditions at y best; none where rows do not tell them."""
        model = self.model
        if not model.has_smooth_kkt:
            return []
        rows, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
        scale = 1 + np.abs(y).max(initial=0)
        active = np.flatnonzero(rows.value >= -1e-6 * scale)
        multipliers = np.zeros(len(rows.value)), np.zeros(len(equal.value))
        matrix = np.vstack([rows.in_y.toarray()[active], equal.in_y.toarray(), -equal.in_y.toarray()])
        if len(matrix) and np.all(np.isfinite(matrix)) and limits.FITTED_MULTIPLIERS.allows(len(matrix)):
            from scipy.optimize import nnls

            found, _ = nnls(matrix.T, -self.slope(x, y, p))
            n_equal = len(equal.value)
            multipliers[0][active] = found[: len(active)]
            multipliers[1][:] = (
                found[len(active) : len(active) + n_equal] - found[len(active) + n_equal :]
            )
        duals = [np.zeros(constraint.size) for constraint in model.lower_constraints]
        for kind, values in zip((model.lower_in, model.lower_eq), multipliers, strict=True):
            for position, where in kind.slices.items():
                part = values[where]
                # A cone's dual has more entries than its row; the first is the row's multiplier.
                duals[position][: len(part)] = part
        return [
            np.reshape(dual, constraint.shape, order="F")
            if dual.size == np.prod(constraint.shape)
            else dual
            for dual, constraint in zip(duals, model.lower_constraints, strict=True)
        ]


def _affine_in_y(rows: Rows) -> np.ndarray:
    affine = np.zeros(len(rows), dtype=bool)
    if rows.tape is not None:
        affine[: rows.n_smooth] = polynomial(rows.tape, variable="y", coefficient="x").degree <= 1
    return affine


def _number_of_starts(n: int) -> int:
    """Many where a local search is cheap, few where it is dear."""
    by_size = {
        limits.THIRTY_LOWER_STARTS: 30,
        limits.SIXTEEN_LOWER_STARTS: 16,
        limits.EIGHT_LOWER_STARTS: 8,
    }
    return next((count for limit, count in by_size.items() if limit.allows(n)), FEWEST)
