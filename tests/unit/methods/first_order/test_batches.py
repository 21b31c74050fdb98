"""Mini-batches: the same as the whole method with all rows, reproducible, and right in the end."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse.linalg import spsolve

import blomodel as bm
from blomodel.compiler.row_parts import NotASumError
from blomodel.compiler.team import Team
from tests.support.slow_cases import first_few

METHODS = ["meha", "alt-pbgd", "f2sa", "pbgd-free"]
N, K = 200, 4


def _data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    true = random.standard_normal(K)
    A, V = random.standard_normal((N, K)), random.standard_normal((N // 2, K))
    return A, A @ true + random.standard_normal(N), V, V @ true + random.standard_normal(N // 2)


def _ridge(seed: int = 0) -> bm.BilevelProblem:
    """A ridge weight chosen by validation; f holds x, so that pbgd-free has something to go by."""
    A, b, V, c = _data(seed)
    x, y = cp.Variable(name="x"), cp.Variable(K, name="y")
    g = cp.sum_squares(A @ y - b) / N + (1 + x) * cp.sum_squares(y)
    f = cp.sum_squares(V @ y - c) / len(c) + 0.5 * cp.square(x - 0.5)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 2], lower)


def _cleaning(n: int, seed: int = 0) -> bm.BilevelProblem:
    """A weight for each sample, some of which have the wrong sign."""
    random = np.random.default_rng(seed)
    true = random.standard_normal(K)
    A, V = random.standard_normal((n, K)), random.standard_normal((n, K))
    b, c = A @ true, V @ true
    b[: n // 3] *= -1
    x, y = cp.Variable(n, name="x"), cp.Variable(K, name="y")
    g = cp.sum(cp.multiply(x, cp.square(A @ y - b))) / n + 0.01 * cp.sum_squares(y)
    f = cp.sum_squares(V @ y - c) / n
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)


@pytest.mark.parametrize("name", METHODS)
def test_all_rows_in_every_batch_is_the_whole_method(name: str) -> None:
    settings = {"penalty": 5.0, "step_x": 0.05, "step_y": 0.1, "max_steps": 15}
    if name == "meha":
        settings |= {"penalty_power": 0.3, "proximal": 1.0, "step_theta": 0.1}
    else:
        settings |= {"inner_steps": 3}
    ends = []
    for batch_size in (None, N):
        problem = _ridge()
        problem.solve(method=name, batch_size=batch_size, **settings)
        assert problem.solution is not None
        assert problem.solution.iterations == 15
        ends.append(problem.solution.iterate)
    for variable in ("x", "y"):
        np.testing.assert_allclose(ends[1][variable], ends[0][variable], rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_result(name: str) -> None:
    ends = []
    for seed in (1, 1, 2):
        problem = _ridge()
        problem.solve(method=name, batch_size=8, seed=seed, max_steps=60)
        assert problem.solution is not None
        ends.append(problem.solution.iterate["y"])
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_run_ends_where_the_whole_one_does(name: str) -> None:
    ends = []
    for limits in ((40,), (17, 23)):
        problem, earlier = _ridge(), None
        for limit in limits:
            problem.solve(method=name, batch_size=8, max_iterations=limit, resume=earlier)
            earlier = problem.solution
        assert earlier is not None
        assert earlier.iterations == 40
        ends.append(earlier.iterate["y"])
    np.testing.assert_array_equal(ends[0], ends[1])


@pytest.mark.parametrize("name", METHODS)
def test_a_number_of_threads_gives_one_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random, n = np.random.default_rng(0), 40_000
    A = random.standard_normal((n, 10))
    divided, do = [], Team.do

    def watched(team: Team, *arguments: int) -> bool:
        divided.append(do(team, *arguments))
        return divided[-1]

    monkeypatch.setattr(Team, "do", watched)
    ends = {}
    for threads, again in ((1, False), (2, False), (2, True)):
        x, y = cp.Variable(name="x"), cp.Variable(10, name="y")
        g = cp.sum(cp.logistic(A @ y)) / n + cp.exp(x) * cp.sum_squares(y)
        lower = bm.Lower(cp.Minimize(g), [], variables=[y])
        upper = cp.Minimize(cp.sum_squares(y - 0.1) + cp.square(x))
        problem = bm.BilevelProblem(upper, [x >= -3, x <= 1], lower)
        steps = {"step_x": 0.01, "step_y": 0.1, "penalty": 5.0}
        if name != "meha":
            steps["inner_steps"] = 2
        problem.solve(method=name, threads=threads, max_iterations=5, **steps)
        assert problem.solution is not None
        assert any(divided) == (threads > 1)
        ends[threads, again] = np.append(problem.solution.iterate["y"], problem.solution.iterate["x"])
    np.testing.assert_array_equal(ends[2, False], ends[2, True])
    np.testing.assert_allclose(ends[2, False], ends[1, False], rtol=1e-9)


def _least_value() -> float:
    """Min of phi for the ridge problem, by SciPy and the normal equations."""
    A, b, V, c = _data(0)

    def phi(x: float) -> float:
        y = np.linalg.solve(A.T @ A / N + (1 + x) * np.eye(K), A.T @ b / N)
        return float(np.mean((V @ y - c) ** 2) + 0.5 * (x - 0.5) ** 2)

    return float(minimize_scalar(phi, bounds=(0, 2), method="bounded").fun)


@pytest.mark.parametrize("name", first_few(["meha", "alt-pbgd", "f2sa"], 2))
def test_comes_near_the_known_answer(name: str) -> None:
    problem = _ridge()
    start = problem.levels.upper[0]
    start.value = 2.0
    value = problem.solve(method=name, batch_size=16, max_steps=800)
    assert value == pytest.approx(_least_value(), rel=0.02)


def test_weights_of_samples_are_drawn_with_their_rows() -> None:
    problem = _cleaning(120)
    problem.solve(method="f2sa", batch_size=20, max_steps=600)
    assert problem.solution is not None
    weights = problem.solution.iterate["x"]
    assert weights[:40].mean() < 0.25
    assert weights[40:].mean() > 0.6


def test_kinks_take_proximal_steps_on_batches_too() -> None:
    A, b, V, c = _data(3)
    x, y = cp.Variable(name="x"), cp.Variable(K, name="y")
    g = cp.sum_squares(A @ y - b) / (2 * N) + x * cp.norm1(y)
    f = cp.sum_squares(V @ y - c) / len(c)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 3, x <= 4], lower)
    problem.solve(method="f2sa", batch_size=50, max_steps=50)
    assert problem.solution is not None

    def lasso(v: np.ndarray) -> float:
        u, w = v[:K], v[K:]
        return float(np.sum((A @ (u - w) - b) ** 2) / (2 * N) + 3 * np.sum(u + w))

    best = minimize(lasso, np.ones(2 * K), bounds=[(0, None)] * (2 * K), tol=1e-12)
    np.testing.assert_allclose(problem.solution.values["y"], best.x[:K] - best.x[K:], atol=1e-4)


# Sparse rows, beside the same steps in plain NumPy on dense rows

WIDE, SEED = 80, 4
STEPS = {"penalty": 5.0, "step_x": 0.05, "step_y": 0.1, "max_steps": 12}


def _sparse_data() -> tuple[sp.csr_array, np.ndarray, sp.csr_array, np.ndarray]:
    random = np.random.default_rng(5)
    A = sp.random_array((N, WIDE), density=0.05, rng=random, format="csr")
    V = sp.random_array((N // 2, WIDE), density=0.05, rng=random, format="csr")
    return A, random.standard_normal(N), V, random.standard_normal(N // 2)


def _sparse_ridge() -> bm.BilevelProblem:
    A, b, V, c = _sparse_data()
    x, y = cp.Variable(name="x"), cp.Variable(WIDE, name="y")
    g = cp.sum_squares(A @ y - b) / N + (0.1 + x) * cp.sum_squares(y)
    f = cp.sum_squares(V @ y - c) / len(c) + 0.5 * cp.square(x - 0.5)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    x.value, y.value = 1.0, np.linspace(-1, 1, WIDE)
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 2], lower)


class _Naive:
    """Slopes of the two objectives on some rows, by hand."""

    def __init__(self, size: int) -> None:
        A, b, V, c = _sparse_data()
        self.size, self.A, self.b, self.V, self.c = size, A.toarray(), b, V.toarray(), c

    def begin(self, k: int) -> None:
        self.random = np.random.default_rng((SEED, k))

    def draw(self, n: int) -> np.ndarray:
        return np.sort(self.random.choice(n, self.size, replace=False, shuffle=False))

    def g_rows(self) -> np.ndarray:
        return self.draw(N)

    def g_y(self, x: float, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        A = self.A[rows]
        return 2 * A.T @ (A @ y - self.b[rows]) / self.size + 2 * (0.1 + x) * y

    def f_y(self, y: np.ndarray) -> np.ndarray:
        rows = self.draw(N // 2)
        V = self.V[rows]
        return 2 * V.T @ (V @ y - self.c[rows]) / self.size

    def f_x(self, x: float) -> float:
        self.draw(N // 2)
        return x - 0.5


def _moved(x: float, slope: float) -> float:
    return float(np.clip(x - STEPS["step_x"] * slope, 0, 2))


def _alternating(naive: _Naive, x: float, y: np.ndarray) -> tuple[float, np.ndarray]:
    z, gamma, step = y.copy(), STEPS["penalty"], STEPS["step_y"]
    for k in range(STEPS["max_steps"]):
        naive.begin(k)
        for _ in range(3):
            rows = naive.g_rows()
            z = z - step * naive.g_y(x, z, rows)
            y = y - step * (naive.g_y(x, y, rows) + naive.f_y(y) / gamma)
        naive.g_rows()
        x = _moved(x, naive.f_x(x) + gamma * (y @ y - z @ z))
    return x, y


def _free(naive: _Naive, x: float, y: np.ndarray) -> tuple[float, np.ndarray]:
    for k in range(STEPS["max_steps"]):
        naive.begin(k)
        for _ in range(3):
            slope = naive.g_y(x, y, naive.g_rows()) + naive.f_y(y) / STEPS["penalty"]
            y = y - STEPS["step_y"] * slope
        x = _moved(x, naive.f_x(x))
    return x, y


def _moreau(naive: _Naive, x: float, y: np.ndarray) -> tuple[float, np.ndarray]:
    theta, step = y.copy(), STEPS["step_y"]
    for k in range(STEPS["max_steps"]):
        naive.begin(k)
        c, rows = STEPS["penalty"] * (k + 1) ** 0.3, naive.g_rows()
        theta = theta - step * (naive.g_y(x, theta, rows) + theta - y)
        x = _moved(x, naive.f_x(x) / c + y @ y - theta @ theta)
        y = y - step * (naive.g_y(x, y, rows) + naive.f_y(y) / c - (y - theta))
    return x, y


TWINS = {"meha": _moreau, "alt-pbgd": _alternating, "f2sa": _alternating, "pbgd-free": _free}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("size", [1, 8])
def test_sparse_rows_take_the_steps_of_plain_numpy(name: str, size: int) -> None:
    more = {"penalty_power": 0.3, "proximal": 1.0, "step_theta": 0.1}
    more = more if name == "meha" else {"inner_steps": 3}
    ends = []
    for _ in range(2):
        problem = _sparse_ridge()
        problem.solve(method=name, batch_size=size, seed=SEED, **STEPS, **more)
        assert problem.solution is not None
        ends.append(problem.solution.iterate)
    np.testing.assert_array_equal(ends[0]["y"], ends[1]["y"])
    x, y = TWINS[name](_Naive(size), 1.0, np.linspace(-1, 1, WIDE))
    np.testing.assert_allclose(ends[0]["x"], x, rtol=1e-11)
    np.testing.assert_allclose(ends[0]["y"], y, rtol=1e-10, atol=1e-13)


def test_sparse_rows_without_given_steps_come_near_the_answer() -> None:
    A, b, V, c = _sparse_data()

    def phi(x: float) -> float:
        y = spsolve(sp.csc_array(A.T @ A / N + (0.1 + x) * sp.eye_array(WIDE)), A.T @ b / N)
        return float(np.mean((V @ y - c) ** 2) + 0.5 * (x - 0.5) ** 2)

    least = minimize_scalar(phi, bounds=(0, 2), method="bounded").fun
    problem = _sparse_ridge()
    assert problem.solve(method="f2sa", batch_size=16, max_steps=150) == pytest.approx(least, rel=0.02)


def test_what_has_no_rows_is_refused_with_what_would_work() -> None:
    x, y = cp.Variable(), cp.Variable(3)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y) + cp.square(x - 1)), [x >= 0], lower)
    with pytest.raises(NotASumError, match="leave batch_size out"):
        problem.solve(method="f2sa", batch_size=2)


def test_an_objective_without_rows_is_taken_whole() -> None:
    A, b, _, _ = _data(0)
    x, y = cp.Variable(name="x"), cp.Variable(K, name="y")
    g = cp.sum_squares(A @ y - b) / N + (1 + x) * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x >= 0, x <= 2], lower)
    problem.solve(method="f2sa", batch_size=8, max_steps=20)
    assert problem.solution is not None
    assert any("taken whole" in note for note in problem.solution.notes)
