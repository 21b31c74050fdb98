"""time_limit holds for every method, from compiling to the certificate, and leaves a checked point."""

import time
import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.alarm import begin_compiling, end_compiling
from blomodel.basics.deadline import Deadline, end_of_work
from blomodel.methods.run.registry import method_classes
from blomodel.methods.run.run import Run
from blomodel.model import local_search
from blomodel.model.model import Model
from blomodel.solve import outcome, time_left
from blomodel.solve.explanation import verdicts

pytestmark = pytest.mark.usefixtures("light_heap")  # the clock is looked at

METHODS = [info.name for info in bm.methods()]
N = 80
LIMIT = 0.4  # seconds; every method takes many times as long when left alone, or ends by itself


def random_problem(n, kind):
    """A random bilevel QP as in the speed comparisons, with or without rows, or a nonconvex one."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((n, n))
    hessian = factor @ factor.T / n + np.eye(n)
    mixed, shift = rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n)
    rows, right = rng.standard_normal((n, n)) / np.sqrt(n), rng.uniform(0.2, 1.0, n)
    moved = 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.quad_form(y, hessian) + (mixed @ x + shift) @ y
    below = [rows @ y <= right + moved @ x] if kind == "coupled" else []
    if kind == "nonconvex":
        g = g + 3 * cp.sum(cp.nlp.cos(2 * y))
        below = [y >= -3, y <= 3]
    upper = cp.sum_squares(x - rng.standard_normal(n)) + cp.sum_squares(y - rng.standard_normal(n))
    lower = bm.Lower(cp.Minimize(g), below, variables=[y])
    return bm.BilevelProblem(cp.Minimize(upper), [x >= -5, x <= 5], lower)


@pytest.fixture(scope="module")
def suited():
    """For each method a kind of problem that it applies to."""
    found = {}
    for kind in ("coupled", "free", "nonconvex"):
        for verdict in verdicts(random_problem(N, kind)):
            if verdict.applies:
                found.setdefault(verdict.method, kind)
    return found


def timed_solve(problem, method, limit):
    """Seconds over the limit, less what other programs on this machine have taken."""
    began, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pbgd-free says where it is unsuited
        problem.solve(method=method, time_limit=limit)
    elapsed, worked = time.perf_counter() - began, time.process_time() - used
    return (elapsed - limit) * min(1.0, worked / elapsed)


@pytest.mark.parametrize("method", METHODS)
def test_time_limit(method, suited):
    if method == "grid-search":
        pytest.skip("a grid over this many variables is refused")
    if not all(extra.is_installed for extra in method_classes()[method].packages):
        pytest.skip("a package of the method is not installed")
    kind = suited[method]
    timed_solve(random_problem(8, kind), method, LIMIT)  # loads the compiled loop
    for _ in range(2):  # a pause of the machine hits one of two solves at the most
        problem = random_problem(N, kind)
        over = timed_solve(problem, method, LIMIT)
        if over <= 0.1 * LIMIT + 0.1:
            break
    assert over <= 0.1 * LIMIT + 0.1
    assert problem.certificate.accepted  # the best point so far, checked
    assert problem.status in ("feasible", "stationary", "locally_optimal")
    if problem.solution.stopped_by is not None:
        assert problem.solution.stopped_by == "time limit"


def test_grid_search_looks_at_the_clock():
    x, y = cp.Variable(2, name="x"), cp.Variable(60, name="y")
    spread = np.linspace(-1, 1, 120).reshape(60, 2)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - spread @ x)), [y >= -1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x >= -2, x <= 2], lower)
    problem.solve(method="random-search", n_points=2)
    taken = []
    for _ in range(3):  # the clock goes on while other programs have the processor
        began = time.perf_counter()
        problem.solve(method="grid-search", time_limit=LIMIT, n_points=10**6)
        taken.append(time.perf_counter() - began)
    assert min(taken) < 4 * LIMIT
    assert problem.solution.stopped_by == "time limit"
    assert problem.certificate.accepted


@pytest.mark.parametrize("method", ["auto", "value-cuts", "random-search"])
def test_nonconvex_lower_level(method):
    timed_solve(random_problem(8, "nonconvex"), method, LIMIT)
    problem = random_problem(30, "nonconvex")
    assert timed_solve(problem, method, LIMIT) <= 0.1 * LIMIT + 0.1
    assert problem.solution.stopped_by == "time limit"
    assert problem.status in ("feasible", "stationary")
    assert "local searches" in problem.certificate.checked_by


@pytest.mark.slow
def test_a_lower_level_that_could_not_be_searched_in_time_is_not_claimed_to_be_optimal(monkeypatch):
    monkeypatch.setattr(local_search, "LONG", 0.0)  # as if one search took minutes
    problem = random_problem(12, "nonconvex")
    problem.model.compile_lower()
    problem.solve("pbgd", max_steps=3, time_limit=2e-2)
    assert problem.status == "failed" and not problem.certificate.accepted
    assert "the time limit is over" in " ".join(problem.certificate.reasons)
    assert np.all(np.isfinite(problem.solution.iterate["y"]))  # still there to be looked at
    problem.solve("pbgd", max_steps=3)  # the limit of one solve is not that of the next
    assert problem.certificate.accepted


def test_a_limit_too_short_for_anything_still_gives_an_honest_point():
    for _ in range(3):  # on a busy machine such a limit may not suffice for compiling
        problem = random_problem(N, "coupled")
        problem.solve(time_limit=1e-3)
        if problem.status != "failed":
            break
    assert problem.solution.stopped_by == "time limit"
    assert problem.status == "feasible" and problem.certificate.accepted
    reasons = " ".join(problem.certificate.reasons)
    assert "time limit" in reasons or "f falls" in reasons  # small models are studied in no time


@pytest.mark.slow
def test_large_problem():
    timed_solve(random_problem(8, "coupled"), "auto", 1.0)
    problem = random_problem(200, "coupled")
    assert timed_solve(problem, "auto", 3.0) <= 0.4
    assert problem.certificate.accepted


def test_a_limit_that_is_over_while_compiling_is_said(monkeypatch):
    def compile_for_minutes(model):
        while True:
            time.sleep(0.01)

    with monkeypatch.context() as patched:
        patched.setattr(Model, "compile_lower", compile_for_minutes)
        problem = random_problem(4, "coupled")
        began = time.perf_counter()
        assert problem.solve(time_limit=0.3) == np.inf
        assert time.perf_counter() - began < 1.0
    assert problem.status == "failed" and problem.solution.stopped_by == "time limit"
    assert "before the problem was compiled" in problem.solution.notes[0]
    problem.solve()
    assert problem.certificate.accepted


def test_work_that_does_not_look_at_the_clock_ends(monkeypatch):
    problem = random_problem(8, "coupled")
    value = problem.solve()

    def work_for_minutes(self, run):
        while True:
            time.sleep(0.01)

    with monkeypatch.context() as patched:
        patched.setattr(method_classes()["auto"], "run", work_for_minutes)
        began = time.perf_counter()
        problem.solve(time_limit=0.5)
        assert time.perf_counter() - began < 0.5 + 0.4
    assert problem.solution.stopped_by == "time limit" and problem.certificate.accepted
    assert problem.solve() == pytest.approx(value, rel=1e-6)


def test_a_compilation_that_cannot_be_stopped_is_told(monkeypatch):
    problem = random_problem(4, "coupled")
    problem.solve(time_limit=60)
    assert not any("kernels" in note for note in problem.solution.notes)

    def compile_first(self, run):
        begin_compiling()
        try:
            time.sleep(1.0)
        finally:
            end_compiling()
        raise AssertionError("the alarm rings when the compilation has ended")

    monkeypatch.setattr(method_classes()["auto"], "run", compile_first)
    began = time.perf_counter()
    problem.solve(time_limit=0.3)
    assert time.perf_counter() - began < 1.6  # nothing else adds to it
    assert problem.certificate.accepted
    assert any("numerical kernels" in note for note in problem.solution.notes)


def test_what_the_certificate_leaves_goes_back_to_the_search(monkeypatch):
    timed_solve(random_problem(8, "coupled"), "auto", LIMIT)  # loads what every first solve loads
    monkeypatch.setattr(time_left, "certificate_reserve", lambda *given: 1e3)  # a guess far too large
    monkeypatch.setattr(outcome, "DESCENTS", 0)  # which use the rest of the time too
    problem = random_problem(40, "coupled")
    runs = []

    def work_until_the_end(self, run):
        runs.append(run.remaining)
        while True:
            run.check_limits()
            time.sleep(0.01)

    monkeypatch.setattr(method_classes()["auto"], "run", work_until_the_end)
    began = time.perf_counter()
    problem.solve(time_limit=2.0)
    elapsed = time.perf_counter() - began
    assert len(runs) > 1 and 1.5 < elapsed < 2.0 * 1.05 + 0.2 + 0.2
    assert problem.certificate.accepted and problem.solution.stopped_by == "time limit"


def test_a_certificate_that_is_said_to_cost_nothing_gets_a_share_of_the_limit(monkeypatch):
    # What others ask of the machine in the last moments is not known when the guess is made.
    for guess in ("certificate_reserve", "lower_reserve"):
        monkeypatch.setattr(time_left, guess, lambda *given: 0.0)
    run = Run(random_problem(4, "coupled").model, np.zeros(0), None, 1e-6, 0)
    end = run.deadline = Deadline.after(100.0)
    time_left.keep_time(run, end.at - 100.0, 1.0)
    assert 1.5 < end.at - run.deadline.at < 3.0


def test_what_a_method_takes_beyond_its_time_is_not_taken_from_the_certificate(monkeypatch):
    for guess in ("certificate_reserve", "lower_reserve"):
        monkeypatch.setattr(time_left, guess, lambda *given: 10.0)
    run = Run(random_problem(4, "coupled").model, np.zeros(0), None, 1e-6, 0)
    end = run.deadline = Deadline.after(100.0)
    solve_lower = Run.solve_lower
    monkeypatch.setattr(Run, "solve_lower", lambda self, *at: time.sleep(0.5) or solve_lower(self, *at))
    time_left.keep_time(run, end.at - 100.0, 1.0)
    assert 11.0 <= end.at - run.deadline.at < 10.0 + time_left.grace_of_method(100.0) + 0.1


def test_a_step_has_no_more_than_its_share_in_calls_of_solvers_too():
    run = Run(random_problem(4, "coupled").model, np.zeros(0), None, 1e-6, 0)
    with run.within(5.0):
        assert 4 < end_of_work().remaining <= 5
    assert end_of_work().is_never
