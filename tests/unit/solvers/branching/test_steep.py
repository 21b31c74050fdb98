"""Which exponentials may leave SCIP's numbers, beside what a pencil says."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.basics.deadline import Deadline
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.solvers.branching.steep import stays_in_range, steep_places

pytest.importorskip("pyscipopt")

X, Y = cp.Variable(name="x"), cp.Variable(name="y")
BLOCKS = (Block("x", (X,)), Block("y", (Y,)), Block("p", ()))
FREE = (np.array([-np.inf]), np.array([np.inf]))
NONE = (np.zeros(0), np.zeros(0))


def tape(*expressions):
    return lower(list(expressions), BLOCKS)


def box(x=FREE, y=FREE):
    return {"x": x, "y": y, "p": NONE}


def test_intervals_suffice_within_bounds():
    ends = (np.array([-1.0]), np.array([12.0]))
    assert not steep_places(tape(cp.exp(3 * X)), box(x=ends))
    assert [sign for *_, sign in steep_places(tape(cp.exp(4 * X)), box(x=ends))] == [1.0]
    assert [sign for *_, sign in steep_places(tape(cp.logistic(100 * X)), box(x=ends))] == [1.0, -1.0]


@pytest.mark.parametrize(("rows", "stays"), [([Y - X, X - 12], True), ([Y - X], False), ([], False)])
def test_rows_may_bound_an_argument(rows, stays):
    assert stays_in_range([tape(cp.exp(Y))], box(), [(tape(row), False) for row in rows]) is stays


@pytest.mark.parametrize(("objective", "stays"), [(cp.square(Y) + cp.square(X), True), (X, False)])
def test_worse_points_do_not_count(objective, stays):
    assert stays_in_range([tape(cp.exp(Y))], box(), level=(tape(objective), 100.0)) is stays


@pytest.mark.parametrize(("rows", "stays"), [([Y - X, X - 1e9], True), ([Y - X], False)])
def test_slow_functions_count_in_an_objective(rows, stays):
    falling = tape(-cp.log(1 + Y))
    stated = [(tape(row), False) for row in rows]
    assert stays_in_range([falling], box(), stated)
    assert stays_in_range([falling], box(), stated, objective=falling) is stays


@pytest.mark.parametrize(
    ("row", "objective", "stays"),
    [
        (Y - 7, cp.nlp.sin(Y) - Y, True),  # the row ends them above, and the objective below
        (Y - 7, cp.nlp.sin(Y) + Y, False),
        (0 * Y, cp.square(Y) + cp.nlp.sin(3 * Y), True),
        (0 * Y, cp.nlp.sin(3 * Y), False),
    ],
)
def test_angles_need_an_end_on_both_sides(row, objective, stays):
    waves, rows = [tape(cp.nlp.cos(2 * Y))], [(tape(row), False)]
    assert stays_in_range(waves, box(), rows, (tape(objective), 100.0)) is stays


def test_after_the_deadline_nothing_is_promised():
    rows = [(tape(row), False) for row in (Y - X, X - 12)]
    assert not stays_in_range([tape(cp.exp(Y))], box(), rows, deadline=Deadline(0.0))
