"""Mixed-integer problems with known optima: from the literature, and by enumeration written apart.

Nothing here uses the library's functions for the reference: lower levels are enumerated, or
solved by SciPy and by cvxpy for fixed numbers.
"""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import linprog

import blomodel as bm
from tests.support.slow_cases import first_few

pytest.importorskip("pyscipopt")

CLOSE = 1.1e-4  # relative; half of it is the optimality gap that is asked for


def grid(high):
    return [np.array(point, float) for point in itertools.product(*[range(int(h) + 1) for h in high])]


def best_by_enumeration(high_x, high_y, f, g, below, above):
    """The optimistic value over all whole points; inf where there is none."""
    best = np.inf
    for x in grid(high_x):
        allowed = [y for y in grid(high_y) if below(x, y)]
        if not allowed:
            continue
        least = min(g(x, y) for y in allowed)
        kept = [y for y in allowed if g(x, y) <= least + 1e-7 and above(x, y)]
        best = min([best, *(f(x, y) for y in kept)])
    return best


def assert_solved(problem, best):
    value = problem.solve(time_limit=60)
    if np.isinf(best):
        assert problem.status in ("infeasible", "lower_infeasible", "failed")
        return
    assert problem.status == "optimal"
    assert value == pytest.approx(best, abs=CLOSE * (1 + abs(best)))
    sign = 1 if isinstance(problem.objective, cp.Minimize) else -1
    assert sign * problem.certificate.bound <= sign * best + 1e-6 * (1 + abs(best))


# From the literature


def moore_and_bard(integer):
    x = cp.Variable(name="x", integer=integer, nonneg=True)
    y = cp.Variable(name="y", integer=integer, nonneg=True)
    below = [-25 * x + 20 * y <= 30, x + 2 * y <= 10, 2 * x - y <= 15, 2 * x + 10 * y >= 15]
    return bm.BilevelProblem(
        cp.Minimize(-x - 10 * y), [], bm.Lower(cp.Minimize(y), below, variables=[y])
    )


def test_moore_and_bard_1990():
    # The optimum of the relaxation, -18 at (8, 1), is no bound for whole numbers: -22 at (2, 2).
    assert_solved(moore_and_bard(True), -22.0)
    assert moore_and_bard(False).solve() == pytest.approx(-18.0, abs=1e-5)


def test_the_second_example_of_moore_and_bard_1990():
    x = cp.Variable(name="x", integer=True, bounds=[0, 3])
    y = cp.Variable(name="y", integer=True, bounds=[1, 2])
    below = [-x + 2.5 * y <= 3.75, x + 2.5 * y >= 3.75, 2.5 * x + y <= 8.75]
    problem = bm.BilevelProblem(
        cp.Minimize(x + 2 * y), [], bm.Lower(cp.Maximize(y), below, variables=[y])
    )

    def is_below(x, y):
        rows = (-x[0] + 2.5 * y[0] - 3.75, 3.75 - x[0] - 2.5 * y[0], 2.5 * x[0] + y[0] - 8.75)
        return y[0] >= 1 and max(rows) <= 0

    best = best_by_enumeration(
        [3], [2], lambda x, y: x[0] + 2 * y[0], lambda x, y: -y[0], is_below, lambda x, y: True
    )
    assert_solved(problem, best)


def test_an_infimum_that_no_point_attains():
    # Koeppe, Queyranne and Ryan 2010: y = 1 for every x > 0, but y = 0 at x = 0.
    x, y = cp.Variable(name="x", bounds=[0, 1]), cp.Variable(name="y", integer=True, bounds=[0, 1])
    problem = bm.BilevelProblem(
        cp.Minimize(x - y), [], bm.Lower(cp.Minimize(y), [y >= x], variables=[y])
    )
    value = problem.solve()
    assert value == pytest.approx(-1, abs=1e-3)  # as near as one likes
    assert problem.certificate.bound <= -1 + 1e-9


