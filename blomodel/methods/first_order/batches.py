"""Steps on a few rows of data at a time: what meha, alt-pbgd, f2sa and pbgd-free do with a batch_size.

Objectives that are sums over rows of data are replaced, anew for every step, by sums over some rows that
are drawn at random (``compiler/row_parts.py``); entries of x that belong to rows come along with
them. The slopes are right in the mean. Without given steps, those in x adapt to slopes that were seen
(Duchi, Hazan and Singer, 2011) and those in y become shorter, so that the noise dies away, and the mean
over the last iterations is the result. An objective that is no such sum is taken whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.passes.row_sums import RowSum, row_sum
from blomodel.compiler.row_parts import ENTRIES, PRODUCTS, NotASumError
from blomodel.compiler.tape import Tape
from blomodel.kernels.prox import prox
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import power, value_at
from blomodel.methods.run.slices import run_in_slices

FIRST_MOVE = 0.05  # of a range, or of 1 + |x|: the first step in x, where no step is given
FEW_STEPS = 10  # inner steps in each iteration, where no number is given
WEIGHT, POWER = 10.0, 1 / 3  # gamma_k = WEIGHT (k + 1)^POWER, in units of the curvatures, if not given
SHORTER = 500.0  # iterations after which steps in y have become visibly shorter
MARGIN = 1.5  # by which rows that were not looked at may be more curved
PROBES, PRODUCTS_EACH = 3, 10  # batches whose curvature is looked at, and products for each
MOREAU_REACH = 10.0  # of the proximal parameter, in units of one over the curvature of g


class Sampled:
    """Slopes of an objective in x and y, by some of its rows where it is a sum over rows."""

    def __init__(self, tape: Tape, p: np.ndarray, rows: RowSum | None) -> None:
        self.p, self.rows = p, rows
        self.tape = tape if rows is None else rows.tape
        self._in_x, self._in_y = (gradient(self.tape, (block,)) for block in ("x", "y"))
        self._in_entries = None if rows is None else gradient(self.tape, (ENTRIES,))
        has_products = rows is not None and rows.has_products
        self._in_products = gradient(self.tape, (PRODUCTS,)) if has_products else None
        self.n_slopes = 0

    def draw(self, random: np.random.Generator) -> np.ndarray | None:
        """Numbers of the rows of a batch, every choice with the same chance; None without rows."""
        if self.rows is None:
            return None
        if self.rows.batch_size == self.rows.n_rows:
            return np.arange(self.rows.n_rows)
        drawn = random.choice(self.rows.n_rows, self.rows.batch_size, replace=False, shuffle=False)
        return np.sort(drawn)  # as data on disk are read fastest

    def at(self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """All inputs."""
        if self.rows is None or batch is None:
            return (x, y, self.p)
        return (x, y, self.p, *self.rows.inputs(x, y, self.p, batch))

    def in_y(self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None) -> np.ndarray:
        """The slope in y."""
        self.n_slopes += 1
        at = self.at(x, y, batch)
        return self._in_y(*at) + self._by_products("y", at, batch)

    def in_x(self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None) -> np.ndarray:
        """The slope in x."""
        self.n_slopes += 1
        at = self.at(x, y, batch)
        slope = self._in_x(*at) + self._by_products("x", at, batch)
        if self.rows is not None and batch is not None and self._in_entries is not None:
            np.add.at(slope, self.rows.places(batch), self._in_entries(*at))
        return slope

    def _by_products(
        self, block: str, at: tuple[np.ndarray, ...], batch: np.ndarray | None
    ) -> np.ndarray | float:
        """What comes to a slope by the products of sparse rows."""
        if self.rows is None or self._in_products is None or batch is None:
            return 0.0
        return self.rows.through_products(block, at[:3], batch, self._in_products(*at))

    def value(self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None) -> float:
        """The objective."""
        return float(self.tape(*self.at(x, y, batch))[0])

    def _hessian_at(
        self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Products with the second derivatives in y."""
        at = tuple(np.array(part) for part in self.at(x, y, batch))
        rows = self.rows
        if rows is None or self._in_products is None or batch is None:
            action = jvp(self._in_y, ("y",))
            return lambda vector: action(*at, vector)
        both = ("y", PRODUCTS)
        own, of_products = jvp(self._in_y, both), jvp(self._in_products, both)
        slopes = self._in_products(*at)

        def product(vector: np.ndarray) -> np.ndarray:
            tangent = np.concatenate([vector, rows.moved_products(at[:3], batch, vector)])
            moved = of_products(*at, tangent)
            return own(*at, tangent) + rows.moved_slope(at[:3], batch, slopes, vector, moved)

        return product

    def curvature(self, x: np.ndarray, y: np.ndarray, random: np.random.Generator) -> float:
        """The largest second derivative in y that a few batches show, with a margin."""
        if not (self.tape.depends_on("y") or self.tape.depends_on(PRODUCTS)):
            return 0.0
        largest = 0.0
        for _ in range(PROBES if self.rows is not None else 1):
            action = self._hessian_at(x, y, self.draw(random))
            vector, size = random.standard_normal(y.size), 0.0
            for _ in range(PRODUCTS_EACH):
                vector = action(vector / (np.linalg.norm(vector) or 1.0))
                size = float(np.linalg.norm(vector))
                if not (np.isfinite(size) and size > 0):
                    break
            largest = max(largest, size)
        return largest * (1.0 if self.rows is None else MARGIN)


