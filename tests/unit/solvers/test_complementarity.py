"""Complementarity QPs: brute force over all pieces, known bilevel optima, limits, local search."""

from __future__ import annotations

import itertools
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.complementarity import (
    ComplementarityQP,
    ComplementarityStatus,
    solve_globally,
    solve_locally,
)
from blomodel.solvers.convex_qp import ConvexProgram, solve_convex_qp

Status = ComplementarityStatus


def random_problem(seed, *, is_linear, n=6, pairs=4, rows=6, box=10.0):
    """A feasible problem with degenerate rows, and the complementary point it was built around."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, n - 2))
    P = np.zeros((n, n)) if is_linear else factor @ factor.T
    q = rng.standard_normal(n)
    A_eq, A_in = rng.standard_normal((1, n)), rng.standard_normal((rows, n))
    z = np.abs(rng.standard_normal(n))
    z[:pairs] *= rng.random(pairs) < 0.5
    slack = rng.random(rows) * (rng.random(rows) < 0.7)
    slack[:pairs] *= z[:pairs] == 0
    b_in = A_in @ z + slack
    if np.isfinite(box):
        A_in, b_in = np.vstack([A_in, np.eye(n), -np.eye(n)]), np.r_[b_in, np.full(2 * n, box)]
    index = np.arange(pairs)
    return ComplementarityQP(P, q, A_eq, A_eq @ z, A_in, b_in, index, index), z


def every_piece(problem):
    for choice in itertools.product((True, False), repeat=len(problem.rows)):
        choice = np.array(choice, dtype=bool)
        yield problem.rows[choice], problem.columns[~choice]


def linear_brute_force(problem):
    best = np.inf
    for tight, zero in every_piece(problem):
        bounds = [(None, None)] * len(problem.q)
        for j in problem.columns:
            bounds[j] = (0, 0 if j in zero else None)
        A = np.vstack([problem.A_eq, problem.A_in[tight]])
        b = np.r_[problem.b_eq, problem.b_in[tight]]
        result = linprog(problem.q, problem.A_in, problem.b_in, A, b, bounds, method="highs-ds")
        if result.status == 3:
            return -np.inf
        if result.status == 0:
            best = min(best, result.fun)
    return best


def quadratic_brute_force(problem):
    """Every piece by cvxpy with OSQP, which the code under test does not use."""
    import cvxpy as cp

    best = np.inf
    for tight, zero in every_piece(problem):
        z = cp.Variable(len(problem.q))
        constraints = [
            problem.A_eq @ z == problem.b_eq,
            problem.A_in @ z <= problem.b_in,
            z[problem.columns] >= 0,
            problem.A_in[tight] @ z == problem.b_in[tight],
            z[zero] == 0,
        ]
        objective = 0.5 * cp.quad_form(z, cp.psd_wrap(problem.P)) + problem.q @ z
        piece = cp.Problem(cp.Minimize(objective), constraints)
        with warnings.catch_warnings():  # an empty piece may end as "inaccurate"; it is not used
            warnings.simplefilter("ignore")
            piece.solve(solver="OSQP", eps_abs=1e-9, eps_rel=1e-9, max_iter=100_000)
        if piece.status == "optimal":
            best = min(best, piece.value)
    return best


def random_bilevel_qp(n, seed):
    """KKT form of: min 1/2|x-xh|^2 + 1/2|y-yh|^2, |x| <= 5, y minimising a strictly convex QP.

    Lower level: 1/2 y'Qy + (Cx+q)'y over Ay <= b + Bx. Also returns the lower data.
    """
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, n))
    Q = M @ M.T / n + np.eye(n)
    C = rng.standard_normal((n, n)) / np.sqrt(n)
    q = rng.standard_normal(n)
    A = rng.standard_normal((n, n)) / np.sqrt(n)
    b = rng.uniform(0.2, 1.0, n)
    B = 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
    target = rng.standard_normal(2 * n)
    eye, zero = np.eye(n), np.zeros((n, n))
    problem = ComplementarityQP(
        P=sp.diags_array(np.r_[np.ones(2 * n), np.zeros(n)], format="csc"),
        q=np.r_[-target, np.zeros(n)],
        A_eq=sp.csc_array(np.hstack([C, Q, A.T])),
        b_eq=-q,
        A_in=sp.csc_array(np.block([[-B, A, zero], [eye, zero, zero], [-eye, zero, zero]])),
        b_in=np.r_[b, np.full(2 * n, 5.0)],
        rows=np.arange(n),
        columns=2 * n + np.arange(n),
    )
    return problem, (Q, C, q, A, b, B)


def lower_answer(lower, x):
    """The point (x, y(x), multipliers), feasible for the KKT form."""
    Q, C, q, A, b, B = lower
    answer = solve_convex_qp(Q, q + C @ x, None, None, A, b + B @ x)
    assert answer.status is InnerStatus.OPTIMAL
    return np.r_[x, answer.y, answer.multipliers]


def linear_bilevel(c_x, c_y, d_y, A, B, r, upper=None):
    """KKT form of: min c_x x + c_y y, x >= 0, y in argmin {d_y y : Ax + By <= r, y >= 0}.

    z = (x, y, multipliers of the rows, multipliers of y >= 0).
    """
    A, B, r = np.atleast_2d(A), np.atleast_2d(B), np.asarray(r, dtype=float)
    m, nx, ny = r.size, A.shape[1], B.shape[1]
    n = nx + ny + m + ny
    A_eq = np.hstack([np.zeros((ny, nx + ny)), B.T, -np.eye(ny)])
    own = np.hstack([A, B, np.zeros((m, m + ny))])
    signs = -np.eye(n)[: nx + ny]
    rows_up, right_up = (np.zeros((0, n)), np.zeros(0)) if upper is None else upper(n)
    return ComplementarityQP(
        P=None,
        q=np.r_[c_x, c_y, np.zeros(m + ny)],
        A_eq=A_eq,
        b_eq=-np.asarray(d_y, dtype=float),
        A_in=np.vstack([own, signs, rows_up]),
        b_in=np.r_[r, np.zeros(nx + ny), right_up],
        rows=np.r_[np.arange(m), m + nx + np.arange(ny)],
        columns=nx + ny + np.arange(m + ny),
    )


def bard_5_3_1():
    return linear_bilevel(
        [-8, -4],
        [4, -40, -4],
        [1, 1, 2],
        [[0, 0], [2, 0], [0, 2]],
        [[-1, 1, 1], [-1, 2, -0.5], [2, -1, -0.5]],
        [1, 1, 1],
    )


@pytest.mark.parametrize("box", [10.0, np.inf])
@pytest.mark.parametrize("seed", range(20))
def test_linear_global_matches_brute_force(seed, box):
    problem, _ = random_problem(seed, is_linear=True, box=box)
    expected = linear_brute_force(problem)
    result = solve_globally(problem)
    if expected == -np.inf:
        assert result.status is Status.UNBOUNDED and result.value == -np.inf
        return
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(expected, abs=1e-8)
    assert problem.violation(result.z) <= 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_quadratic_global_matches_brute_force(seed):
    problem, start = random_problem(seed, is_linear=False, pairs=3)
    result = solve_globally(problem)
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(quadratic_brute_force(problem), abs=1e-6)
    assert problem.objective(result.z) == pytest.approx(result.value, abs=1e-12)
    assert problem.violation(result.z) <= 1e-9
    assert result.value - 1e-8 * max(1, abs(result.value)) <= result.bound <= result.value
    local = solve_locally(problem, start)
    assert local.status is Status.LOCAL
    assert result.value - 1e-9 <= local.value <= problem.objective(start) + 1e-9


def test_bard_5_3_1():
    result = solve_globally(bard_5_3_1())
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(-29.2, abs=1e-9)
    np.testing.assert_allclose(result.z[:5], [0, 0.9, 0, 0.6, 0.4], atol=1e-9)


def test_bialas_karwan():
    # Upper max y, lower min y over the polygon of Bialas and Karwan; the optimum is (16, 11).
    problem = linear_bilevel(
        [0],
        [-1],
        [1],
        [[-1], [1], [2], [1], [-1]],
        [[-2], [-2], [-1], [2], [2]],
        [-10, 6, 21, 38, 18],
    )
    result = solve_globally(problem)
    assert result.status is Status.OPTIMAL
    np.testing.assert_allclose(result.z[:2], [16, 11], atol=1e-8)


def test_infeasible_only_through_complementarity():
    # z0 >= 1 and slack >= 1 always: both sides are empty, the relaxation is not.
    problem = ComplementarityQP(
        np.eye(2), [0, 0], None, None, [[0, 1], [-1, 0], [0, 1]], [1, -1, 0], [0], [0]
    )
    result = solve_globally(problem)
    assert (result.status, result.z, result.value) == (Status.INFEASIBLE, None, np.inf)
    assert solve_locally(problem, [1, 0]).status is Status.INFEASIBLE


def test_infeasible_relaxation():
    problem = ComplementarityQP(None, [1.0], [[1.0]], [-1.0], [[1.0]], [5.0], [0], [0])
    assert solve_globally(problem).status is Status.INFEASIBLE


@pytest.mark.parametrize("curvature", [0.0, 1.0])
@pytest.mark.parametrize("copies", [1, 3])
def test_unbounded_relaxation_with_bounded_pieces(curvature, copies):
    # min -z0 with z0 <= 1 + z1 and (-z1 <= 0 tight or z0 = 0): without the pair z0 and z1 grow
    # for ever together, with it the value is -1. The third variable only adds curvature.
    block = np.array([[1.0, -1.0, 0.0], [0.0, -1.0, 0.0]])
    problem = ComplementarityQP(
        np.kron(np.eye(copies), np.diag([0.0, 0.0, curvature])),
        np.tile([-1.0, 0.0, 0.0], copies),
        None,
        None,
        np.kron(np.eye(copies), block),
        np.tile([1.0, 0.0], copies),
        2 * np.arange(copies) + 1,
        3 * np.arange(copies),
    )
    result = solve_globally(problem)
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(-copies)
    assert problem.violation(result.z) <= 1e-9


def test_unbounded_in_one_piece_only():
    problem = ComplementarityQP(None, [1, -1], None, None, [[-1, 0], [1, -1]], [0, 0], [1], [0])
    result = solve_globally(problem, incumbent=[1.0, 1.0])
    assert (result.status, result.bound) == (Status.UNBOUNDED, -np.inf)


def test_quadratic_unbounded():
    problem = ComplementarityQP(np.diag([1.0, 0.0]), [0, -1], None, None, [[1, 0]], [1], [0], [1])
    assert solve_globally(problem).status is Status.UNBOUNDED
    assert solve_locally(problem, [1, 1]).status is Status.UNBOUNDED


def test_row_without_bound_forces_the_variable_to_zero():
    problem = ComplementarityQP(np.eye(2), [-1, -1], None, None, [[1, 0]], [np.inf], [0], [1])
    result = solve_globally(problem)
    assert result.status is Status.OPTIMAL
    np.testing.assert_allclose(result.z, [1, 0], atol=1e-9)


def test_no_pairs_is_a_convex_program():
    problem = ComplementarityQP(np.eye(2), [-1, -3], None, None, [[0, 1]], [2], [], [])
    result = solve_globally(problem)
    assert result.status is Status.OPTIMAL and result.nodes <= 2
    np.testing.assert_allclose(result.z, [1, 2], atol=1e-9)
    assert solve_locally(problem, [0, 0]).status is Status.LOCAL


def test_incumbent_prunes():
    problem, _ = random_bilevel_qp(12, seed=4)
    plain = solve_globally(problem)
    warm = solve_globally(problem, incumbent=plain.z)
    assert warm.status is Status.OPTIMAL
    assert warm.value == pytest.approx(plain.value, abs=1e-8)
    assert warm.nodes <= plain.nodes + 1


def test_infeasible_incumbent_is_ignored():
    problem = bard_5_3_1()
    result = solve_globally(problem, incumbent=np.full(len(problem.q), 100.0))
    assert result.value == pytest.approx(-29.2, abs=1e-9)


def test_limits_are_reported_honestly():
    problem, lower = random_bilevel_qp(20, seed=0)
    start = lower_answer(lower, np.zeros(20))
    best = solve_globally(problem).value
    few = solve_globally(problem, node_limit=3, incumbent=start)
    assert few.status is Status.LIMIT
    assert problem.violation(few.z) <= 1e-9
    assert few.bound <= best + 1e-8 and few.bound < few.value and few.value >= best - 1e-8
    none = solve_globally(problem, node_limit=0)
    assert (none.status, none.z, none.bound) == (Status.LIMIT, None, -np.inf)
    began = time.perf_counter()
    brief = solve_globally(problem, deadline=Deadline.after(0.01))
    assert time.perf_counter() - began < 1.0
    assert brief.status in (Status.LIMIT, Status.OPTIMAL)
    assert solve_globally(problem, stop=lambda: True).status is Status.LIMIT


def test_local_search_descends_to_a_local_minimum():
    problem, lower = random_bilevel_qp(50, seed=0)
    start = lower_answer(lower, np.zeros(50))
    assert problem.violation(start) <= 1e-9
    result = solve_locally(problem, start)
    assert result.status is Status.LOCAL
    assert problem.violation(result.z) <= 1e-9
    assert result.value < problem.objective(start) - 1.0
    # The lower level's own answer gives the same point, and no nearby x gives a better one.
    x = result.z[:50]
    np.testing.assert_allclose(lower_answer(lower, x), result.z, atol=1e-6)
    rng = np.random.default_rng(1)
    for _ in range(20):
        nearby = np.clip(x + 1e-3 * rng.standard_normal(50), -5, 5)
        assert problem.objective(lower_answer(lower, nearby)) >= result.value - 1e-8


def test_local_search_leaves_a_biactive_point():
    # At 0 both sides hold; the pieces are {z0 = 0, z1 >= 0} and {z1 = 0, z0 >= 0}: from either
    # side the better one, z1 = 3, must be found.
    problem = ComplementarityQP(np.eye(2), [1, -3], None, None, [[-1, 0]], [0], [0], [1])
    result = solve_locally(problem, [0, 0])
    assert result.status is Status.LOCAL
    np.testing.assert_allclose(result.z, [0, 3], atol=1e-9)
    trapped = ComplementarityQP(np.eye(2), [-1, -3], None, None, [[-1, 0]], [0], [0], [1])
    assert solve_locally(trapped, [1, 0]).value == pytest.approx(-0.5)
    assert solve_globally(trapped).value == pytest.approx(-4.5)


def test_local_search_from_an_infeasible_start():
    problem = bard_5_3_1()
    result = solve_locally(problem, np.random.default_rng(0).random(len(problem.q)))
    assert result.status is Status.LOCAL
    assert problem.violation(result.z) <= 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_convex_qp_against_scipy(seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((5, 5))
    P, q = factor @ factor.T, rng.standard_normal(5)
    A_eq, A_in = rng.standard_normal((2, 5)), rng.standard_normal((4, 5))
    inside = rng.standard_normal(5)
    b_eq, b_in = A_eq @ inside, A_in @ inside + rng.random(4)
    answer = solve_convex_qp(P, q, A_eq, b_eq, A_in, b_in)
    assert answer.status is InnerStatus.OPTIMAL
    z, value, dual_eq, dual_in = answer.y, answer.value, answer.multipliers[:2], answer.multipliers[2:]
    np.testing.assert_allclose(P @ z + q + A_eq.T @ dual_eq + A_in.T @ dual_in, 0, atol=1e-9)
    assert np.all(dual_in >= 0) and np.all(A_in @ z <= b_in + 1e-9)
    assert abs(dual_in @ (b_in - A_in @ z)) <= 1e-9
    reference = minimize(
        lambda z: 0.5 * z @ P @ z + q @ z,
        inside,
        jac=lambda z: P @ z + q,
        constraints=[
            {"type": "eq", "fun": lambda z: A_eq @ z - b_eq, "jac": lambda z: A_eq},
            {"type": "ineq", "fun": lambda z: b_in - A_in @ z, "jac": lambda z: -A_in},
        ],
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert value == pytest.approx(reference.fun, abs=1e-6)


@pytest.mark.parametrize(
    ("P", "q", "rows", "right", "expected", "value"),
    [
        (None, [1.0, 1.0], None, None, InnerStatus.UNBOUNDED, -np.inf),
        (None, [0.0, 0.0], None, None, InnerStatus.OPTIMAL, 0.0),
        (np.eye(2), [1.0, 1.0], None, None, InnerStatus.OPTIMAL, -1.0),
        (np.diag([1.0, 0.0]), [1.0, 1.0], None, None, InnerStatus.UNBOUNDED, -np.inf),
        (None, [0.0, 1.0], [[0, -1]], [-3], InnerStatus.OPTIMAL, 3.0),
        (None, [0.0, 1.0], [[0, -1], [0, 1]], [-3, 2], InnerStatus.INFEASIBLE, np.inf),
        (np.eye(2), [0.0, 1.0], [[0, -1], [0, 1]], [-3, 2], InnerStatus.INFEASIBLE, np.inf),
        (np.eye(2), [0.0, 1.0], [[0, -1], [1, 0]], [-3, np.inf], InnerStatus.OPTIMAL, 7.5),
        (None, [], None, None, InnerStatus.OPTIMAL, 0.0),
    ],
)
def test_convex_qp_statuses(P, q, rows, right, expected, value):
    solution = solve_convex_qp(P, q, None, None, rows, right)
    assert solution.status is expected
    assert solution.value == pytest.approx(value, abs=1e-9)


def test_convex_lp_multiplier_signs():
    # min z with z >= 1 and z = w: the multiplier of -z <= -1 is one, that of z - w = 0 is free.
    solution = solve_convex_qp(None, [1.0, 0.0], [[1.0, -1.0]], [0.0], [[0.0, -1.0]], [-1.0])
    np.testing.assert_allclose(solution.multipliers, [-1.0, 1.0])


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="expected"):
        solve_convex_qp(None, [1.0, 0.0], [[1.0]], [0.0], None, None)
    with pytest.raises(ValueError, match="pair"):
        solve_globally(ComplementarityQP(None, [1.0], None, None, [[1.0]], [1.0], [0], []))


def test_a_piece_is_left_when_its_time_is_over():
    n, rng = 300, np.random.default_rng(0)
    factor = rng.normal(size=(n, n))
    rows, right = rng.normal(size=(2 * n, n)), rng.uniform(1, 2, 2 * n)
    parts = factor @ factor.T, rng.normal(size=n), None, None, rows, right

    def seconds(deadline: Deadline, status: InnerStatus) -> float:
        program = ConvexProgram(*parts)
        began = time.process_time()
        assert program.solve(deadline=deadline).status is status
        return time.process_time() - began

    ConvexProgram(
        np.eye(2), np.ones(2), None, None, np.eye(2), np.ones(2)
    ).solve()  # loads what it needs
    stopped = min(seconds(Deadline.after(1e-3), InnerStatus.FAILED) for _ in range(3))
    assert stopped < 0.5 * min(seconds(NEVER, InnerStatus.OPTIMAL) for _ in range(2))


def test_a_slope_left_in_a_large_entry_is_no_bound():
    # min (w - 8)^2 / 64 - 1, where w and an entry 2,048 times as large stand in one equation: slopes of
    # 1e-7 in the latter, which look like nothing, are worth 1e-5.
    problem = ComplementarityQP(
        np.diag([1 / 32, 0, 0, 0]),
        np.array([-0.25, 0, 0, 0]),
        np.array([[-1525.87891, 0.74505806, -1, 1]]),
        np.zeros(1),
        np.array([[0, -1.0, 0, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [1, 0, 0, 0]]),
        np.array([16384.0, 32768, 8, 16]),
        np.array([0, 1]),
        np.array([2, 3]),
    )
    result = solve_globally(problem)
    assert result.status is Status.OPTIMAL
    assert result.z[0] == pytest.approx(8, abs=1e-6)
    assert result.bound <= -1 + 1e-10
