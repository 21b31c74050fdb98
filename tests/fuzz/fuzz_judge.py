"""Brute force for small bilevel problems, by NumPy alone: nothing of the library is used here.

Lower levels with a quadratic g and linear rows are answered exactly: the least value lies at a point
that is stationary on some face, and all faces are enumerated. Others are searched by grids that are
refined around their best points, inside and along every row. Whole numbers are enumerated. Above,
a grid of x is refined around its best points. Every point that the judge holds against an answer is
therefore a point of the problem, and is checked again by a finer search below before it counts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from fuzz_pieces import Follower, Model, Numbers

FEASIBLE = 1e-9
EXACT = 1e-12  # slack of rows for an answer that is held against another one
TIE = 1e-11  # relative to 1 + |v|: more would let f profit from it
SAMPLED = 400  # answers by which the range of g is estimated
FAR = 1e3  # in place of no bound at all


@dataclass
class Effort:
    """How fine the lower level is searched."""

    line: int = 65
    plane: int = 25
    kept: int = 3
    rounds: int = 26


FINE = Effort(line=1601, plane=161, kept=12, rounds=34)


# The lower level, for many x at once: x has shape (n_x, N), candidates have shape (K, n_y, N)


def values(functions, x, y):
    """All rows at paired columns, as an array of shape (rows, N)."""
    n = max(x.shape[1], y.shape[1])
    parts = [
        np.broadcast_to(
            np.atleast_2d(each(x, y, Numbers)), (np.atleast_2d(each(x, y, Numbers)).shape[0], n)
        )
        for each in functions
    ]
    return np.vstack(parts) if parts else np.zeros((0, n))


def paired(function, x, y):
    """A function at x (n_x, N) and candidates (K, n_y, N), as (rows, K, N)."""
    k, n_y, n = y.shape
    flat_x = np.broadcast_to(x[:, None, :], (len(x), k, n)).reshape(len(x), k * n)
    flat_y = np.moveaxis(y, 0, 1).reshape(n_y, k * n)
    result = np.atleast_2d(function(flat_x, flat_y, Numbers))
    return np.broadcast_to(result, (result.shape[0], k * n)).reshape(result.shape[0], k, n)


def lower_values(each: Follower, x, y, slack=FEASIBLE):
    """sense * g at candidates; inf where one is not allowed."""
    with np.errstate(all="ignore"):
        g = each.sense * paired(each.g, x, y)[0].copy()
        bad = np.zeros(g.shape, bool)
        for row in each.rows:
            bad |= (paired(row, x, y) > slack).any(axis=0)
        for row in each.equations:
            bad |= (np.abs(paired(row, x, y)) > max(slack, FEASIBLE)).any(axis=0)
    low, high = each.low[None, :, None], each.high[None, :, None]
    bad |= ((y < low - FEASIBLE) | (y > high + FEASIBLE)).any(axis=1)
    bad |= ~np.isfinite(g)
    g[bad] = np.inf
    return g


def wholes(each: Follower):
    spans = [
        np.arange(np.ceil(low), np.floor(high) + 1)
        for low, high, whole in zip(each.low, each.high, each.whole, strict=True)
        if whole
    ]
    return [np.array(point) for point in itertools.product(*spans)]


def candidates(each: Follower, x, effort: Effort):
    """Points among which a best answer to each x lies, up to the fineness of grids."""
    n_y, real = len(each.low), np.flatnonzero(~each.whole)
    found = []
    for fixed in wholes(each):
        start = np.zeros((n_y, x.shape[1]))
        start[each.whole] = fixed[:, None]
        if len(real) == 0:
            found.append(start[None])
        elif each.is_quadratic:
            found.append(on_faces(each, x, start, real))
        else:
            found.append(on_grids(each, x, effort))
    return np.concatenate(found)


def coefficients(function, x, start, real):
    """Constant, slopes and second derivatives in the real entries of y, by evaluation at unit points."""
    n, size = len(real), x.shape[1]

    def at(*entries):
        y = start.copy()
        for i in entries:
            y[real[abs(i) - 1]] += np.sign(i)
        result = np.atleast_2d(function(x, y, Numbers))
        return np.broadcast_to(result, (result.shape[0], size))

    zero = at()
    up, down = [at(i + 1) for i in range(n)], [at(-i - 1) for i in range(n)]
    slopes = np.stack([(a - b) / 2 for a, b in zip(up, down, strict=True)], axis=-1)
    second = np.zeros((*zero.shape, n, n))
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        mixed = at(i + 1, j + 1) - up[i] - up[j] + zero if i != j else up[i] + down[i] - 2 * zero
        second[..., i, j] = second[..., j, i] = mixed
    return zero, slopes, second


def on_faces(each: Follower, x, start, real):
    """Stationary points of a quadratic g on every face of the linear rows."""
    n, size = len(real), x.shape[1]
    _, c, H = coefficients(lambda *at: each.sense * each.g(*at), x, start, real)
    c, H = c[0], H[0]
    normals, ends = [], []
    fixed = 0
    for row in (*each.equations, *each.rows):
        zero, slope, _ = coefficients(row, x, start, real)
        normals += list(slope)
        ends += list(-zero)
        fixed += len(zero) if row in each.equations else 0
    for i, k in enumerate(real):
        for sign, end in ((1, each.high[k]), (-1, each.low[k])):
            if np.isfinite(end):
                normals.append(np.broadcast_to(sign * np.eye(n)[i], (size, n)))
                ends.append(np.full(size, sign * end))
    found = []
    free = range(fixed, len(normals))
    for count in range(n - fixed + 1):
        for chosen in itertools.combinations(free, count):
            rows = [*range(fixed), *chosen]
            m = n + len(rows)
            matrix, right = np.zeros((size, m, m)), np.zeros((size, m))
            matrix[:, :n, :n], right[:, :n] = H, -c
            for k, row in enumerate(rows):
                matrix[:, n + k, :n] = matrix[:, :n, n + k] = normals[row]
                right[:, n + k] = ends[row]
            regular = np.abs(np.linalg.det(matrix)) > 1e-9
            if not regular.any():
                continue
            y = np.broadcast_to(start.T[:, :], (size, len(start))).copy()
            y[~regular] = np.nan
            y[np.ix_(regular, real)] = np.linalg.solve(matrix[regular], right[regular][..., None])[
                :, :n, 0
            ]
            found.append(y.T)
    if not found:
        return np.full((1, len(start), size), np.nan)
    return np.stack(found)


def on_grids(each: Follower, x, effort: Effort):
    """Refined grids over the box, and along every row where y has two entries."""
    n = len(each.low)
    low, high = np.maximum(each.low, -FAR), np.minimum(each.high, FAR)

    def inside(t):  # (K, n, N) in [0, 1]
        return low[None, :, None] + t * (high - low)[None, :, None]

    found = [refined(each, x, inside, n, effort)]
    if n == 2:
        for curve in each.edges:
            found.append(refined(each, x, lambda t, curve=curve: along(curve, x, t), 1, effort))
        for row in each.rows:
            zero, slope, second = coefficients(row, x, np.zeros((2, x.shape[1])), np.arange(2))
            for k in range(len(zero)):
                if np.abs(second[k]).max() < 1e-9:
                    line = straight(zero[k], slope[k], np.abs([low, high]).max() * 3)
                    found.append(refined(each, x, line, 1, effort))
    return np.concatenate(found)


def along(curve, x, t):
    k, n = t.shape[0], t.shape[2]
    flat_x = np.broadcast_to(x[:, None, :], (len(x), k, n)).reshape(len(x), k * n)
    return np.moveaxis(curve(flat_x, t[:, 0].reshape(-1)).reshape(2, k, n), 0, 1)


def straight(zero, slope, reach):
    """The line zero + slope @ y = 0, for each x."""
    length = np.maximum((slope**2).sum(axis=1), 1e-12)
    foot, direction = -slope * (zero / length)[:, None], np.stack([-slope[:, 1], slope[:, 0]], axis=1)
    direction /= np.sqrt(length)[:, None]

    def line(t):
        return foot.T[None] + (2 * t - 1) * reach * direction.T[None]

    return line


def refined(each: Follower, x, place, n, effort: Effort):
    """Best points of a grid over the unit cube of n parameters, refined; shape (kept, n_y, N)."""
    count = effort.line if n == 1 else effort.plane
    axes = np.meshgrid(*[np.linspace(0, 1, count)] * n, indexing="ij")
    grid = np.stack([axis.ravel() for axis in axes], axis=1)[:, :, None]
    size = x.shape[1]
    grid = np.broadcast_to(grid, (*grid.shape[:2], size))
    g = lower_values(each, x, place(grid))
    # The best point of each neighbourhood, so that every valley has its own.
    shape = (count,) * n
    cube = g.reshape(*shape, size)
    lowest = cube.copy()
    for axis in range(n):
        rolled = np.stack([shifted(lowest, step, axis) for step in (-1, 0, 1)])
        lowest = rolled.min(axis=0)
    valleys = np.where(cube <= lowest, cube, np.inf).reshape(-1, size)
    best = np.argsort(valleys, axis=0)[: effort.kept]
    t = np.take_along_axis(grid, best[:, None, :], axis=0)
    value = np.take_along_axis(g, best, axis=0)
    moves = np.stack(
        [axis.ravel() for axis in np.meshgrid(*[np.linspace(-1, 1, 9)] * n, indexing="ij")], axis=1
    )
    width = 1.0 / (count - 1)
    for _ in range(effort.rounds):
        trial = np.clip(t[:, None] + width * moves[None, :, :, None], 0, 1)
        flat = trial.reshape(-1, n, size)
        g = lower_values(each, x, place(flat)).reshape(len(t), len(moves), size)
        pick = g.argmin(axis=1)
        least = np.take_along_axis(g, pick[:, None], axis=1)[:, 0]
        moved = np.take_along_axis(trial, pick[:, None, None, :], axis=1)[:, 0]
        better = least < value
        t, value = np.where(better[:, None], moved, t), np.where(better, least, value)
        width *= 0.5
    return place(t)


def shifted(array, step, axis):
    """The array moved by one along an axis, inf where nothing comes in."""
    result = np.full_like(array, np.inf)
    source, target = [slice(None)] * array.ndim, [slice(None)] * array.ndim
    if step > 0:
        source[axis], target[axis] = slice(None, -1), slice(1, None)
    elif step < 0:
        source[axis], target[axis] = slice(1, None), slice(None, -1)
    result[tuple(target)] = array[tuple(source)]
    return result


def answers(each: Follower, x, effort: Effort, kept: int, slack: float = FEASIBLE):
    """Best candidates of a follower (kept, n_y, N), their sense * g, and its least value at each x."""
    y = candidates(each, x, effort)
    g = lower_values(each, x, np.nan_to_num(y, nan=1e30), slack)
    order = np.argsort(g, axis=0)[:kept]
    y, g = np.take_along_axis(y, order[:, None, :], axis=0), np.take_along_axis(g, order, axis=0)
    least = g[0].copy()
    if not each.whole.any() and kept > 1:  # between answers that are equally good there may be others
        few = min(len(y), 6)
        pairs = list(itertools.combinations(range(few), 2))
        between = [(1 - s) * y[i] + s * y[j] for i, j in pairs for s in (0.25, 0.5, 0.75)]
        if between and np.any(g[1 if len(g) > 1 else 0] <= least + TIE * (1 + np.abs(least))):
            between = np.stack(between)
            extra = lower_values(each, x, np.nan_to_num(between, nan=1e30), slack)
            y, g = np.concatenate([y, between]), np.concatenate([g, extra])
    return y, g, least


# Both levels


def best_answers(model: Model, x, effort: Effort | None = None):
    """The optimistic sense * f at each x (inf where there is none), and the y that gives it."""
    effort = effort or Effort()
    several = len(model.followers) > 1
    options = []
    with np.errstate(all="ignore"):
        for each in model.followers:
            y, g, least = answers(each, x, effort, 3 if several else 24)
            tie = np.isfinite(g) & (g <= least + TIE * (1 + np.abs(least)))
            options.append((y, tie))
        size = x.shape[1]
        best = np.full(size, np.inf)
        chosen = np.zeros((sum(len(each.low) for each in model.followers), size))
        if several:
            options = [reduced(*each) for each in options]
        for picks in itertools.product(*[range(len(y)) for y, _ in options]):
            allowed = np.all([tie[k] for k, (_, tie) in zip(picks, options, strict=True)], axis=0)
            if not allowed.any():
                continue
            y = np.concatenate([y[k] for k, (y, _) in zip(picks, options, strict=True)])
            f = model.sense * np.broadcast_to(model.f(x, y, Numbers), (size,))
            rows = values(model.rows, x, y)
            ok = allowed & (rows <= FEASIBLE).all(axis=0) & np.isfinite(f)
            better = ok & (f < best)
            best, chosen = np.where(better, f, best), np.where(better, y, chosen)
    return best, chosen


def reduced(y, tie):
    """Without candidates that are an answer nowhere."""
    used = tie.any(axis=1)
    return (y[used], tie[used]) if used.any() else (y[:1], tie[:1])


def grid_above(model: Model):
    real = int((~model.whole).sum())
    count = {0: 1, 1: 201, 2: 19, 3: 7}[real]
    if model.whole.any():
        count = {0: 1, 1: 41, 2: 9, 3: 5}[real]
    spans, steps = [], np.zeros(len(model.low))
    for k, (low, high, whole) in enumerate(zip(model.low, model.high, model.whole, strict=True)):
        if whole:
            spans.append(np.arange(np.ceil(low), np.floor(high) + 1))
        elif np.isfinite(high):
            spans.append(np.linspace(low, high, count))
            steps[k] = (high - low) / (count - 1)
        else:
            spans.append(low + np.append(np.linspace(0, 10, count - 6), np.logspace(1.2, 4, 6)))
            steps[k] = 10 / max(count - 7, 1)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*spans, indexing="ij")])
    return grid, steps


def search(model: Model, starts=(), rounds=16):
    """Brute force over x: the least sense * f found, with its point; inf where there is none."""
    x, steps = grid_above(model)
    near = [np.clip(np.asarray(start, float), model.low, model.high)[:, None] for start in starts]
    x = np.concatenate([x, *near], axis=1)
    f, y = best_answers(model, x)
    pick = list(np.argsort(f)[:2])
    pick += [x.shape[1] - 1 - k for k in range(len(near))]
    pick = [k for k in dict.fromkeys(pick) if np.isfinite(f[k])]
    if not pick:
        return np.inf, None, None
    at, value, reply = x[:, pick], f[pick], y[:, pick]
    if steps.any():
        real = int((steps > 0).sum())
        few = np.linspace(-1, 1, {1: 9, 2: 5, 3: 3}[real])
        moves = np.stack(
            [m.ravel() for m in np.meshgrid(*[few if s else [0.0] for s in steps], indexing="ij")]
        )
        width = steps[:, None]
        for _ in range(rounds):
            trial = np.clip(
                at[:, :, None] + (width * moves)[:, None, :],
                model.low[:, None, None],
                model.high[:, None, None],
            )
            f, y = best_answers(model, trial.reshape(len(at), -1))
            f, y = f.reshape(at.shape[1], -1), y.reshape(len(y), at.shape[1], -1)
            k = f.argmin(axis=1)
            turn = np.arange(at.shape[1])
            better = f[turn, k] < value
            at = np.where(better, trial[:, turn, k], at)
            reply = np.where(better, y[:, turn, k], reply)
            value = np.where(better, f[turn, k], value)
            width = width * 0.5
    k = int(value.argmin())
    return float(value[k]), at[:, k], reply[:, k]


def split(model: Model, y):
    ends = np.cumsum([len(each.low) for each in model.followers])[:-1]
    return np.split(np.asarray(y, float), ends)


def lower_gaps(model: Model, x, y):
    """What each follower could gain at x over y by a fine search; with v, the range of g, and its y."""
    found = []
    for each, own in zip(model.followers, split(model, y), strict=True):
        x_column = np.asarray(x, float)[:, None]
        candidate, g, least = answers(each, x_column, FINE, 200, EXACT)
        here = each.sense * float(np.ravel(each.g(x_column, own[:, None], Numbers))[0])
        finite = g[np.isfinite(g)]
        spread = float(finite.max() - finite.min()) if finite.size else 0.0
        spread = max(spread, sampled_range(each, x_column))  # those kept are all among the best
        found.append(
            (
                here - float(least[0]),
                float(least[0]),
                max(spread, abs(here - float(least[0]))),
                candidate[0, :, 0],
            )
        )
    return found


def sampled_range(follower, x_column):
    """How much g varies over points of the box that keep the rows; 0 without a box."""
    if not np.isfinite(follower.low + follower.high).all() or follower.whole.any():
        return 0.0
    spread = np.random.default_rng(0).random((len(follower.low), SAMPLED))
    y = follower.low[:, None] + (follower.high - follower.low)[:, None] * spread
    x = np.repeat(x_column, SAMPLED, axis=1)
    g = np.ravel(follower.g(x, y, Numbers)) * np.ones(SAMPLED)
    kept = np.isfinite(g) & (values(follower.rows, x, y).max(axis=0, initial=-1.0) <= 0)
    kept &= np.abs(values(follower.equations, x, y)).max(axis=0, initial=0.0) <= FEASIBLE
    return float(np.ptp(g[kept])) if kept.any() else 0.0


def is_confirmed(model: Model, x, y):
    """Whether a finer search below still finds this point an answer."""
    return all(
        np.isfinite(v) and gap <= 10 * TIE * (1 + abs(v)) for gap, v, _, _ in lower_gaps(model, x, y)
    )


def exact_value(model: Model, x, y) -> float:
    """f where each follower's answer next to y is made exact by SciPy; its grids end at some fineness.

    Along a flat valley a grid's best point may be a little off, which f may make much of.
    """
    from scipy.optimize import minimize

    column, exact, start = np.asarray(x)[:, None], np.array(y, dtype=float), 0
    for each in model.followers:
        own = slice(start, start + len(each.low))
        start += len(each.low)
        if each.whole.any() or each.is_quadratic:
            continue  # enumerated, and exact already

        def g(z, each=each):
            return each.sense * float(np.ravel(each.g(column, z[:, None], Numbers))[0])

        rows = [
            {
                "type": kind,
                "fun": lambda z, row=row, sign=sign: sign * values([row], column, z[:, None])[:, 0],
            }
            for kind, sign, parts in (("ineq", -1.0, each.rows), ("eq", 1.0, each.equations))
            for row in parts
        ]
        bounds = [
            (a if np.isfinite(a) else None, b if np.isfinite(b) else None)
            for a, b in zip(each.low, each.high, strict=True)
        ]
        before = exact[own] = np.clip(exact[own], each.low, each.high)
        with np.errstate(all="ignore"):
            found = minimize(
                g,
                before,
                method="SLSQP",
                bounds=bounds,
                constraints=rows,
                options={"ftol": 1e-16, "maxiter": 200},
            )
        point = np.clip(found.x, each.low, each.high)
        is_allowed = np.isfinite(lower_values(each, column, point[None, :, None])[0, 0])
        if is_allowed and g(point) < g(before) - EXACT * (1 + abs(g(before))):
            exact[own] = point
    return model.sense * float(np.ravel(model.f(column, exact[:, None], Numbers))[0])