@dataclass
class Batches:
    """A problem whose slopes are drawn row by row.

    Attributes
    ----------
    f, g : Sampled
        Upper objective, and smooth part of the lower one.
    """

    setup: FirstOrder
    f: Sampled
    g: Sampled
    random: np.random.Generator
    seen: np.ndarray = field(init=False)  # squares of the slopes in x so far
    unit: np.ndarray = field(init=False)  # of the first step in x
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        run = self.run = self.setup.run
        low, high = run.model.bounds(run.p)
        size = 1 + np.abs(self.setup.x)
        self.unit = FIRST_MOVE * np.where(np.isfinite(high - low), high - low, size)
        self.seen = np.zeros(self.setup.x.size)

    def draw(self, objective: Sampled) -> np.ndarray | None:
        """Rows for one slope of an objective."""
        return objective.draw(self.random)

    @property
    def n_evaluations(self) -> int:
        """Slopes taken so far."""
        return self.f.n_slopes + self.g.n_slopes

    def g_in_x(self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None) -> np.ndarray:
        """The slope of all of g in x."""
        slope, split = self.g.in_x(x, y, batch), self.setup.split
        if split is not None and split.n_weights and split.weights.depends_on("x"):
            slope += split.weights_vjp(x, y, self.run.p, split.penalties(y))
        return slope

    def move_y(self, x: np.ndarray, y: np.ndarray, step: float, slope: np.ndarray) -> None:
        """A proximal step in y, in place."""
        y -= step * slope
        split = self.setup.split
        if split is not None and split.n_weights:
            prox(split.spec, split.weights(x, y, self.run.p), step, y)
        y[:] = self.setup.y_set.project(y)

    def move_x(self, x: np.ndarray, step: float | None, slope: np.ndarray) -> float:
        """A step in x, in place: of the given length, or adapted; returns the largest move."""
        before = x.copy()
        if step is not None:
            x -= step * slope
        else:
            self.seen += slope**2
            x -= self.unit * slope / np.sqrt(np.where(self.seen > 0, self.seen, 1.0))
        x[:] = self.setup.x_set.project(x)
        return float(np.abs(x - before).max(initial=0.0))


