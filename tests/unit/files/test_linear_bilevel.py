"""From files to problems and back; values by points of our own."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import FileFormatError, ModelError

MPS = """NAME tiny
ROWS
 N  COST
 L  BELOW
 G  ABOVE
 E  TIE
COLUMNS
    M1  'MARKER'  'INTORG'
    U   COST  -1   BELOW  2
    U   TIE   1
    W   COST  -10  BELOW  3
    M2  'MARKER'  'INTEND'
    V   COST  2    ABOVE  1
    V   TIE   -1
    Z   COST  0.5  BELOW  -1
    Z   ABOVE 1
RHS
    RHS BELOW 12   ABOVE 1
    RHS COST  4
BOUNDS
 UP BND U 6
 UP BND W 5
 UP BND V 9
 MI BND Z
 UP BND Z 3
ENDATA
"""
AUX = "N 2\nM 1\nLC 1\nLC 3\nLR 0\nLO 1\nLO 3\nOS -1\n"


@pytest.fixture
def files(tmp_path):
    mps, aux = tmp_path / "tiny.mps", tmp_path / "tiny.aux"
    mps.write_text(MPS)
    aux.write_text(AUX)
    return mps, aux


def at(problem, x, y):
    """Objectives and violations of both levels."""
    problem.levels.x.assign(np.array(x, float))
    problem.levels.y.assign(np.array(y, float))
    above = max((float(np.max(c.violation())) for c in problem.constraints), default=0.0)
    below = max((float(np.max(c.violation())) for c in problem.lower.constraints), default=0.0)
    return problem.objective.value, problem.lower.objective.value, above, below


def test_reading(files):
    problem = bm.read(*files)
    model = problem.model
    assert [leaf.name() for leaf in problem.variables] == ["x", "y"]
    # x = (U, V), y = (W, Z)
    assert model.integer_x.tolist() == [True, False]
    assert model.integer_y.tolist() == [True, False]
    assert [b.tolist() for b in model.x_bounds] == [[0, 0], [6, 9]]
    assert [b.tolist() for b in model.y_bounds] == [[0, -np.inf], [5, 3]]
    f, g, above, below = at(problem, [3, 3], [2, 1])
    assert f == pytest.approx(-3 + 2 * 3 - 20 + 0.5 - 4)
    assert g == pytest.approx(2 + 3)
    assert isinstance(problem.lower.objective, cp.Maximize)
    assert (above, below) == (0, 0)
    assert at(problem, [3, 2], [2, 1])[2] == pytest.approx(1)  # TIE is the upper level's
    assert at(problem, [6, 6], [2, 1])[3] == pytest.approx(12 + 6 - 1 - 12)  # BELOW the lower one's


def test_round_trip(files, tmp_path):
    problem = bm.read(files[0])  # the auxiliary file is found beside
    mps, aux = problem.write(tmp_path / "again.mps")
    again = bm.read(mps, aux)
    draw = np.random.default_rng(0)
    for _ in range(20):
        x, y = draw.uniform(-1, 6, 2), draw.uniform(-1, 6, 2)
        first, second = at(problem, x, y), at(again, x, y)
        assert second[0] == pytest.approx(first[0])
        assert second[1] == pytest.approx(-first[1])  # written as a minimisation
        assert second[2:] == pytest.approx(first[2:])
    assert [b.tolist() for b in again.model.y_bounds] == [b.tolist() for b in problem.model.y_bounds]
    assert again.model.integer_x.tolist() == problem.model.integer_x.tolist()
    third = again.write(tmp_path / "third.mps")
    assert third[1].read_text() == aux.read_text()


def test_a_stated_problem_is_written_with_its_parameters(tmp_path):
    x, y = cp.Variable(2, name="my x", boolean=True), cp.Variable(name="y")
    price = cp.Parameter(value=3.0)
    lower = bm.Lower(cp.Maximize(price * y + x[0]), [y + x[1] <= 2, y >= -1, x[0] <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x[0] - y + 1), [cp.sum(x) == 1, y <= 7], lower)
    mps, aux = problem.write(tmp_path / "stated.mps")
    assert "my_x[1]" in mps.read_text()
    again = bm.read(mps)
    for values in itertools.product((0, 1), (0, 1), (-2.0, 1.5)):
        f, _, *violations = at(problem, values[:2], values[2:])
        other, below, *others = at(again, values[:2], values[2:])
        assert other == pytest.approx(-f)
        assert below == pytest.approx(-3 * values[2])
        assert max(violations[1], 0) <= max(others[1], 0) + 1e-12 or values[2] < -1
    assert aux.read_text().startswith("N 1\nM 2\n")


def test_single_integer_columns_are_whole_for_cvxpy_too(files):
    x = bm.read(*files).levels.upper[0]
    cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0.5]).solve(solver=cp.HIGHS)
    assert x.value.tolist() == [1.0, 0.5]


def test_interdiction(tmp_path):
    mps, aux = tmp_path / "k.mps", tmp_path / "k.aux"
    mps.write_text(
        "NAME k\nROWS\n N O\n L R\nCOLUMNS\n A O -5 R 2\n B O -4 R 3\n C O -3 R 1\nRHS\n S R 4\n"
        "BOUNDS\n BV S A\n BV S B\n BV S C\nENDATA\n"
    )
    aux.write_text(
        "N 3\nM 4\nLC 3\nLC 4\nLC 5\nLR 1\nLR 2\nLR 3\nLR 4\nLO -5\nLO -4\nLO -3\nOS 1\n"
        "IC 2\nIC 1\nIC 1\nIB 2\n"
    )
    problem = bm.read(mps, aux)
    f, g, above, below = at(problem, [0, 1, 1], [1, 0, 0])
    assert (f, g, above, below) == (5, -5, 0, 0)  # the attacker has to pay what the follower gains
    assert at(problem, [1, 1, 0], [0, 0, 1])[2] == 1  # beyond the budget
    assert at(problem, [1, 0, 0], [1, 0, 0])[3] == 1  # an attacked column is in use


def test_what_is_not_linear_is_named(tmp_path):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")

    def problem(f, g, above=(), below=()):
        return bm.BilevelProblem(cp.Minimize(f), list(above), bm.Lower(cp.Minimize(g), list(below), [y]))

    for bad, word in (
        (problem(x**2, y, [], [y >= x]), "x"),
        (problem(x * y, y, [], [y >= x]), "is not linear"),
        (problem(x, x * y, [], [y >= 0]), "coefficients that are numbers"),
        (problem(x, y**2), "coefficients that are numbers"),
        (problem(x, y, [cp.square(x) <= 1], [y >= x]), "is not linear"),
        (problem(x, y, [], [y >= cp.square(x)]), "is not linear"),
    ):
        with pytest.raises(ModelError, match=word):
            bad.write(tmp_path / "bad.mps")


def test_without_an_auxiliary_file(files):
    files[1].unlink()
    with pytest.raises(FileFormatError, match=r"no .*tiny\.aux beside"):
        bm.read(files[0])
