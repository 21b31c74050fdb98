"""Transformations written outside the package: a problem is solved through them, and comes back."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.compiler.expressions.constraints import EQUALITY, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.followers import Lower
from blomodel.errors import ModelError
from blomodel.transformations.transformation import Applied, Transformation


class ChangeOfUnits(Transformation):
    """One variable in other units: what was x becomes factor * x'."""

    name: ClassVar[str] = "change of units"

    def __init__(self, variable: str, factor: float) -> None:
        self.variable, self.factor = variable, factor

    def obstacle(self, statement):
        names = [leaf.name() for leaf in (*statement.levels.upper, *statement.levels.lower)]
        return None if self.variable in names else f"no variable is called '{self.variable}'"

    def apply(self, statement):
        leaves = (*statement.levels.upper, *statement.levels.lower)
        old = next(leaf for leaf in leaves if leaf.name() == self.variable)
        new = cp.Variable(old.shape, name=f"{old.name()} / {self.factor:g}")
        after = statement.rewritten(Substitution([old], [self.factor * new]), {old: new})
        reason = f"'{old.name()}' is counted in units of {self.factor:g}"
        return InOtherUnits(self.name, reason, statement, after, old, new, self.factor)


@dataclass(frozen=True, eq=False)
class InOtherUnits(Applied):
    old: cp.Variable
    new: cp.Variable
    factor: float

    def forward(self, values, p):
        return {
            (self.new if leaf is self.old else leaf): value / self.factor if leaf is self.old else value
            for leaf, value in values.items()
        }

    def invert(self, values):
        return {
            (self.old if leaf is self.new else leaf): self.factor * value if leaf is self.new else value
            for leaf, value in values.items()
        }


class Rescale(Transformation):
    """Objectives and lower rows times factors of their own."""

    name: ClassVar[str] = "objectives and rows rescaled"

    def __init__(self, upper: float, lower: float, rows: float) -> None:
        self.upper, self.lower, self.rows = upper, lower, rows

    def obstacle(self, statement):
        return None

    def apply(self, statement):
        def scaled(constraint):
            kind, expression = as_row(constraint)
            return self.rows * expression == 0 if kind == EQUALITY else self.rows * expression <= 0

        level = statement.lower
        after = replace(
            statement,
            upper_objective=self.upper * statement.upper_objective,
            followers=(
                Lower(
                    cp.Minimize(self.lower * level.minimised),
                    [*map(scaled, level.constraints)],
                    level.variables,
                ),
            ),
        )
        return Rescaled(self.name, "numbers of order one", statement, after, self)


@dataclass(frozen=True, eq=False)
class Rescaled(Applied):
    by: Rescale

    def invert_multipliers(self, multipliers, values):
        return [dual * self.by.rows / self.by.lower for dual in multipliers]

    def invert_value(self, value):
        return value / self.by.upper


def build(transformations=()):
    """A tonne of x is a thousand of the kilogrammes that y counts; y is nonneg by attribute."""
    x, y = cp.Variable(name="x"), cp.Variable(2, nonneg=True, name="y")
    rows = [cp.sum(y) <= 3000 * x, y[0] - y[1] == 100]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y / 1000 - np.array([2.0, 1.0]))), rows, variables=[y])
    upper = cp.Maximize(5 - (x - 0.4) ** 2 - cp.sum_squares(y / 1000 - 1))
    problem = bm.BilevelProblem(upper, [0 <= x, x <= 3], lower, transformations=transformations)
    return problem, x, y, rows


ALL = (ChangeOfUnits("y", 1000.0), ChangeOfUnits("x", 0.5), Rescale(0.01, 7.0, 1e-3))


