"""A problem is declared and checked without compiling anything."""

from __future__ import annotations

import subprocess
import sys

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.declare.followers import check_followers
from blomodel.declare.statement import state

MAKE_A_PROBLEM = """
import sys
import cvxpy as cp
from blomodel.problem import BilevelProblem, Lower

x, y = cp.Variable(2, nonneg=True, name="x"), cp.Variable(2, nonneg=True, name="y")
z, p = cp.Variable(name="z"), cp.Parameter(name="p")
row = cp.sum(y) <= x[0]
first = Lower(cp.Minimize(cp.sum_squares(y - x) + cp.norm1(y)), [row], [y])
second = Lower(cp.Maximize(-cp.square(z - p * x[1])), [z <= 1], [z])
problem = BilevelProblem(cp.Minimize(cp.sum(y) + z), [x <= 3], [first, second])
first.multiplier(row)
print(problem, problem.lower.name, problem.levels.upper)
wrong = [name for name in sys.modules if name.split(".")[0] == "numba"]
wrong += [name for name in sys.modules if name in ("blomodel.model.model", "blomodel.compiler.tape")]
print("compiled:", wrong)
"""


def test_making_a_problem_imports_neither_numba_nor_the_model() -> None:
    done = subprocess.run([sys.executable, "-c", MAKE_A_PROBLEM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 followers" in done.stdout
    assert done.stdout.strip().endswith("compiled: []")


def test_the_record_holds_what_was_stated() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(nonneg=True, name="y")
    scale = cp.Parameter(name="scale")
    lower = bm.Lower(cp.Maximize(-cp.square(y - scale * x)), [y <= 1], [y])
    statement = state(cp.Maximize(x - y), [x <= 2], check_followers(lower))
    assert statement.followers == (lower,) and statement.lower is lower
    assert statement.levels.upper == (x,) and statement.levels.lower == (y,)
    assert statement.levels.parameters == (scale,)
    x.value, y.value = 3.0, 1.0
    assert statement.upper_objective.value == -2.0  # everything is stated for minimisation
    assert not statement.priced_rows and not statement.partners


def test_all_multipliers_are_named_where_the_upper_level_uses_one() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, nonneg=True, name="y")
    row, other = cp.sum(y) >= x, y <= 5
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y)), [row, other], [y])
    price = lower.multiplier(row)
    statement = state(cp.Minimize(x**2 + price), [x >= 1], check_followers(lower))
    names = [leaf.name() for leaf in statement.levels.lower]
    assert names == ["y", price.name(), "multiplier 1 of lower level", "multiplier 2 of lower level"]
    assert [row.multiplier.size for row in statement.priced_rows] == [1, 2, 2]


def test_a_wrong_multiplier_is_refused_where_the_problem_is_made() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    row = cp.square(y) <= x
    lower = bm.Lower(cp.Minimize(y), [row], variables=[y])
    with pytest.raises(bm.BlomodelError, match="not affine in the lower variables"):
        bm.BilevelProblem(cp.Minimize(x + lower.multiplier(row)), [], lower)
