"""Method kkt: relaxed complementarity through a nonlinear solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import MissingPackageError, UnknownSettingError
from blomodel.problems.penalty_paper import example_4
from blomodel.solvers import nlp
from blomodel.solvers.registry import SOLVERS, find_solver
from tests.support.slow_cases import first_few


def random_qp(n, seed):
    """A random bilevel QP with coupled rows; no big values, so that the box of x is not active."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, n))
    matrix = matrix @ matrix.T / n + np.eye(n)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = cp.quad_form(y, matrix) / 2 + (rng.normal(size=(n, n)) / np.sqrt(n) @ x + rng.normal(size=n)) @ y
    row = rng.normal(size=(n, n)) / np.sqrt(n) @ y <= rng.uniform(0.2, 1, n) + 0.2 * x
    lower = bm.Lower(cp.Minimize(g), [row], variables=[y])
    f = cp.sum_squares(x - rng.normal(size=n)) + cp.sum_squares(y - rng.normal(size=n))
    return bm.BilevelProblem(cp.Minimize(f), [x >= -5, x <= 5], lower)


# -- without a solver ------------------------------------------------------------------------


def test_without_a_solver_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    problem = example_4()
    _, _ = problem.variables
    with pytest.raises(MissingPackageError, match=r'pip install "blomodel\[nlp\]"'):
        problem.solve(method="kkt")
    with pytest.raises(MissingPackageError, match="'uno'.*unopy"):
        problem.solve(method="kkt", solver="uno")
    with pytest.raises(ImportError):  # for users who catch the common kind
        problem.solve(method="kkt")


def test_an_unknown_solver_is_refused():
    problem = example_4()
    _, _ = problem.variables
    with pytest.raises(UnknownSettingError, match="no inner solver 'snopt'.*ipopt.*uno"):
        problem.solve(method="kkt", solver="snopt")


def test_the_reformulation_needs_no_solver(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    problem = example_4()
    _, _ = problem.variables
    assert problem.reformulate("kkt").problem.is_dnlp()


# -- with one --------------------------------------------------------------------------------


@pytest.fixture(params=["ipopt", "uno"])
def solver(request):
    pytest.importorskip(SOLVERS[request.param].module)
    return request.param


def test_example_4_is_solved(solver):
    problem = example_4()
    x, y = problem.variables
    value = problem.solve(method="kkt", solver=solver)
    assert value == pytest.approx(2.654498, abs=1e-5)
    assert float(x.value) == pytest.approx(0.300705, abs=1e-4)
    assert problem.certificate.accepted
    assert f"nonlinear solver: {solver}" in problem.solution.notes


@pytest.mark.parametrize("seed", first_few(range(3), 1))
def test_random_qps_reach_the_proven_optimum(seed, solver):
    """auto proves the optimum of these by branching on the complementarity pairs."""
    problem = random_qp(6, seed)
    best = problem.solve()
    assert problem.certificate.bound == pytest.approx(best, rel=1e-5)
    found = problem.solve(method="kkt", solver=solver)
    assert found == pytest.approx(best, rel=1e-4)


def test_a_start_that_ends_where_another_did_is_not_followed(solver):
    problem = random_qp(6, 0)
    for variable in problem.variables:
        variable.value = None
    problem.solve(method="kkt", solver=solver, n_starts=5)
    # Five starts of five levels each would be 25 searches.
    assert problem.solution.evaluations < 25


def test_a_kinked_lower_level(solver):
    """y = soft threshold of (3, 4) by x."""
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(2, name="y")
    g = cp.sum_squares(y - np.array([3.0, 4.0])) / 2 + x * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - np.array([0, 0.8]))), [x <= 10], lower)
    assert problem.solve(method="kkt", solver=solver) == pytest.approx(0.0, abs=1e-6)
    assert float(x.value) == pytest.approx(3.2, abs=1e-3)


def test_a_nonconvex_lower_level_is_certified_not_believed(solver):
    """At x = 1/4 the cube is stationary at y = -1/2 too, its maximum, where f would be lower."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**3 / 3 - x * y), [y >= -1, y <= 1], variables=[y])
    f = (x - 0.25) ** 2 + (y + 0.5) ** 2
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1], lower)
    problem.solve(method="kkt", solver=solver)
    grid = np.linspace(-1, 1, 20001)
    lowest = np.min(grid**3 / 3 - float(x.value) * grid)
    assert float(y.value) ** 3 / 3 - float(x.value) * float(y.value) <= lowest + 1e-5


def test_time_limit_leaves_a_point(solver):
    problem = random_qp(60, 0)
    problem.solve(method="kkt", solver=solver, time_limit=0.4)
    assert problem.solution.stopped_by == "time limit"
    assert problem.solution.solve_time < 1.5
    assert problem.certificate is not None and np.isfinite(problem.value)


def test_ctrl_c_leaves_a_point(solver, monkeypatch):
    """The second search is interrupted; the x of the first is kept with its lower answer."""
    import blomodel.methods.kkt as module

    count = []

    def interrupted(*arguments, **options):
        count.append(1)
        if len(count) == 2:
            raise KeyboardInterrupt
        return nlp.solve_nonlinear(*arguments, **options)

    monkeypatch.setattr(module, "solve_nonlinear", interrupted)
    problem = example_4()
    x, _ = problem.variables
    problem.solve(method="kkt", solver=solver)
    assert str(problem.status) == "interrupted"
    assert x.value is not None


def test_a_real_interrupt_ends_the_search(solver):
    """Ctrl-C while the solver is at work."""
    import os
    import signal
    import threading

    from blomodel.reformulations.mpec import LowerConditions, build_problem

    problem = random_qp(60, 0)
    conditions = LowerConditions(problem.model)
    program = build_problem(conditions)
    conditions.relaxation.value = 1.0

    def solve():
        conditions.start(np.zeros(60), np.zeros(60), np.empty(0))
        return nlp.solve_nonlinear(program, find_solver(solver)())

    solve()  # the engine is set up now
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    timer = threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for _ in range(200):
            solve()
    timer.join()
    signal.signal(signal.SIGINT, handler)
