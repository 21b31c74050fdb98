"""Points and multipliers through every transformation, and through a chain of all: there and back."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.point import Point
from blomodel.declare.statement import Statement
from blomodel.errors import ModelError
from blomodel.model.model import Model
from blomodel.transformations.attributes import PlainVariables
from blomodel.transformations.chain import Chain
from blomodel.transformations.followers import JoinFollowers
from blomodel.transformations.kinks import VariablesForKinks, without_kinks
from blomodel.transformations.multipliers import MultipliersInAnswer
from tests.support.slow_cases import first_few

NOTHING = np.zeros(0)


def unbounded(statement: Statement) -> tuple[np.ndarray, np.ndarray]:
    n = statement.levels.x.size
    return np.full(n, -np.inf), np.full(n, np.inf)


def two_followers(seed: int) -> bm.BilevelProblem:
    """One minimises, one maximises, each with a constraint of its own."""
    rng = np.random.default_rng(seed)
    x, y, z = cp.Variable(2, name="x"), cp.Variable(3, name="y"), cp.Variable(name="z")
    matrix, target = rng.normal(size=(3, 2)), rng.normal(size=3)
    first = bm.Lower(cp.Minimize(cp.sum_squares(y - matrix @ x - target)), [y <= 1], [y], "first")
    second = bm.Lower(cp.Maximize(-cp.square(z - x[0])), [z >= rng.normal()], [z])
    return bm.BilevelProblem(cp.Minimize(cp.sum(y) + z + cp.sum_squares(x)), [x <= 2], [first, second])


def attributes(seed: int) -> bm.BilevelProblem:
    rng = np.random.default_rng(seed)
    x, s = cp.Variable(2, nonneg=True, name="x"), cp.Variable((2, 2), symmetric=True, name="s")
    y = cp.Variable(3, bounds=[-1, 2], name="y")
    target = rng.normal(size=3)
    rows = [cp.sum(y) <= 1 + x[0], s[0, 0] >= x[1]]
    g = cp.sum_squares(y - target) + cp.sum_squares(s - rng.normal(size=(2, 2)))
    lower = bm.Lower(cp.Minimize(g), rows, [y, s])
    return bm.BilevelProblem(cp.Minimize(cp.sum(y) + cp.sum_squares(x - 1)), [x <= 2], lower)


def priced(seed: int) -> bm.BilevelProblem:
    """The upper level uses one of two multipliers; y has a bound by attribute."""
    rng = np.random.default_rng(seed)
    x, y = cp.Variable(name="x"), cp.Variable(3, nonneg=True, name="y")
    demand = 4 + x - cp.sum(y) == 0
    costs = np.sort(rng.uniform(1, 5, 3))
    lower = bm.Lower(cp.Minimize(costs @ y + 0.1 * cp.sum_squares(y)), [demand, y <= 3], variables=[y])
    price = lower.multiplier(demand)
    return bm.BilevelProblem(cp.Minimize((price - 3) ** 2 + x**2), [0 <= x, x <= 2], lower)


def kinked(seed: int) -> bm.BilevelProblem:
    rng = np.random.default_rng(seed)
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    matrix, target = rng.normal(size=(5, 3)), rng.normal(size=5)
    g = cp.sum_squares(matrix @ y - target) + x[0] * cp.norm1(y) + x[1] * cp.max(y)
    lower = bm.Lower(cp.Minimize(g), [cp.abs(y[0]) <= 1 + x[1], cp.sum(y) <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.norm1(y - 1) + cp.sum_squares(x)), [0 <= x, x <= 2], lower)


def everything(seed: int) -> bm.BilevelProblem:
    """Two followers, attributes, and a multiplier that the upper level uses."""
    rng = np.random.default_rng(seed)
    x, y = cp.Variable(nonneg=True, name="x"), cp.Variable(2, nonneg=True, name="y")
    z = cp.Variable(bounds=[-1, 1], name="z")
    row = 2 + x - cp.sum(y) == 0
    first = bm.Lower(cp.Minimize(rng.uniform(1, 3, 2) @ y + cp.sum_squares(y)), [row], [y])
    second = bm.Lower(cp.Maximize(-cp.square(z - x)), [z <= 0.5 + x], [z])
    price = first.multiplier(row)
    return bm.BilevelProblem(cp.Minimize((price - 4) ** 2 + z + x), [x <= 3], [first, second])


BUILDERS = {
    "followers": two_followers,
    "attributes": attributes,
    "multipliers": priced,
    "kinks": kinked,
    "everything": everything,
}


def whole_chain(problem: bm.BilevelProblem) -> Chain:
    """The problem's chain, and kinks at the end of it."""
    return problem.chain.where_accepted(VariablesForKinks(unbounded(problem.chain.end)))


@pytest.mark.parametrize("seed", first_few(range(3), 1))
@pytest.mark.parametrize("name", list(BUILDERS))
def test_a_point_goes_forth_and_comes_back(name: str, seed: int) -> None:
    chain = whole_chain(BUILDERS[name](seed))
    assert len(chain) == {"everything": 3, "multipliers": 2, "kinks": 2}.get(name, 1)
    start, rng = chain.start.levels, np.random.default_rng(seed)
    point = Point(start, rng.normal(size=start.x.size), rng.normal(size=start.y.size))
    there = chain.forward(point, NOTHING)
    assert there.levels is chain.end.levels
    back = chain.invert(there)
    np.testing.assert_array_equal(back.x, point.x)
    np.testing.assert_array_equal(back.y, point.y)