def set_up_batches(run: Run, batch_size: int) -> Batches:
    """The objectives as sums over rows; one of them at least must be one."""
    setup = set_up(run, prox=True)
    found, refusals = [], []
    for tape, name in (
        (run.model.f, "the upper objective"),
        (setup.oracle.g_tape, "the lower objective"),
    ):
        rows = None
        try:
            rows = row_sum(tape, batch_size, name)
        except NotASumError as error:
            refusals.append(error)
        found.append(Sampled(tape, run.p, rows))
    if len(refusals) == 2:
        raise refusals[-1]
    for refusal in refusals:
        run.note(str(refusal).split(". Sums")[0] + "; it is taken whole in every step")
    return Batches(setup, found[0], found[1], np.random.default_rng(run.seed))


def _weight(batches: Batches, x: np.ndarray, y: np.ndarray, given: Any) -> Callable[[int], float]:
    """The penalty weight of each iteration."""
    if given is not None:
        return lambda k: float(value_at(given, k))
    above = batches.f.curvature(x, y, batches.random)
    below = batches.g.curvature(x, y, batches.random)
    unit = float(np.clip(above / below, 1e-3, 1e3)) if above > 0 and below > 0 else 1.0
    return lambda k: unit * WEIGHT * (k + 1) ** POWER


def run_alternating(method: Any, run: Run, batch_size: int) -> None:
    """Algorithm 2 of the ALT-PBGD paper, eqs 18 to 21, and F2SA, on batches."""
    batches = set_up_batches(run, batch_size)
    f, g, draw = batches.f, batches.g, batches.draw
    x, y_g, y = batches.setup.x.copy(), batches.setup.y.copy(), batches.setup.y.copy()
    weight = _weight(batches, x, y, method.penalty)
    steps = _Steps(batches, method, x, y, weight)

    def iterate(k: int) -> float:
        gamma, inner = weight(k), int(value_at(method.inner_steps, k) or FEW_STEPS)
        step = steps.in_y(k)
        second = value_at(method.step_y_penalised, k) or step
        for _ in range(inner):
            batch = draw(g)  # one for both, so that most of the noise cancels in (21)
            batches.move_y(x, y_g, step, g.in_y(x, y_g, batch))  # (18)
            slope = g.in_y(x, y, batch) + f.in_y(x, y, draw(f)) / gamma
            batches.move_y(x, y, second, slope)  # (20)
        batch = draw(g)
        pull = batches.g_in_x(x, y, batch) - batches.g_in_x(x, y_g, batch)
        return batches.move_x(x, steps.in_x(k), f.in_x(x, y, draw(f)) + gamma * pull)  # (21)

    _run(batches, method, iterate, weight, (x, y, y_g, batches.seen))


def run_free(method: Any, run: Run, batch_size: int) -> None:
    """Algorithm 3 of the ALT-PBGD paper on batches."""
    batches = set_up_batches(run, batch_size)
    f, g, draw = batches.f, batches.g, batches.draw
    x, y = batches.setup.x.copy(), batches.setup.y.copy()
    weight = _weight(batches, x, y, method.penalty)
    steps = _Steps(batches, method, x, y, weight)
    is_single = method.version == "single-loop"

    def iterate(k: int) -> float:
        gamma = weight(k)
        for _ in range(1 if is_single else int(value_at(method.inner_steps, k) or FEW_STEPS)):
            slope = g.in_y(x, y, draw(g)) + f.in_y(x, y, draw(f)) / gamma
            batches.move_y(x, y, steps.in_y(k), slope)
        return batches.move_x(x, steps.in_x(k), f.in_x(x, y, draw(f)))

    _run(batches, method, iterate, weight, (x, y, batches.seen))


