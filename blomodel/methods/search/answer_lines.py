r"""Search along lines of x where the lower level is a linear program whose rows do not hold x.

Each block of the lower level that nothing ties to the others then answers with one of a few points, and
:math:`q(x)'v` of each is a linear function along a line: the block's answer changes where the lower
envelope of these functions breaks. f is looked at where answers change, with both answers, since the
upper level may choose between them there: that is where its optima lie, and where derivatives of
:math:`\phi` say nothing. Points v that have not been met yet are learned: the lower level is asked at
every x that seems better, and a line is looked at again with what it answers. How the blocks are
written, as one follower or as many, makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.passes.polynomial import AFFINE
from blomodel.methods.run.run import Run
from blomodel.model.model import Model

SOURCE = "lines of answers"
PAYS = 1e-9  # relative; what a move must gain
PREFERENCE = 1e-9  # relative weight of f in a block's choice among answers that are equally good to it
NEARLY = 1e-6  # relative; lines whose slopes differ by less have no clear crossing
INDIFFERENT = 1e-8  # relative; lower values this close are the same
LESSONS = 25  # times that a line is looked at again with answers that were not known
SWEEPS = 30  # over all directions
MOST_PAIRS = 60  # of variables that are moved together


def why_not(model: Model) -> str | None:
    """What keeps the search from a model; None where nothing does."""
    if not model.is_convex_below or model.lower_program.kind != "LP":
        return "the lower level is no linear program"
    lagrangian = model.lower_program.lagrangian
    if lagrangian.blocks[1].size != model.y.size:
        return "the lower objective has kinks"
    if lagrangian.rows_move_with_x:
        return "lower constraints contain x"
    if np.any(lagrangian.term_facts.coefficient_class[:, 1] > AFFINE):
        return "the lower objective's coefficients are not affine in x"
    if model.coupling_constraints or not model.has_affine_upper_rows:
        return "upper constraints contain y or are not affine"
    return None


@dataclass(frozen=True, eq=False)
class Place:
    """A point on a line, with the answers that the upper level prefers there."""

    x: np.ndarray
    y: np.ndarray
    value: float


class AnswerLines:
    """Descent on phi along lines, with all answers that have been met; see ``why_not``."""

    run: Run
    model: Model
    p: np.ndarray
    blocks: list[np.ndarray]

    def __init__(self, run: Run) -> None:
        self.run, self.model, self.p = run, run.model, run.p
        n_x = self.model.x.size
        self.blocks = self.model.lower_program.blocks
        self._known: list[dict[bytes, np.ndarray]] = [{} for _ in self.blocks]
        origin = np.zeros(n_x), np.zeros(self.model.y.size), self.p
        rows, on = (kind.linearise(*origin) for kind in (self.model.upper_in, self.model.upper_eq))
        self._rows, self._levels = rows.in_x, rows.value
        self._equalities = on.in_x
        self._answers: _Answers | None = None

    # -- answers -----------------------------------------------------------------------------

    def ask(self, x: np.ndarray) -> np.ndarray | None:
        """The lower answer at x; what is new in it is learned."""
        self.run.check_limits()
        answer, _ = self.run.solve_lower(x, np.zeros(self.model.y.size))
        self.run.evaluations += 1
        if not answer.status.has_point:
            return None
        self.learn(answer.y)
        return answer.y

    def learn(self, y: np.ndarray) -> None:
        """Remember the answer of each block."""
        for known, block in zip(self._known, self.blocks, strict=True):
            key = np.round(y[block], 9).tobytes()
            if key not in known:
                known[key] = y[block]
                self._answers = None

    @property
    def answers(self) -> _Answers:
        """All that have been met."""
        if self._answers is None:
            self._answers = _Answers.of(self._known, self.blocks, self.model.y.size)
        return self._answers

    def costs(self, x: np.ndarray) -> np.ndarray:
        """q(x)."""
        return self.model.g_grad(x, np.zeros(self.model.y.size), self.p)[x.size :]

    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        """f of both levels' decisions."""
        return float(self.model.f(x, y, self.p)[0])

    # -- moves -------------------------------------------------------------------------------

    def descend(self, x: np.ndarray) -> Place | None:
        """From x along lines until none pays; None where the lower level has no answer."""
        y = self.ask(x)
        if y is None:
            return None
        here = Place(x, y, self.value(x, y))
        if not np.isfinite(here.value):
            return None
        for _ in range(SWEEPS):
            before = here.value
            for direction in self._directions():
                here = self._along(here, direction)
            self.run.step(value=here.value, x=here.x)
            if not here.value < before - PAYS * (1 + abs(before)):
                break
        return here

    def _directions(self) -> Iterator[np.ndarray]:
        """Every variable, all together, and pairs in both senses."""
        n = self.model.x.size
        unit = np.eye(n)
        yield from unit
        if n > 2:
            yield np.ones(n)
        pairs = [(i, j) for i in range(n) for j in range(i)]
        if len(pairs) > MOST_PAIRS:
            chosen = np.random.default_rng(self.run.evaluations).permutation(len(pairs))[:MOST_PAIRS]
            pairs = [pairs[k] for k in chosen]
        for i, j in pairs:
            yield unit[i] + unit[j]
            yield unit[i] - unit[j]

    def _along(self, here: Place, direction: np.ndarray) -> Place:
        """The best place on a line that is an answer of the lower level, or the one given."""
        low, high = self._range(here.x, direction)
        if not high > low:
            return here
        for _ in range(LESSONS):
            self.run.check_limits()
            found = self._best_on(here, direction, low, high)
            if not found.value < here.value - PAYS * (1 + abs(here.value)):
                return here
            if self._is_answered(found):
                self.run.offer(found.x, found.y, SOURCE)
                return found
        return here

    def _is_answered(self, place: Place) -> bool:
        """Whether the lower level has nothing better; what it has instead is learned."""
        answer = self.ask(place.x)
        if answer is None:
            return False
        q = self.costs(place.x)
        least = float(q @ answer)
        return float(q @ place.y) - least <= INDIFFERENT * (1 + abs(least))

    def _range(self, x: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
        """How far x may move both ways; open sides end at some distance."""
        if np.abs(self._equalities @ direction).max(initial=0.0) > 0:
            return 0.0, 0.0
        slopes = self._rows @ direction
        slack = np.maximum(-(self._rows @ x + self._levels), 0.0)
        far = 1e3 * (1 + float(np.abs(x).max(initial=0.0)))
        rising, falling = slopes > 0, slopes < 0
        high = float((slack[rising] / slopes[rising]).min(initial=far))
        low = float((slack[falling] / slopes[falling]).max(initial=-far))
        return low, high

    def _best_on(self, here: Place, direction: np.ndarray, low: float, high: float) -> Place:
        """The best place on a line as far as answers are known."""
        x, answers = here.x, self.answers
        start = x + low * direction
        length = high - low
        end = x + high * direction

        def lines(at_start: np.ndarray, at_end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            first, last = answers.matrix @ at_start, answers.matrix @ at_end
            return first, (last - first) / length

        level, slope = lines(self.costs(start), self.costs(end))
        n_x = x.size
        wish, wish_slope = lines(
            self.model.f_grad(start, here.y, self.p)[n_x:], self.model.f_grad(end, here.y, self.p)[n_x:]
        )
        size = (1 + np.abs(level).max()) / (1 + np.abs(wish).max())
        if not np.isfinite(size):
            return here
        weight = PREFERENCE * size
        y, times, left, taken = answers.envelope(
            level + weight * wish, slope + weight * wish_slope, length
        )
        # Where the block is indifferent, not where f has moved it a little further.
        faster = slope[left] - slope[taken]
        is_clear = np.abs(faster) > NEARLY * (np.abs(slope[left]) + np.abs(slope[taken]))
        ties = (level[taken] - level[left]) / np.where(is_clear, faster, 1.0)
        times = np.where(is_clear, np.clip(ties, 0.0, length), times)
        best = here
        points = answers.matrix

        def look(t: float) -> None:
            nonlocal best
            x_t = start + t * direction
            value = self.value(x_t, y)
            if value < best.value:
                best = Place(x_t, y.copy(), value)

        look(0.0)
        before = 0.0
        for t, row in zip(times, taken, strict=True):
            look(t)
            look((before + t) / 2)
            begin, stop = points.indptr[row], points.indptr[row + 1]
            y[answers.columns[row]] = 0.0
            y[points.indices[begin:stop]] = points.data[begin:stop]
            look(t)
            before = t
        look(length)
        look((before + length) / 2)
        return best


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers of all blocks, one below the other.

    Attributes
    ----------
    matrix : sparse array
        A row for each answer, in the columns of its block.
    columns : list of arrays
        The columns of each row's block.
    places : array
        Number of the answer, by block and place in the block; -1 where a block has fewer.
    """

    matrix: sp.csr_array
    columns: list[np.ndarray]
    places: np.ndarray

    @classmethod
    def of(cls, known: list[dict[bytes, np.ndarray]], blocks: list[np.ndarray], n: int) -> _Answers:
        most = max(len(found) for found in known)
        places = np.full((len(blocks), most), -1)
        rows, cols, data = [], [], []
        columns: list[np.ndarray] = []
        for k, (found, block) in enumerate(zip(known, blocks, strict=True)):
            for place, answer in enumerate(found.values()):
                number = len(columns)
                places[k, place] = number
                rows.append(np.full(block.size, number))
                cols.append(block)
                data.append(answer)
                columns.append(block)
        matrix = sp.csr_array(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))), shape=(len(columns), n)
        )
        return cls(matrix, columns, places)

    def envelope(
        self, level: np.ndarray, slope: np.ndarray, length: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Each block's least line ``level + t slope`` for t from 0 to a length.

        Returns y at the start, and the times at which a block's answer changes, in order, with the
        answers before and after.
        """
        is_there = self.places >= 0
        A = np.where(is_there, level[self.places], np.inf)
        B = np.where(is_there, slope[self.places], np.inf)
        every = np.arange(len(A))
        least = A.min(axis=1, keepdims=True)
        current = np.where(A <= least, B, np.inf).argmin(axis=1)
        y = np.asarray(self.matrix[self.places[every, current]].sum(axis=0)).ravel()
        now = np.zeros(len(A))
        times, left, taken = [], [], []
        while len(every):
            own, steep = A[every, current][:, None], B[every, current][:, None]
            faster = steep - B[every]
            with np.errstate(divide="ignore", invalid="ignore"):
                cross = np.where(faster > 0, (A[every] - own) / faster, np.inf)
            cross = np.where(np.isnan(cross), np.inf, np.maximum(cross, now[:, None]))
            at = cross.min(axis=1)
            going = at < length
            if not going.any():
                break
            every, at, cross, faster = every[going], at[going], cross[going], faster[going]
            left.append(self.places[every, current[going]])
            current = np.where(cross <= at[:, None], faster, -np.inf).argmax(axis=1)
            times.append(at)
            taken.append(self.places[every, current])
            now = at
        if not times:
            return y, np.empty(0), np.empty(0, int), np.empty(0, int)
        t = np.concatenate(times)
        order = np.argsort(t, kind="stable")
        return y, t[order], np.concatenate(left)[order], np.concatenate(taken)[order]
