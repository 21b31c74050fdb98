"""What every registered reformulation owes its users."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.reformulations.reformulation import (
    APPROXIMATION,
    EQUIVALENT,
    REFORMULATIONS,
    RELAXATION,
)

NAMES = list(REFORMULATIONS)
PAGE = Path(__file__).parents[2] / "docs" / "reformulations.md"


def tracking() -> bm.BilevelProblem:
    """Smooth, strictly convex and without constraints below, so that every reformulation takes it."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x) + x * y[0]), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1) + x**2), [-2 <= x, x <= 2], lower)


@pytest.fixture(params=NAMES)
def reformulation(request):
    return tracking().reformulate(request.param)


def test_it_is_described_on_the_page(reformulation):
    assert f"`{reformulation.name}`" in PAGE.read_text(encoding="utf-8")


def test_it_tells_how_exact_it_is(reformulation):
    assert reformulation.exactness in (EQUIVALENT, RELAXATION, APPROXIMATION)
    assert reformulation.reason


def test_it_writes_itself_down(reformulation):
    assert reformulation.title in reformulation.text
    assert "x" in reformulation.latex and r"\min" in reformulation.abstract_latex
    assert str(reformulation).startswith(reformulation.title)


def test_its_functions_say_what_they_give(reformulation):
    assert reformulation.functions
    assert all(reformulation.functions[name].__doc__ for name in reformulation.functions)


def test_its_objective_is_that_of_the_upper_level(reformulation):
    bilevel = reformulation.bilevel
    bilevel.solve()
    x, y = (variable.value for variable in bilevel.variables)
    assert reformulation.functions.objective(x, y) == pytest.approx(bilevel.value)


def test_an_unknown_name_is_met_with_the_nearest():
    with pytest.raises(bm.BlomodelError, match="did you mean 'strong-duality'"):
        tracking().reformulate("strong-dualty")