@pytest.mark.parametrize("slope", [0.5, -0.5])
def test_whole_answers_to_a_real_variable_jump(slope):
    # The best x lies where a better answer for the follower has just become impossible.
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y", integer=True)
    f = cp.nlp.sin(2 * x[0]) + 0.9 * x[0] + 2.2 * x[1] + 1.1 * y[1]
    g = -2 * cp.sum(cp.log(y + 1)) - 0.3 * y[0] - 2.1 * y[1] + (0.7 * y[0] + slope * y[1]) * x[0]
    below = [
        -0.2 * x[0] + 0.3 * y[0] - 0.2 * y[1] <= -0.1,
        -1.5 * x[0] + 0.4 * y[0] + 1.1 * y[1] <= -0.3,
    ]
    lower = bm.Lower(cp.Minimize(g), [*below, y >= 0, y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= [-1, -1], x <= [2.5, 1.5]], lower)
    best = np.inf
    for at in np.linspace(-1, 2.5, 7001):
        allowed = [
            y
            for y in grid([2, 2])
            if -0.2 * at + 0.3 * y[0] - 0.2 * y[1] <= -0.1 + 1e-12
            and -1.5 * at + 0.4 * y[0] + 1.1 * y[1] <= -0.3 + 1e-12
        ]
        values = [
            -2 * np.log(y + 1).sum() - 0.3 * y[0] - 2.1 * y[1] + (0.7 * y[0] + slope * y[1]) * at
            for y in allowed
        ]
        own = [y for y, value in zip(allowed, values, strict=True) if value <= min(values) + 1e-12]
        best = min([best, *(np.sin(2 * at) + 0.9 * at - 2.2 + 1.1 * y[1] for y in own)])
    value = problem.solve(time_limit=30)
    assert problem.certificate.accepted
    assert value <= best + 2e-3
    assert problem.certificate.bound <= best + 1e-5


def test_denegre_with_a_real_upper_variable():
    # The same with x real: the lower answer is the least whole y above max((15 - 2 x) / 10, 2 x - 15).
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(name="y", integer=True, nonneg=True)
    below = [-25 * x + 20 * y <= 30, x + 2 * y <= 10, 2 * x - y <= 15, 2 * x + 10 * y >= 15]
    problem = bm.BilevelProblem(
        cp.Minimize(-x - 10 * y), [], bm.Lower(cp.Minimize(y), below, variables=[y])
    )
    best = np.inf
    for at in np.linspace(0, 10, 4001):
        answers = [
            k
            for k in range(6)
            if -25 * at + 20 * k <= 30
            and at + 2 * k <= 10
            and 2 * at - k <= 15
            and 2 * at + 10 * k >= 15
        ]
        if answers:
            best = min(best, -at - 10 * min(answers))
    value = problem.solve(time_limit=20)
    assert problem.certificate.accepted
    assert problem.certificate.bound <= best + 1e-6  # which is no false bound
    assert value <= best + 0.01 * abs(best) or problem.status != "optimal"


# Whole numbers at both levels


def pure(seed, kind):
    draw = np.random.default_rng(seed)
    n_x, n_y = draw.integers(1, 4), draw.integers(1, 4)
    high_x, high_y = draw.integers(1, 5, n_x), draw.integers(1, 5, n_y)
    m = int(draw.integers(0, 4))
    A, B = draw.integers(-3, 4, (m, n_x)).astype(float), draw.integers(-3, 5, (m, n_y)).astype(float)
    b = draw.integers(2, 10, m).astype(float)
    if kind == "fractions":
        A, B = A / 2, B / 4
    c_x, c_y, d = draw.integers(-5, 6, n_x), draw.integers(-5, 6, n_y), draw.integers(-5, 6, n_y)
    shift = draw.normal(size=(n_y, n_x)).round(1)
    e_x, e_y = draw.integers(1, 3, n_x).astype(float), draw.integers(1, 3, n_y).astype(float)
    u_x, u_y, u = draw.integers(-2, 3, n_x), draw.integers(-2, 3, n_y), float(draw.integers(1, 5))
    is_coupled, is_curved, has_equation = draw.random() < 0.4, kind == "quadratic", kind == "equation"

    x = cp.Variable(n_x, name="x", integer=True, bounds=[0, high_x])
    y = cp.Variable(n_y, name="y", integer=True, bounds=[0, high_y])
    f, g = c_x @ x + c_y @ y, d @ y
    if is_curved:
        f, g = f + cp.sum_squares(x - 1) + (y[0] - 1) ** 2, g + cp.sum_squares(y - shift @ x)
    below = [A @ x + B @ y <= b] if m else []
    below += [e_y @ y == e_x @ x] if has_equation else []
    above = [u_x @ x + u_y @ y <= u] if is_coupled else []
    problem = bm.BilevelProblem(cp.Minimize(f), above, bm.Lower(cp.Minimize(g), below, variables=[y]))

    def f_at(x, y):
        curved = ((x - 1) ** 2).sum() + (y[0] - 1) ** 2 if is_curved else 0.0
        return c_x @ x + c_y @ y + curved

    def g_at(x, y):
        return d @ y + (((y - shift @ x) ** 2).sum() if is_curved else 0.0)

    def is_below(x, y):
        return np.all(A @ x + B @ y <= b + 1e-9) and (not has_equation or e_y @ y == e_x @ x)

    def is_above(x, y):
        return not is_coupled or u_x @ x + u_y @ y <= u + 1e-9

    return problem, best_by_enumeration(high_x, high_y, f_at, g_at, is_below, is_above)


