"""Functions of both levels as sums of products of parts in x and parts in y."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.bounding import BoundingProblem, LowerPoint
from blomodel.reformulations.forms.separation import separated
from blomodel.solvers.branching.scip import ScipProgram

pytest.importorskip("pyscipopt")
NONE = np.zeros(0)


def model_of(g: cp.Expression, y: cp.Variable, x: cp.Variable) -> object:
    lower = bm.Lower(cp.Minimize(g), [y >= -1, y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum(x)), [x >= -1, x <= 1], lower).model


def forms(x: cp.Variable, y: cp.Variable) -> dict[str, cp.Expression]:
    matrix = np.arange(9.0).reshape(3, 3) - 4
    return {
        "powers": y[0] ** 3 + (x[0] + x[1]) * y[1] ** 2 + x[2] ** 2 + (y[0] + y[2]) * x[0] * x[1],
        "matrix": (matrix @ x) @ y + cp.sum_squares(y),
        "square": cp.square(cp.sum(x) - y[0]) - cp.exp(y[1]) * (1 - cp.exp(x[2])),
        "single entries": cp.sum_squares(y - x) + cp.sum(cp.multiply(x, y)) / 3,
    }


@pytest.mark.parametrize("name", ["powers", "matrix", "square", "single entries"])
def test_differences_in_y_stay(name: str) -> None:
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    model = model_of(forms(x, y)[name], y, x)
    separation = separated(model.g)
    assert separation is not None
    draw = np.random.default_rng(1)
    at, one, other = draw.uniform(-1, 1, (3, 3))
    # Numbers in place of SCIP's variables.
    stated = separation.state(ScipProgram(), {"x": at.tolist(), "y": one.tolist(), "p": []})
    difference = stated.value - stated.value_at(other.tolist())
    assert difference == pytest.approx(float(model.g(at, one, NONE)[0] - model.g(at, other, NONE)[0]))
    assert separation.is_simple == (name == "single entries")


def test_what_mixes_both_levels_is_left_alone() -> None:
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    assert separated(model_of(cp.exp(x[0] + y[0]) + x[1] * y[1], y, x).g) is None


def test_cuts_share_the_parts_in_x() -> None:
    # With three lower points no better value than 2 is left (example 3.27 of Mitsos and Barton).
    # Multiplied out, SCIP needs twenty times as many linear programs to see that.
    x, y = cp.Variable(5, name="x"), cp.Variable(5, name="y")
    g = y[0] ** 3 + (x[0] + x[1]) * y[1] ** 2 + 0.1 * y[2]
    g = g + (y[3] ** 2 + y[4] ** 2) * x[2] * x[3] * x[4]
    below = [y[0] * y[1] <= 0.3, x[0] - 0.2 <= y[2] ** 2, y[3] * y[4] - cp.exp(y[2]) <= 0.1]
    lower = bm.Lower(cp.Minimize(g), [y >= -1, y <= 1, *below], variables=[y])
    f = cp.sum_squares(x) + cp.sum_squares(y)
    above = [y[0] * y[1] <= x[0], x[0] + y[2] <= cp.exp(x[1]), x[1] * y[0] ** 2 <= 0]
    model = bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1, *above], lower).model
    problem = BoundingProblem(model, NONE)
    answers = [[-1, 0, -1, 0, 0], [-1, 1, -1, 0, 0], [-1, 0, -1, 1, -1]]
    points = [LowerPoint(np.zeros(5), np.array(answer, float)) for answer in answers]
    program = problem.program(points, with_conditions=False, finds_points=False)
    found = program.solve(problem.n_values, max_programs=2000, cutoff=2 + 1e-4, enough=2 - 1e-3)
    assert found.bound >= 2 - 1e-3