@pytest.mark.parametrize("transformations", [ALL[:1], ALL[1:2], ALL[2:], ALL])
@pytest.mark.parametrize("method", ["auto", "kkt-mip", "reduced-penalty"])
def test_the_answer_is_that_of_the_problem_as_stated(transformations, method):
    plain, x, y, rows = build()
    value = plain.solve()
    expected = [np.array(part) for part in (x.value, y.value, rows[0].dual_value, rows[1].dual_value)]
    problem, x, y, rows = build(transformations)
    assert problem.solve(method=method) == pytest.approx(value, abs=1e-5)
    found = [x.value, y.value, rows[0].dual_value, rows[1].dual_value]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-5)
    assert problem.certificate.accepted
    if method != "reduced-penalty":
        assert problem.status == "optimal"
        assert problem.certificate.bound == pytest.approx(value, abs=1e-5)
    at = problem.solution.history["value"][-1]
    assert -at == pytest.approx(value, abs=0.05)  # what was recorded on the way is in the same units
    assert problem.solution.history["x"][-1] == pytest.approx(float(x.value), abs=0.05)


def test_the_chain_tells_and_the_model_at_its_end_is_what_methods_see():
    problem, *_ = build(ALL)
    lines = str(problem.chain).split("\n")
    assert lines[1:] == [
        "change of units: 'y' is counted in units of 1000",
        "change of units: 'x' is counted in units of 0.5",
        "objectives and rows rescaled: numbers of order one",
    ]
    assert [leaf.name() for leaf in problem.model.y.leaves] == ["y / 1000"]
    assert problem.model is not problem.plain_model
    assert problem.plain_model.statement is problem.plain_chain.end
    problem.solve()
    explained = problem.explain()
    assert "change of units" in explained and "is counted in units of 1000" in explained


def test_what_is_shown_on_the_way_is_in_stated_units(capfd):
    problem, *_ = build(ALL)
    problem.solve(method="reduced-penalty", verbose=True)
    shown = re.findall(r"value (\S+)", "".join(capfd.readouterr()))
    assert len(shown) >= 2 and all(4 < float(value.rstrip(",")) < 5 for value in shown)


def test_a_start_goes_through_the_chain():
    problem, x, y, _ = build(ALL)
    x.value, y.value = 1.0, np.array([500.0, 400.0])
    problem.solve(method="reduced-penalty", max_iterations=1)
    assert problem.solution.history["x"][0] == pytest.approx(1.0, abs=0.7)
    assert problem.certificate is not None


def test_studies_speak_of_the_problem_as_stated():
    (plain, x, *_), (problem, other_x, *_) = build(), build(ALL)
    plain.solve(), problem.solve()
    ours, theirs = problem.pessimistic(), plain.pessimistic()
    assert ours.pessimistic == pytest.approx(theirs.pessimistic, abs=1e-5)
    assert ours.x[other_x] == pytest.approx(theirs.x[x], abs=1e-4)
    y = problem.levels.lower[0]
    good = bm.certify(problem, other_x.value, y.value)
    assert good.accepted and good.objective == pytest.approx(problem.value)
    objective = problem.reformulate("value-function").functions.objective
    assert -objective(float(other_x.value), y.value) == pytest.approx(problem.value)


def test_without_an_answer_the_reason_is_in_the_problems_own_words():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 1], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize(x**2),
        [0 <= x, x <= 4, y <= 0.5],
        lower,
        transformations=[ChangeOfUnits("x", 10.0)],
    )
    problem.solve()
    assert problem.status == "infeasible" and problem.solution.no_answer.conflicts


def test_a_transformation_that_does_not_apply_is_refused_by_name():
    problem, *_ = build([ChangeOfUnits("z", 2.0)])
    with pytest.raises(ModelError, match="'change of units' does not apply here: no variable is called"):
        problem.solve()


def test_the_solution_of_a_transformed_problem_travels():
    problem, *_ = build(ALL)
    problem.solve()
    copy = pickle.loads(pickle.dumps(problem.solution))
    assert copy.value == problem.value
    np.testing.assert_array_equal(copy.values["y"], problem.solution.values["y"])


def test_statements_that_wait_for_multipliers_are_not_rewritten():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    row = y >= x
    lower = bm.Lower(cp.Minimize(y**2), [row], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(lower.multiplier(row) + x**2), [x >= -1], lower)
    with pytest.raises(ModelError, match="MultipliersInAnswer first"):
        problem.chain.start.rewritten(lambda part: part, {})