@pytest.mark.parametrize("kind", ["whole", "fractions", "quadratic", "equation"])
@pytest.mark.parametrize("seed", first_few(range(8), 2))
def test_whole_numbers_at_both_levels(seed, kind):
    assert_solved(*pure(seed, kind))


# Whole numbers above, real numbers below


def above(seed, kind):
    draw = np.random.default_rng(seed)
    n_x, n_y = draw.integers(1, 4), draw.integers(1, 4)
    high, m = draw.integers(1, 4, n_x), int(draw.integers(1, 5))
    A, B = draw.normal(size=(m, n_x)).round(1), draw.normal(size=(m, n_y)).round(1)
    b, d = draw.uniform(1, 5, m).round(1), draw.normal(size=n_y).round(1)
    c_x, c_y = draw.integers(-5, 6, n_x), draw.integers(-5, 6, n_y)
    shift = draw.normal(size=(n_y, n_x)).round(1)
    x = cp.Variable(n_x, name="x", integer=True, bounds=[0, high])
    y = cp.Variable(n_y, name="y", bounds=[0, 4])
    g = d @ y if kind == "linear" else cp.sum_squares(y - shift @ x) + d @ y
    lower = bm.Lower(cp.Minimize(g), [A @ x + B @ y <= b], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(c_x @ x + c_y @ y), [], lower)
    best = np.inf
    for at in grid(high):
        right, box = b - A @ at, [(0, 4)] * n_y
        if kind == "linear":
            least = linprog(d, A_ub=B, b_ub=right, bounds=box)
            if least.status == 0:
                face = np.vstack([B, d]), np.append(right, least.fun + 1e-9)
                best = min(best, c_x @ at + linprog(c_y, A_ub=face[0], b_ub=face[1], bounds=box).fun)
            continue
        z = cp.Variable(n_y)
        fixed = cp.Problem(
            cp.Minimize(cp.sum_squares(z - shift @ at) + d @ z), [B @ z <= right, z >= 0, z <= 4]
        )
        fixed.solve(solver=cp.CLARABEL)
        if fixed.status == "optimal":
            best = min(best, c_x @ at + c_y @ z.value)
    return problem, best


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
@pytest.mark.parametrize("seed", first_few(range(6), 2))
def test_whole_numbers_above(seed, kind):
    assert_solved(*above(seed, kind))


# Interdiction


