"""Random games below against all of their equilibria, by enumeration of active bounds."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

pytest.importorskip("pyscipopt")

HIGH = 2.0


def equilibria(matrix, slope):
    """Every y in [0, HIGH]^n at which nobody gains: slopes of the right sign at bounds, zero between."""
    n, found = len(slope), []
    for sides in itertools.product((0, 1, 2), repeat=n):
        y = np.array([{0: 0.0, 1: HIGH, 2: np.nan}[side] for side in sides])
        free = [i for i in range(n) if sides[i] == 2]
        fixed = [i for i in range(n) if sides[i] != 2]
        if free:
            block = matrix[np.ix_(free, free)]
            if abs(np.linalg.det(block)) < 1e-9:
                continue
            y[free] = np.linalg.solve(block, -(slope[free] + matrix[np.ix_(free, fixed)] @ y[fixed]))
        gain = matrix @ y + slope
        inside = np.all(y >= -1e-9) and np.all(y <= HIGH + 1e-9)
        signs = {0: gain >= -1e-9, 1: gain <= 1e-9, 2: np.ones(n, bool)}
        if inside and all(signs[side][i] for i, side in enumerate(sides)):
            found.append(y)
    return found


def game(seed):
    """A potential game, a monotone one and one of any kind, in turn."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 4))
    matrix = draw.normal(size=(n, n)).round(1)
    if seed % 3 == 0:
        matrix = (matrix + matrix.T) / 2
    matrix[np.diag_indices(n)] = np.abs(matrix.diagonal()) + (3 if seed % 3 == 1 else 0.5)
    first, move, cost = (draw.normal(size=n).round(1) for _ in range(3))
    x, y = cp.Variable(name="x"), [cp.Variable(name=f"y{i}") for i in range(n)]
    players = []
    for i, own in enumerate(y):
        others = sum(matrix[i, j] * y[j] for j in range(n) if j != i)
        g = matrix[i, i] / 2 * own**2 + own * (others + first[i] + move[i] * x)
        players.append(bm.Lower(cp.Minimize(g), [own >= 0, own <= HIGH], [own], name=f"player {i}"))
    f = (x - 0.4) ** 2 + sum(cost[i] * y[i] for i in range(n))
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], bm.Nash(players))
    best = np.inf
    for at in np.linspace(0, 1, 201):
        answers = equilibria(matrix, first + move * at)
        best = min([best, *((at - 0.4) ** 2 + cost @ y for y in answers)])
    return problem, best, lambda at: equilibria(matrix, first + move * at)


@pytest.mark.parametrize(
    "seed",
    [0, 1, 8, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (*range(2, 8), 9, 10, 11))],
)
def test_the_best_equilibrium_is_found_and_proven(seed):
    problem, best, answers = game(seed)
    value = problem.solve()
    assert problem.status == "optimal"
    assert value <= best + 2e-4 * (1 + abs(best))
    assert problem.certificate.bound <= best + 1e-6 * (1 + abs(best))
    x, *y = problem.variables[: 1 + len(problem.followers)]
    point = np.array([float(variable.value) for variable in y])
    # Where an equilibrium ends, the nearest one may lie beside the x that was found.
    near = [other for at in (-1e-4, 0, 1e-4) for other in answers(float(x.value) + at)]
    assert min(np.abs(other - point).max() for other in near) < 1e-2
    assert max(problem.certificate.follower_gaps.values()) <= 1e-6
