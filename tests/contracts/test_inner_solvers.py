"""What every registered inner solver promises, whoever wrote it."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import blomodel.solvers
from blomodel.errors import UnknownSettingError, UnknownSolverError
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.cascade import CASCADES, describe
from blomodel.solvers.question import Cone, ConeKind, ConicQuestion, ProblemClass, QuadraticQuestion
from blomodel.solvers.registry import SOLVERS, inner_solver

NAMES = list(SOLVERS)
LOOSE = 1e-3  # of solvers whose points are made exact by others


def takers(problem_class):
    return [name for name, cls in SOLVERS.items() if problem_class in cls.classes]


@pytest.mark.parametrize("name", NAMES)
def test_it_declares_itself(name):
    cls = SOLVERS[name]
    assert cls.name == name == name.lower()
    assert cls.classes and cls.classes <= set(ProblemClass)
    assert cls.module
    known = cls.known_options()
    if known is not None:
        with pytest.raises(UnknownSettingError, match=f"'{name}'"):
            cls.check_options({"an option that nobody has": 1})
    cls.check_options({})


def test_a_solver_that_does_not_declare_itself_is_refused():
    class Nameless(SOLVERS["osqp"]):
        name = ""
        classes = frozenset()

    with pytest.raises(UnknownSolverError, match="Nameless does not declare name and classes"):
        inner_solver(Nameless)
    Nameless.name, Nameless.classes = "LOUD", frozenset({ProblemClass.QP})
    with pytest.raises(UnknownSolverError, match="small letters"):
        inner_solver(Nameless)


def test_each_has_a_file_of_its_own():
    files = [inspect.getfile(cls) for cls in dict(SOLVERS.items()).values()]
    assert len(set(files)) == len(files)
    folder = Path(blomodel.solvers.__file__).parent
    assert all(Path(file).parent == folder for file in files)


@pytest.mark.parametrize("problem_class", list(ProblemClass))
def test_every_class_has_a_cascade_of_solvers_that_take_it(problem_class):
    stages = CASCADES[problem_class]
    assert stages
    for stage in stages:
        assert problem_class in SOLVERS[stage.solver].classes
        assert stage.why
    assert describe(problem_class, 1000, 1000).split(", then ")[-1] == stages[-1].solver


def question(is_linear, seed=0, n=6, m=9):
    draw = np.random.default_rng(seed)
    root = draw.standard_normal((n, n))
    P = sp.csc_array((n, n)) if is_linear else sp.csc_array(root @ root.T / n + np.eye(n))
    A = np.vstack([draw.standard_normal((m - n, n)), np.eye(n), -np.eye(n)])
    b = np.concatenate([draw.random(m - n), np.full(2 * n, 2.0)])
    equality = np.arange(m + n) == 0
    q = draw.standard_normal(n)
    return QuadraticQuestion(P, q, sp.csc_array(A), b, equality, is_lasting=True)


@pytest.mark.parametrize(
    ("name", "is_linear"),
    [(name, False) for name in takers(ProblemClass.QP)]
    + [(name, True) for name in takers(ProblemClass.LP) if name != "active-set"],
)
def test_programs_with_rows(name, is_linear):
    solver = SOLVERS[name]()
    for seed in range(3):
        asked = question(is_linear, seed)
        answer = solver.solve(asked)
        assert answer.has_point and answer.solver == name
        assert asked.residual(answer.y, answer.multipliers) <= (1e-7 if solver.is_trusted else LOOSE)
        if answer.slack is not None:
            assert np.allclose(answer.slack, asked.b - asked.A @ answer.y, atol=1e-6)


@pytest.mark.parametrize("name", takers(ProblemClass.LP))
def test_no_point_and_no_end(name):
    solver, A = SOLVERS[name](), sp.csc_array(np.array([[1.0], [-1.0]]))
    P, q, free = sp.csc_array((1, 1)), np.ones(1), np.zeros(2, bool)
    empty = solver.solve(QuadraticQuestion(P, q, A, np.array([0.0, -1.0]), free))
    assert empty.status in (InnerStatus.INFEASIBLE, InnerStatus.FAILED)
    endless = solver.solve(QuadraticQuestion(P, -q, A, np.array([np.inf, 0.0]), free))
    assert endless.status in (InnerStatus.UNBOUNDED, InnerStatus.FAILED)
    if solver.is_trusted and name != "active-set":
        assert empty.status is InnerStatus.INFEASIBLE and empty.value == np.inf
        assert endless.status is InnerStatus.UNBOUNDED and endless.value == -np.inf


@pytest.mark.parametrize("name", takers(ProblemClass.CONIC))
def test_a_cone_program(name):
    """The point of the unit disc nearest to (3, 4)."""
    A = sp.csc_array(np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, -1.0]]))
    asked = ConicQuestion(
        sp.csc_array(np.eye(2)),
        np.array([-3.0, -4.0]),
        A,
        np.array([1.0, 0.0, 0.0]),
        [Cone(ConeKind.SECOND_ORDER, 3)],
    )
    answer = SOLVERS[name]().solve(asked)
    assert np.allclose(answer.y, [0.6, 0.8], atol=1e-6)
    assert asked.residual(answer.y, answer.multipliers, answer.slack) <= 1e-6


def test_the_residual_sees_each_condition():
    asked = QuadraticQuestion(
        sp.csc_array(np.eye(1)), np.array([-2.0]), sp.csc_array(np.eye(1)), np.ones(1), np.zeros(1, bool)
    )
    assert asked.residual(np.ones(1), np.ones(1)) == 0.0
    assert asked.residual(np.full(1, 2.0), np.zeros(1)) > 0.1  # infeasible
    assert asked.residual(np.zeros(1), np.full(1, 2.0)) > 0.1  # a slack row with a multiplier
    assert asked.residual(np.ones(1), np.zeros(1)) > 0.1  # not stationary
    inside = QuadraticQuestion(asked.P, np.array([-0.5]), asked.A, asked.b, asked.equality)
    assert inside.residual(np.ones(1), np.full(1, -0.5)) > 0.1  # a multiplier of the wrong sign