def knapsack(seed, n):
    draw = np.random.default_rng(seed)
    gain, weight, cost = (draw.integers(1, 20, n).astype(float) for _ in range(3))
    room, budget = float(weight.sum() // 2), float(cost.sum() // 3)
    x, y = cp.Variable(n, boolean=True, name="x"), cp.Variable(n, boolean=True, name="y")
    lower = bm.Lower(cp.Maximize(gain @ y), [weight @ y <= room, y <= 1 - x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(gain @ y), [cost @ x <= budget], lower)
    points = grid([1] * n)
    packed = [(gain @ y, y) for y in points if weight @ y <= room]
    attacks = [x for x in points if cost @ x <= budget]
    best = min(max(value for value, y in packed if not np.any((x > 0.5) & (y > 0.5))) for x in attacks)
    return problem, best


@pytest.mark.parametrize(("seed", "n"), [(0, 5), (1, 6), pytest.param(2, 8, marks=pytest.mark.slow)])
def test_interdicted_knapsack(seed, n):
    assert_solved(*knapsack(seed, n))


def test_interdicted_shortest_path():
    # A grid of 3 x 3 nodes, right and down; two edges may be lengthened.
    draw, side = np.random.default_rng(3), 3
    edges = [
        (i * side + j, a * side + b)
        for i, j in itertools.product(range(side), repeat=2)
        for a, b in ((i + 1, j), (i, j + 1))
        if a < side and b < side
    ]
    m, n = len(edges), side * side
    length, more = draw.integers(1, 10, m).astype(float), draw.integers(1, 10, m).astype(float)
    incidence, right = np.zeros((n, m)), np.zeros(n)
    for k, (a, b) in enumerate(edges):
        incidence[a, k], incidence[b, k] = 1, -1
    right[0], right[-1] = 1, -1
    x, y = cp.Variable(m, boolean=True, name="attack"), cp.Variable(m, nonneg=True, name="flow")
    total = (length + cp.multiply(more, x)) @ y
    lower = bm.Lower(cp.Minimize(total), [incidence[:-1] @ y == right[:-1]], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(total), [cp.sum(x) <= 2], lower)
    best = -np.inf
    for attacked in itertools.combinations(range(m), 2):
        distance = np.full(n, np.inf)
        distance[0] = 0.0
        for k, (a, b) in enumerate(edges):  # in the order of the nodes, so that one pass is enough
            distance[b] = min(distance[b], distance[a] + length[k] + more[k] * (k in attacked))
        best = max(best, distance[-1])
    value = problem.solve()
    assert value == pytest.approx(best, abs=1e-5)
    assert problem.status == "optimal"


# Mixed levels


@pytest.mark.parametrize("seed", first_few(range(4), 1))
def test_real_and_whole_numbers_at_both_levels(seed):
    # x = (whole, real), y = (whole, real): for a fixed whole part above, a fine grid of the real one.
    draw = np.random.default_rng(seed)
    a, d = draw.integers(-3, 4, 2).astype(float), draw.integers(1, 4, 2).astype(float)
    x, z = cp.Variable(name="x", integer=True, bounds=[0, 3]), cp.Variable(name="z", bounds=[0, 1])
    y, w = cp.Variable(name="y", integer=True, bounds=[0, 4]), cp.Variable(name="w", bounds=[0, 4])
    below = [y + w >= x + 0.5 * z, w <= 2.5]
    lower = bm.Lower(cp.Minimize(d[0] * y + (d[1] + 0.5) * w), below, variables=[y, w])
    problem = bm.BilevelProblem(cp.Minimize(a[0] * x + a[1] * z + y - 2 * w), [], lower)
    best = np.inf
    for whole, real in itertools.product(range(4), np.linspace(0, 1, 201)):
        need, options = whole + 0.5 * real, []
        for count in range(5):
            rest = max(need - count, 0.0)
            if rest <= 2.5:
                options.append((d[0] * count + (d[1] + 0.5) * rest, count - 2 * rest))
        least = min(g for g, _ in options)
        part = min(f for g, f in options if g <= least + 1e-9)
        best = min(best, a[0] * whole + a[1] * real + part)
    value = problem.solve(time_limit=5)  # no proof: y jumps between values of x
    assert problem.certificate.accepted
    assert problem.certificate.bound is None or problem.certificate.bound <= best + 1e-6
    assert value >= best - 0.05  # the grid's own distance from the optimum
    if problem.status == "optimal":
        assert value <= best + 1e-3


def test_several_followers_with_integers():
    x = cp.Variable(name="x", integer=True, bounds=[0, 5])
    y = [cp.Variable(name=f"y{k}", integer=True, bounds=[0, 5]) for k in range(2)]
    firms = [
        bm.Lower(cp.Minimize((2 * own - x - k) ** 2), [], variables=[own], name=f"firm {k}")
        for k, own in enumerate(y)
    ]
    problem = bm.BilevelProblem(cp.Minimize((x - 3) ** 2 - y[0] - 2 * y[1]), [], firms)
    best = np.inf
    for at in range(6):
        total = (at - 3) ** 2
        for k, weight in ((0, 1), (1, 2)):
            values = [(2 * own - at - k) ** 2 for own in range(6)]
            total -= weight * max(own for own in range(6) if values[own] == min(values))
        best = min(best, total)
    assert_solved(problem, best)
    assert set(problem.certificate.follower_gaps) == {"'firm 0'", "'firm 1'"}


@pytest.mark.parametrize("side", first_few((5, 7, 9), 1))
def test_attacks_on_a_larger_grid(side):
    """Five edges, up ones too; SciPy maximises the dual of the path, a mixed-integer program."""
    draw, places = np.random.default_rng(0), range(side)
    edges = [
        (i * side + j, a * side + b)
        for i, j in itertools.product(places, places)
        for a, b in ((i + 1, j), (i, j + 1), (i - 1, j))
        if a in places and b in places
    ]
    m, n = len(edges), side * side
    length, more = draw.integers(1, 10, m).astype(float), draw.integers(1, 10, m).astype(float)
    incidence, right = np.zeros((n, m)), np.zeros(n)
    for k, (a, b) in enumerate(edges):
        incidence[a, k], incidence[b, k] = 1, -1
    right[0], right[-1] = 1, -1
    x, y = cp.Variable(m, boolean=True, name="attack"), cp.Variable(m, nonneg=True, name="flow")
    total = (length + cp.multiply(more, x)) @ y
    lower = bm.Lower(cp.Minimize(total), [incidence[:-1] @ y == right[:-1]], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(total), [cp.sum(x) <= 5], lower)
    rows = optimize.LinearConstraint(np.hstack([incidence.T, -np.diag(more)]), ub=length)
    budget = optimize.LinearConstraint(np.append(np.zeros(n), np.ones(m)), ub=5)
    free = np.append(np.full(n, np.inf), np.zeros(m))
    least, most = -free, np.append(np.full(n, np.inf), np.ones(m))
    least[n - 1] = most[n - 1] = 0.0
    known = optimize.milp(
        -np.append(right, np.zeros(m)),
        constraints=[rows, budget],
        bounds=optimize.Bounds(least, most),
        integrality=np.append(np.zeros(n), np.ones(m)),
    )
    assert problem.solve() == pytest.approx(-known.fun, abs=1e-5)
    assert problem.status == "optimal"