def run_moreau(method: Any, run: Run, batch_size: int) -> None:
    """Algorithm 1 of the MEHA paper, eqs 9 to 13, on batches."""
    batches = set_up_batches(run, batch_size)
    f, g, draw = batches.f, batches.g, batches.draw
    x, y, theta = batches.setup.x.copy(), batches.setup.y.copy(), batches.setup.y.copy()
    given = method.penalty
    weight: Callable[[int], float]
    if given is not None and not callable(given):
        weight = power(float(given), method.penalty_power)
    else:
        weight = _weight(batches, x, y, given)
    steps = _Steps(batches, method, x, y, weight)
    gamma = method.proximal or MOREAU_REACH * safe_step(steps.below)

    def iterate(k: int) -> float:
        c = weight(k)
        own = steps.in_y(k, 1 / gamma)
        batch = draw(g)  # one for all, so that most of the noise cancels in (10)
        slope = g.in_y(x, theta, batch) + (theta - y) / gamma
        batches.move_y(x, theta, value_at(method.step_theta, k) or own, slope)  # (9)
        pull = batches.g_in_x(x, y, batch) - batches.g_in_x(x, theta, batch)
        moved = batches.move_x(x, steps.in_x(k), f.in_x(x, y, draw(f)) / c + pull)  # (10), (11)
        slope = g.in_y(x, y, batch) + f.in_y(x, y, draw(f)) / c - (y - theta) / gamma
        batches.move_y(x, y, own, slope)  # (12), (13)
        return moved

    _run(batches, method, iterate, weight, (x, y, theta, batches.seen))


class _Steps:
    """The lengths of steps, given or by the curvature."""

    def __init__(
        self, batches: Batches, method: Any, x: np.ndarray, y: np.ndarray, weight: Callable[[int], float]
    ) -> None:
        self.method = method
        self.above = batches.f.curvature(x, y, batches.random) if method.step_y is None else 0.0
        self.below = batches.g.curvature(x, y, batches.random)
        self.weight = weight

    def in_x(self, k: int) -> float | None:
        """None: adapted to the slopes that were seen."""
        found = value_at(self.method.step_x, k)
        return None if found is None else float(found)

    def in_y(self, k: int, further: float = 0.0) -> float:
        """Of y, where ``further`` adds to the curvature."""
        found = value_at(self.method.step_y, k)
        if found is not None:
            return float(found)
        curvature = self.below + self.above / self.weight(k) + further
        return safe_step(curvature) / np.sqrt(1 + k / SHORTER)


def _run(
    batches: Batches,
    method: Any,
    iterate: Callable[[int], float],
    weight: Callable[[int], float],
    state: tuple[np.ndarray, ...],
) -> None:
    """Iterate to the end of the iterations or of the time; a mean is the result where steps adapt."""
    run, f = batches.run, batches.f
    x, y, *_ = state
    is_averaged = method.step_x is None
    beside = np.random.default_rng(run.seed)  # for figures, whose number depends on the clock
    mean_x, mean_y, count = x.copy(), y.copy(), np.zeros(1)

    def since() -> int:
        """Iterations in the mean, which begins afresh at each power of two."""
        done = int(count[0])
        return done + 1 - (1 << (done.bit_length() - 1)) if done else 0

    def loop(n: int) -> float:
        moved = np.inf
        for _ in range(n):
            done = int(count[0])
            # What is drawn depends on the iteration alone, so that a run can be resumed anywhere.
            batches.random = np.random.default_rng((run.seed, done))
            moved = iterate(done)
            count[0] += 1
            mean_x[:] += (x - mean_x) / since()
            mean_y[:] += (y - mean_y) / since()
        return moved if all(np.all(np.isfinite(array)) for array in state) else float("nan")

    def report() -> dict[str, float]:
        return {"gamma": weight(max(int(count[0]) - 1, 0)), "value": f.value(x, y, f.draw(beside))}

    with first_order_run(batches, f"{method.name} on batches", x, y):
        try:
            run_in_slices(run, loop, max_iterations=method.max_steps, tolerance=0.0, report=report)
        finally:
            if (
                is_averaged
                and since() > 1
                and np.all(np.isfinite(mean_x))
                and np.all(np.isfinite(mean_y))
            ):
                x[:], y[:] = mean_x, mean_y