@pytest.mark.parametrize("seed", first_few(range(3), 1))
@pytest.mark.parametrize("name", list(BUILDERS))
def test_both_objectives_are_the_same_at_both_ends(name: str, seed: int) -> None:
    problem = BUILDERS[name](seed)
    problem.solve()
    chain = whole_chain(problem)
    model = Model(chain.end)
    there = chain.forward(Point.present(chain.start.levels), NOTHING)
    assert model.f(there.x, there.y, NOTHING)[0] == pytest.approx(problem.value, abs=1e-6)
    below = problem.lower.sign * float(problem.lower.objective.args[0].value)
    assert model.g(there.x, there.y, NOTHING)[0] == pytest.approx(below, abs=1e-6)
    for rows in (model.lower_in, model.upper_in):
        assert rows.values(there.x, there.y, NOTHING).max(initial=0) <= 1e-5


@pytest.mark.parametrize("seed", first_few(range(3), 1))
@pytest.mark.parametrize("name", list(BUILDERS))
def test_multipliers_come_back_as_cvxpy_finds_them(name: str, seed: int) -> None:
    """The level at the end of the chain is solved at a fixed x, and its duals go back."""
    problem = BUILDERS[name](seed)
    chain = whole_chain(problem)
    model = Model(chain.end)
    x = np.full(model.x.size, 0.7)  # further variables of the upper level do not occur below
    answer = model.lower_program.solve(x, NOTHING, accuracy=1e-10)
    found = chain.invert_multipliers(answer.duals, Point(chain.end.levels, x, answer.y))
    upper = problem.levels.upper
    fix = Substitution(upper, [cp.Constant(np.full(leaf.shape, 0.7)) for leaf in upper])
    rows = []
    for follower in problem.followers:
        own = [fix(row) for row in follower.constraints]
        cp.Problem(cp.Minimize(fix(follower.minimised)), own).solve(solver=cp.CLARABEL)
        rows += own
    for multiplier, row in zip(found, rows, strict=True):
        expected = np.ravel(row.dual_value, order="F")
        np.testing.assert_allclose(np.ravel(multiplier, order="F"), expected, atol=2e-4)


def test_missing_multipliers_are_those_that_fit() -> None:
    problem = priced(0)
    problem.solve()
    values = Point.present(problem.levels).values
    given = {leaf: values[leaf] for leaf in (*problem.levels.upper, *problem.followers[0].variables)}
    filled = problem.chain.invert_values(problem.chain.forward_values(given, NOTHING))
    for leaf in problem.levels.lower:
        np.testing.assert_allclose(filled[leaf], values[leaf], atol=1e-4)


def test_values_that_are_not_known_stay_away() -> None:
    problem = everything(0)
    x = problem.levels.upper[0]
    forth = problem.chain.forward_values({x: np.array(1.0)}, NOTHING)
    assert [leaf.name() for leaf in forth] == ["x"]
    assert [*problem.chain.invert_values(forth)] == [x]
    assert problem.chain.invert_upper(np.array([3.0])) == pytest.approx([3.0])


def test_every_kind_is_one_line_that_says_what_and_why() -> None:
    printed = str(everything(0).chain).split("\n")
    assert [line.split(":")[0] for line in printed] == [
        JoinFollowers.name,
        MultipliersInAnswer.name,
        PlainVariables.name,
    ]
    assert "follower 1, follower 2 share no variable" in printed[0]
    assert "multiplier of 2 + x" in printed[1]
    assert "'x', 'y', 'z', " in printed[2] and printed[2].endswith("are free and rows say the rest")
    lifted = without_kinks(kinked(0).model).chain
    assert str(lifted).startswith("variables for kinks: 7 further variables stand for")
    assert str(kinked(0).chain).startswith("kinked rows as plain ones: ")
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    plain = bm.BilevelProblem(cp.Minimize(x**2 + y), [], bm.Lower(cp.Minimize((y - x) ** 2), [], [y]))
    assert "as it was stated" in str(plain.chain)


def test_what_does_not_apply_says_why() -> None:
    chain = kinked(0).chain
    for transformation, why in (
        (JoinFollowers(), "one follower"),
        (MultipliersInAnswer(), "uses no multiplier"),
        (PlainVariables(), "no variable has attributes"),
    ):
        assert not transformation.accepts(chain.end)
        with pytest.raises(ModelError, match=f"'{transformation.name}' does not apply here: .*{why}"):
            chain.then(transformation)
    several = two_followers(0).chain.start
    with pytest.raises(ModelError, match="2 followers; join them first"):
        _ = several.lower


def test_kinks_are_left_alone_where_the_answer_holds_multipliers_or_is_large() -> None:
    for_kinks = VariablesForKinks(unbounded(priced(0).chain.end))
    assert "multipliers" in for_kinks.obstacle(priced(0).chain.end)
    x, y = cp.Variable(name="x"), cp.Variable(301, name="y")
    lower = bm.Lower(cp.Minimize(cp.norm1(y) + cp.sum_squares(y - x)), variables=[y])
    large = bm.BilevelProblem(cp.Minimize(cp.square(x) + y[0]), [], lower).chain.end
    assert "300 kinks and variables" in VariablesForKinks(unbounded(large)).obstacle(large)


def test_parameters_take_part_in_what_goes_forth() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    shift = cp.Parameter(2, name="shift", value=[1.0, -1.0])
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x) + cp.norm1(y - shift)), variables=[y])
    model = bm.BilevelProblem(cp.Minimize(x**2 + cp.sum(y)), [], lower).model
    _, lifted = without_kinks(model).forward(np.zeros(1), np.zeros(2), np.array([3.0, -5.0]))
    np.testing.assert_allclose(lifted[2:], [3.0, 5.0])
