"""solve(solver=..., solver_opts=...): who is asked first, who answers, and that nothing of it stays."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from dual_least_squares import DualLeastSquares, Liar

import blomodel as bm
from blomodel.basics.registry import kept_registries
from blomodel.errors import MissingPackageError, UnknownSettingError, UnknownSolverError
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.choice import NO_PREFERENCE, asking, choose_solver, current_choice
from blomodel.solvers.question import QuadraticQuestion
from blomodel.solvers.registry import SOLVERS, inner_solver


def quadratic(rows: int = 1) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    constraints = [cp.sum(y) <= 1 + x, y[0] <= 2 + x][:rows]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x) + y[0]), constraints, variables=[y])
    upper = cp.Minimize((x - 2) ** 2 + cp.sum_squares(y - 1))
    return bm.BilevelProblem(upper, [0 <= x, x <= 3], lower)


def linear() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    rows = [y[0] + y[1] <= 2 + x, y >= 0, y <= 3]
    lower = bm.Lower(cp.Minimize(-y[0] - 2 * y[1]), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + cp.sum(y)), [0 <= x, x <= 3], lower)


def conic() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    below = cp.Minimize(cp.sum(cp.exp(-y)) + cp.sum_squares(y - x))
    lower = bm.Lower(below, [cp.norm(y) <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y[0]), [0 <= x, x <= 3], lower)


def wavy() -> bm.BilevelProblem:
    """An upper objective with several local minima, so that several starts are searched."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [cp.sum(y) <= 1 + x[0]], variables=[y])
    upper = cp.Minimize(cp.sum(cp.nlp.sin(3 * x)) + cp.sum_squares(y - 1))
    return bm.BilevelProblem(upper, [-2 <= x, x <= 2], lower)


@pytest.fixture
def outside():
    """Solvers that the library does not know of."""
    with kept_registries():
        for cls in (DualLeastSquares, Liar):
            inner_solver(cls)
        yield


@pytest.mark.parametrize(
    ("make", "solver"),
    [
        (quadratic, "CLARABEL"),
        (quadratic, "osqp"),
        (linear, "HiGHS"),
        pytest.param(conic, "Clarabel", marks=pytest.mark.slow),
    ],
)
def test_the_preferred_solver_answers_and_the_answer_is_the_same(make, solver):
    usual = make()
    expected = usual.solve()
    problem = make()
    assert problem.solve(solver=solver) == pytest.approx(expected, rel=1e-7, abs=1e-8)
    assert problem.status == usual.status
    counts = problem.solution.inner_solvers
    assert counts[solver.lower()] > usual.solution.inner_solvers.get(solver.lower(), 0)
    assert problem.solution.settings["solver"] == solver.lower()


def test_it_is_asked_before_the_active_rows_of_the_last_answer():
    counts: dict[str, int] = {}
    program = quadratic().model.lower_program
    program.solve(np.ones(1), np.empty(0))
    with asking(choose_solver("osqp", None), counts):
        answer = program.solve(np.ones(1), np.empty(0))
    assert answer.solver == "osqp" and counts == {"osqp": 1}


def test_no_preference_stays_behind():
    problem = quadratic()
    problem.solve(solver="osqp")
    problem.solve()
    assert "osqp" not in problem.solution.inner_solvers
    assert "solver" not in problem.solution.settings
    assert current_choice() is NO_PREFERENCE
    with pytest.raises(bm.BlomodelError):
        problem.solve(method="galet", solver="osqp")
    assert current_choice() is NO_PREFERENCE


def test_a_solver_from_outside_answers(outside):
    problem, usual = quadratic(), quadratic()
    value = problem.solve(solver="dual-least-squares")
    assert value == pytest.approx(usual.solve(), abs=1e-9)
    assert problem.status == "optimal"
    assert problem.solution.inner_solvers["dual-least-squares"] > 0
    problem.solve(method="reduced-penalty", solver="dual-least-squares")
    counts = problem.solution.inner_solvers
    assert counts["dual-least-squares"] > 10 and "active-set" not in counts


