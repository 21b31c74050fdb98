"""Random bilevel problems whose lower level has an answer in closed form: cones, multipliers, games.

The judge knows the answers by linear algebra: eigenvectors, projections, faces that are enumerated. Of
several answers it takes the one that is best above.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

import blomodel as bm

SAME = 1e-9  # eigenvalues and slacks that count as the same


@dataclass
class Special:
    """Both levels: x lies in a box, and ``reply(x)`` holds the best f with the answer, or inf."""

    kind: str
    seed: int
    low: np.ndarray
    high: np.ndarray
    state: Callable[[], tuple[bm.BilevelProblem, Callable[[], tuple[np.ndarray, np.ndarray]]]]
    reply: Callable[[np.ndarray], tuple[float, np.ndarray]]
    upper: Callable[[np.ndarray, np.ndarray], float]
    check: Callable[[np.ndarray, np.ndarray], tuple[float, float]]  # gap / (1 + |v|) and violation
    has_ray: Callable[[], bool] = lambda: False  # whether f falls without end


def tenths(values):
    return np.asarray(values, float).round(1)


def box_of_x(draw):
    n = int(draw.choice([1, 1, 2]))
    low = tenths(draw.choice([-2.0, -1.0, 0.0], n))
    return low, low + tenths(draw.uniform(1, 3, n))


def symmetric(draw, n):
    half = tenths(draw.normal(size=(n, n)))
    return tenths((half + half.T) / 2)


def read_from(x, *parts):
    def read():
        flat = [np.ravel(part.value, order="F") for part in parts]
        return np.ravel(x.value), np.concatenate(flat)

    return read


def stated(f, x, low, high, lower):
    return bm.BilevelProblem(cp.Minimize(f), [x >= low, x <= high], lower)


def matrix_variable(way, n):
    """A positive semidefinite matrix by an attribute, or by a constraint."""
    if way == 0:
        return cp.Variable((n, n), name="Y", PSD=True), []
    Y = cp.Variable((n, n), name="Y", symmetric=True)
    return Y, [Y >> 0]


def spectral(draw, kind, seed):
    """Least <C(x), Y> over matrices of trace one: eigenvectors of the least eigenvalue."""
    low, high = box_of_x(draw)
    n, n_x = int(draw.choice([1, 2, 2, 3])), len(low)
    C, D = [symmetric(draw, n) for _ in range(n_x + 1)], symmetric(draw, n)
    c, way = tenths(draw.normal(size=n_x)), int(draw.integers(2))
    a = tenths(draw.normal(size=n_x))

    def at(x):
        return C[0] + sum(x[i] * C[i + 1] for i in range(n_x))

    def state():
        x = cp.Variable(n_x, name="x")
        Y, rows = matrix_variable(way, n)
        lower = bm.Lower(cp.Minimize(cp.trace(at(x) @ Y)), [*rows, cp.trace(Y) == 1], variables=[Y])
        f = cp.trace(D @ Y) + c @ x + 0.3 * cp.sum_squares(x - a)
        return stated(f, x, low, high, lower), read_from(x, Y)

    def upper(x, y):
        return float(np.sum(D * y.reshape(n, n)) + c @ x + 0.3 * np.sum((x - a) ** 2))

    def reply(x):
        sizes, vectors = np.linalg.eigh(at(x))
        space = vectors[:, sizes <= sizes[0] + SAME]
        _, inner = np.linalg.eigh(space.T @ D @ space)
        direction = space @ inner[:, 0]
        y = np.outer(direction, direction).ravel()
        return upper(x, y), y

    def check(x, y):
        Y, v = y.reshape(n, n), np.linalg.eigvalsh(at(x))[0]
        apart = max(-np.linalg.eigvalsh((Y + Y.T) / 2)[0], abs(np.trace(Y) - 1), np.abs(Y - Y.T).max())
        return (np.sum(at(x) * Y) - v) / (1 + abs(v)), apart

    return Special(kind, seed, low, high, state, reply, upper, check)


def nearest_matrix(draw, kind, seed):
    """The nearest positive semidefinite matrix to A(x): its positive part."""
    low, high = box_of_x(draw)
    n, n_x = int(draw.choice([1, 2, 2, 3])), len(low)
    A, T = [symmetric(draw, n) for _ in range(n_x + 1)], symmetric(draw, n)
    c, way = tenths(draw.normal(size=n_x)), int(draw.integers(2))

    def at(x):
        return A[0] + sum(x[i] * A[i + 1] for i in range(n_x))

    def state():
        x = cp.Variable(n_x, name="x")
        Y, rows = matrix_variable(way, n)
        lower = bm.Lower(cp.Minimize(cp.sum_squares(Y - at(x))), rows, variables=[Y])
        return stated(cp.sum_squares(Y - T) + c @ x, x, low, high, lower), read_from(x, Y)

    def upper(x, y):
        return float(np.sum((y.reshape(n, n) - T) ** 2) + c @ x)

    def reply(x):
        sizes, vectors = np.linalg.eigh(at(x))
        y = ((vectors * np.maximum(sizes, 0)) @ vectors.T).ravel()
        return upper(x, y), y

    def check(x, y):
        Y = y.reshape(n, n)
        v = np.sum(np.minimum(np.linalg.eigvalsh(at(x)), 0) ** 2)
        apart = max(-np.linalg.eigvalsh((Y + Y.T) / 2)[0], np.abs(Y - Y.T).max())
        return (np.sum((Y - at(x)) ** 2) - v) / (1 + abs(v)), apart

    return Special(kind, seed, low, high, state, reply, upper, check)


def ball(draw, kind, seed):
    """A linear g over a ball whose radius and place follow x, stated as a norm or as a cone."""
    low, high = box_of_x(draw)
    n, n_x = int(draw.integers(1, 5)), len(low)
    d, M, s = (
        tenths(draw.normal(size=n)),
        tenths(draw.normal(size=(n, n_x))),
        tenths(draw.uniform(0, 1, n_x)),
    )
    r, b, c = (
        float(tenths(draw.choice([0.0, 0.5, 1.0]))),
        tenths(draw.normal(size=n)),
        tenths(draw.normal(size=n_x)),
    )
    way = int(draw.integers(3))

    def radius(x):
        return r + s @ (x - low)

    def state():
        x, y = cp.Variable(n_x, name="x"), cp.Variable(n, name="y")
        if way == 0:
            row = cp.norm(y - M @ x) <= radius(x)
        elif way == 1:
            row = cp.SOC(radius(x), y - M @ x)
        else:
            row = cp.norm(cp.reshape(y - M @ x, (n, 1), order="F"), "fro") <= radius(x)
        lower = bm.Lower(cp.Minimize(d @ y), [row], variables=[y])
        return stated(cp.sum_squares(y - b) + c @ x, x, low, high, lower), read_from(x, y)

    def upper(x, y):
        return float(np.sum((y - b) ** 2) + c @ x)

    def reply(x):
        length = np.linalg.norm(d)
        if length > 0:
            y = M @ x - radius(x) * d / length
        else:  # indifferent: the leader's favourite in the ball
            away = b - M @ x
            y = M @ x + away * min(1.0, radius(x) / max(np.linalg.norm(away), 1e-300))
        return upper(x, y), y

    def check(x, y):
        v = d @ (M @ x) - radius(x) * np.linalg.norm(d)
        return (d @ y - v) / (1 + abs(v)), np.linalg.norm(y - M @ x) - radius(x)

    return Special(kind, seed, low, high, state, reply, upper, check)


def onto_a_cone(draw, kind, seed):
    """The nearest point (t, z) with |z| <= t."""
    low, high = box_of_x(draw)
    n, n_x = int(draw.integers(2, 5)), len(low)
    M, a, b = (
        tenths(draw.normal(size=(n, n_x))),
        tenths(draw.normal(size=n)),
        tenths(draw.normal(size=n)),
    )
    c, way = tenths(draw.normal(size=n_x)), int(draw.integers(2))

    def state():
        x, y = cp.Variable(n_x, name="x"), cp.Variable(n, name="y")
        row = cp.SOC(y[0], y[1:]) if way else cp.norm(y[1:]) <= y[0]
        lower = bm.Lower(cp.Minimize(cp.sum_squares(y - M @ x - a)), [row], variables=[y])
        return stated(cp.sum_squares(y - b) + c @ x, x, low, high, lower), read_from(x, y)

    def upper(x, y):
        return float(np.sum((y - b) ** 2) + c @ x)

    def nearest(x):
        point = M @ x + a
        t, length = point[0], np.linalg.norm(point[1:])
        if length <= t:
            return point
        if length <= -t:
            return np.zeros(n)
        return (t + length) / 2 * np.append(1.0, point[1:] / length)

    def reply(x):
        return upper(x, nearest(x)), nearest(x)

    def check(x, y):
        target = M @ x + a
        v = np.sum((nearest(x) - target) ** 2)
        return (np.sum((y - target) ** 2) - v) / (1 + abs(v)), np.linalg.norm(y[1:]) - y[0]

    return Special(kind, seed, low, high, state, reply, upper, check)


def prices(draw, kind, seed):
    """The upper level uses the multipliers of the rows of a linear or quadratic program."""
    low, high = box_of_x(draw)
    n, n_x, m = int(draw.integers(1, 3)), len(low), int(draw.integers(1, 3))
    is_flat, is_equation = bool(draw.random() < 0.3), bool(draw.random() < 0.3)
    q = np.zeros(n) if is_flat else tenths(draw.uniform(0.5, 1.5, n))
    d, M = tenths(draw.normal(size=n)), tenths(draw.normal(size=(n, n_x)))
    A, B = tenths(draw.normal(size=(m, n))), tenths(draw.normal(size=(m, n_x)))
    right = tenths(draw.uniform(0.1, 1, m)) + np.maximum(B * low, B * high).sum(axis=1)
    w, c, t = tenths(draw.normal(size=m)), tenths(draw.normal(size=n_x)), float(tenths(draw.normal()))
    top, is_square = 2.0, bool(draw.random() < 0.5)

    def above(x, y, price, squares):
        paid = squares(price - t) if is_square else w @ price
        return paid + c @ x + 0.5 * squares(y - 1)

    def state():
        x, y = cp.Variable(n_x, name="x"), cp.Variable(n, name="y")
        left = A @ y + B @ x
        rows = [left == right if is_equation else left <= right]
        g = (d + M @ x) @ y + 0.5 * cp.sum(cp.multiply(q, cp.square(y)))
        lower = bm.Lower(cp.Minimize(g), [*rows, y >= -top, y <= top], variables=[y])
        price = lower.multiplier(rows[0])
        f = above(x, y, price, cp.sum_squares)
        return stated(f, x, low, high, lower), read_from(x, y, price)

    def squares(values):
        return np.sum(np.square(values))

    def upper(x, point):
        return float(above(x, point[:n], point[n:], squares))

    # Rows and bounds as N y <= e; the first m may be equations.
    N = np.vstack([A, np.eye(n), -np.eye(n)])

    def ends(x):
        return np.concatenate([right - B @ x, np.full(2 * n, top)])

    def pairs(x):
        """Answers with multipliers that are vertices of their sets."""
        fixed = range(m) if is_equation else ()
        for count in range(n + 1):
            for chosen in itertools.combinations(range(len(N)), count):
                if not set(fixed) <= set(chosen):
                    continue
                rows = list(chosen)
                matrix = np.zeros((n + count, n + count))
                matrix[:n, :n] = np.diag(q)
                matrix[n:, :n], matrix[:n, n:] = N[rows], N[rows].T
                if abs(np.linalg.det(matrix)) < 1e-9:
                    continue
                found = np.linalg.solve(matrix, np.concatenate([-(d + M @ x), ends(x)[rows]]))
                y, u = found[:n], np.zeros(len(N))
                u[rows] = found[n:]
                free = np.array([not (is_equation and k < m) for k in range(len(N))])
                slack = ends(x) - N @ y
                if (
                    np.all(u[free] >= -SAME)
                    and np.all(slack[free] >= -SAME)
                    and np.all(np.abs(slack[~free]) <= SAME)
                ):
                    yield y, u

    def reply(x):
        options = [
            (upper(x, point), point) for y, u in pairs(x) for point in [np.concatenate([y, u[:m]])]
        ]
        return min(options, key=lambda option: option[0], default=(np.inf, np.zeros(n + m)))

    def has_ray():
        """Whether multipliers grow without end at some answer, and f falls along them."""
        is_priced = np.arange(len(N)) < m
        is_free = is_priced & is_equation
        gain = np.where(is_priced, np.append(w, np.zeros(2 * n)), 0.0)
        for count in range(1, n + 2):
            for chosen in itertools.combinations(range(len(N)), count):
                rows = [*sorted({*chosen, *np.flatnonzero(is_free).tolist()})]
                ends_of = [(-1.0 if is_free[k] else 0.0, 1.0) for k in rows]
                ray = linprog(gain[rows], A_eq=N[rows].T, b_eq=np.zeros(n), bounds=ends_of)
                if ray.status != 0 or ray.fun > -1e-9:
                    continue
                # An answer (x, y) with just these rows tight: stationary, with multipliers u.
                k, wide = len(rows), np.vstack([B, np.zeros((2 * n, n_x))])
                last = np.append(right, np.full(2 * n, top))
                equal = np.vstack(
                    [
                        np.hstack([M, np.diag(q), N[rows].T]),
                        np.hstack([wide[rows], N[rows], np.zeros((k, k))]),
                    ]
                )
                bounds = [*zip(low, high, strict=True), *[(None, None)] * n]
                bounds += [(None if is_free[j] else 0.0, None) for j in rows]
                found = linprog(
                    np.zeros(n_x + n + k),
                    A_ub=np.hstack([wide, N, np.zeros((len(N), k))]),
                    b_ub=last,
                    A_eq=equal,
                    b_eq=np.append(-d, last[rows]),
                    bounds=bounds,
                )
                if found.status == 0:
                    return True
        return False

    def check(x, point):
        y, price = point[:n], point[n:]
        slack = ends(x)[:m] - A @ y
        slope = d + M @ x + q * y + A.T @ price  # the bounds' multipliers carry the rest
        scale = 1 + np.abs(price).max()
        rest = np.where(
            y >= top - 1e-5,
            np.maximum(slope, 0),
            np.where(y <= -top + 1e-5, np.minimum(slope, 0), slope),
        )
        faults = [np.abs(rest).max() / scale / 100, np.abs(y).max() - top]
        faults.append(np.abs(slack).max() if is_equation else -slack.min())
        if not is_equation:
            faults += [-price.min(), np.abs(price * slack).max() / scale / 100]
        return 0.0, max(faults)

    ray = (lambda: False) if is_square else has_ray
    return Special(kind, seed, low, high, state, reply, upper, check, ray)


def game(draw, kind, seed):
    """Two followers who see each other; equilibria by enumeration of faces."""
    low, high = box_of_x(draw)
    n_x = len(low)
    own, cross = tenths(draw.uniform(0.5, 2, 2)), tenths(draw.normal(size=2))
    d, M = tenths(draw.normal(size=2)), tenths(draw.normal(size=(2, n_x)))
    b, c = tenths(draw.normal(size=2)), tenths(draw.normal(size=n_x))
    bottom, top = np.array([-1.0, 0.0]), np.array([1.0, 2.0])

    def cost(k, x, y):
        return own[k] * y[k] ** 2 + cross[k] * y[0] * y[1] + (d[k] + M[k] @ x) * y[k]

    def state():
        x = cp.Variable(n_x, name="x")
        y = [cp.Variable(name=f"y{k}") for k in range(2)]
        followers = [
            bm.Lower(cp.Minimize(cost(k, x, y)), [y[k] >= bottom[k], y[k] <= top[k]], variables=[y[k]])
            for k in range(2)
        ]
        f = cp.square(y[0] - b[0]) + cp.square(y[1] - b[1]) + c @ x
        return stated(f, x, low, high, bm.Nash(followers)), read_from(x, *y)

    def upper(x, y):
        return float(np.sum((y - b) ** 2) + c @ x)

    def best(k, x, y):
        other = y[1 - k]
        return np.clip(-(cross[k] * other + d[k] + M[k] @ x) / (2 * own[k]), bottom[k], top[k])

    def reply(x):
        options = []
        for sides in itertools.product((None, 0, 1), repeat=2):
            matrix, ends = np.eye(2), np.zeros(2)
            for k, side in enumerate(sides):
                if side is None:
                    matrix[k, k], matrix[k, 1 - k] = 2 * own[k], cross[k]
                    ends[k] = -(d[k] + M[k] @ x)
                else:
                    ends[k] = (bottom, top)[side][k]
            if abs(np.linalg.det(matrix)) > 1e-9:
                y = np.linalg.solve(matrix, ends)
                if max(abs(y[k] - best(k, x, y)) for k in range(2)) <= SAME:
                    options.append((upper(x, y), y))
        return min(options, key=lambda option: option[0], default=(np.inf, np.zeros(2)))

    def check(x, y):
        gaps = []
        for k in range(2):
            other = y.copy()
            other[k] = best(k, x, y)
            gaps.append((cost(k, x, y) - cost(k, x, other)) / (1 + abs(cost(k, x, other))))
        return max(gaps), max(np.max(bottom - y), np.max(y - top))

    return Special(kind, seed, low, high, state, reply, upper, check)


SPECIAL: dict[str, Callable[[Any, str, int], Special]] = {
    "eigenvectors": spectral,
    "nearest matrix": nearest_matrix,
    "ball": ball,
    "cone": onto_a_cone,
    "multipliers": prices,
    "game": game,
}