@pytest.mark.parametrize("rows", [1, 2])
def test_a_solver_that_lies_is_not_believed(outside, rows):
    problem, usual = quadratic(rows), quadratic(rows)
    assert problem.solve(solver="liar") == pytest.approx(usual.solve(), abs=1e-9)
    assert problem.status == usual.status == "optimal"
    assert problem.solution.inner_solvers.get("liar", 0) <= 2  # where it happened to be nearly right


def test_a_preference_and_its_counts_travel_to_other_workers(outside):
    joblib = pytest.importorskip("joblib")
    problem = wavy()
    x, y = problem.variables
    counts = []
    for n_jobs in (1, 2):
        x.value = y.value = None
        with joblib.parallel_config(backend="threading"):
            problem.solve(solver="dual-least-squares", n_jobs=n_jobs, n_starts=3)
        counts.append(problem.solution.inner_solvers["dual-least-squares"])
    assert min(counts) > 0.5 * max(counts)


@pytest.mark.slow
def test_another_process_gets_to_know_a_solver_from_outside(outside):
    pytest.importorskip("joblib")
    problem = wavy()
    problem.solve(solver="dual-least-squares", n_jobs=2, n_starts=3)
    assert problem.solution.inner_solvers["dual-least-squares"] > 3


def test_options_reach_the_solver():
    unit = sp.csc_array(np.eye(2))
    question = QuadraticQuestion(unit, -np.ones(2), unit, np.zeros(2), np.zeros(2, bool))
    for solver, options in (("clarabel", {"max_iter": 1}), ("osqp", {"max_iter": 1})):
        answer = choose_solver(solver, options).create().solve(question)
        assert answer.status is InnerStatus.FAILED and answer.iterations <= 3
        assert choose_solver(solver, None).create().solve(question).has_point


def test_where_the_preferred_solver_fails_the_cascade_follows():
    usual, problem = conic(), conic()
    value = problem.solve(solver="clarabel", solver_opts={"max_iter": 1})  # never enough
    assert value == pytest.approx(usual.solve(), rel=1e-7)
    assert problem.status == usual.status


def test_an_unknown_solver_names_the_known_ones():
    with pytest.raises(
        UnknownSolverError, match="'quadprog'.*Known inner solvers: active-set, clarabel"
    ):
        quadratic().solve(solver="quadprog")


def test_a_solver_that_is_not_installed_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r'cyipopt.*run pip install "blomodel\[nlp\]"'):
        quadratic().solve(solver="IPOPT")


@pytest.mark.parametrize(
    ("solver", "options", "message"),
    [
        ("clarabel", {"max_itr": 3}, "no option 'max_itr'; did you mean 'max_iter'"),
        ("clarabel", {"max_iter": "many"}, "does not take the options"),
        ("osqp", {"tolerance": 1e-3}, "no option 'tolerance'.*eps_abs"),
        ("osqp", {"max_iter": -1}, "does not take the options"),
        ("highs", {"presolve": "perhaps"}, "presolve = 'perhaps' is no possible value"),
        ("active-set", {"accuracy": 1}, "has no options"),
        (None, {"max_iter": 3}, "none is named.*clarabel"),
    ],
)
def test_options_that_a_solver_does_not_take(solver, options, message):
    with pytest.raises(UnknownSettingError, match=message):
        quadratic().solve(solver=solver, solver_opts=options)


@pytest.mark.parametrize("solver", ["ipopt", "uno"])
def test_options_of_nonlinear_solvers(solver):
    pytest.importorskip(SOLVERS[solver].module)
    problem = quadratic()
    with pytest.raises(UnknownSettingError, match=f"'{solver}' does not take.*no_such_option"):
        problem.solve(method="kkt", solver=solver, solver_opts={"no_such_option": 1})
    problem.solve(method="kkt", solver=solver)
    assert problem.solution.inner_solvers[solver] > 0
