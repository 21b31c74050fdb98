"""Tapes as formulas of SCIP: the same values as the machine's, and refusals by name."""

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels import machine as op

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.solvers.branching import scip_expressions
from blomodel.solvers.branching.lengths import lengths
from blomodel.solvers.branching.scip import ScipProgram
from blomodel.solvers.branching.scip_expressions import UntranslatableError, formulas
from tests.unit.compiler.passes.test_instructions import POINT, SIZE, example

pytest.importorskip("pyscipopt")

MASKS = {op.SIGN, op.GREATER_EQUAL, op.FIRST_MAX, op.LARGEST, op.NORMCDF, op.SAFE_DIV}
NEVER_ON_A_TAPE = {op.GATHER, op.SCATTER}  # these are selections there


def values_by_scip(tape, inputs, *, is_named=False):
    """The outputs at a point: variables that the point fixes, and one for each output."""
    program = ScipProgram()
    blocks = {
        name: program.variables(np.asarray(point, float), np.asarray(point, float))
        for name, point in inputs.items()
    }
    outputs = formulas(tape, blocks, program.named if is_named else None)
    named = [program.named(output) for output in outputs]
    program.minimise(sum(named[1:], named[0]) if len(named) > 1 else 1.0 * named[0])
    program.solve(0)
    best = program._scip.getBestSol()
    return np.array([program._scip.getSolVal(best, variable) for variable in named])


@pytest.mark.parametrize("opcode", sorted(set(op.NAMES) - MASKS - {op.WIDTH} - {op.INPUT, op.CONSTANT}))
def test_every_instruction_has_the_machines_value(opcode):
    tape = example(opcode)
    found = values_by_scip(tape, {"x": [1.0], "y": POINT, "p": [1.0]})
    assert found == pytest.approx(tape([1.0], POINT, [1.0]), abs=1e-6)


@pytest.mark.parametrize("opcode", sorted(MASKS))
def test_what_has_no_word_is_refused_by_name(opcode):
    program = ScipProgram()
    y = program.variables(np.zeros(SIZE), np.ones(SIZE))
    name = op.NAMES[opcode].lower().replace("_", " ")
    with pytest.raises(UntranslatableError, match=name):
        formulas(example(opcode), {"x": [1.0], "y": y, "p": [1.0]})


def test_an_expression_of_cvxpy():
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    A = np.arange(6.0).reshape(2, 3) - 2.5
    expression = (
        cp.sum_squares(A @ y - x)
        + cp.exp(x[0]) * y[1]
        + cp.norm(y - 1)
        + cp.max(y)
        + cp.huber(y[0] - x[1])
        + cp.power(y[2] + 3, 4)
    )
    tape = lower([expression], (Block("x", (x,)), Block("y", (y,)), Block("p", ())))
    point = {"x": np.array([0.3, -0.8]), "y": np.array([1.2, -0.4, 0.5]), "p": np.zeros(0)}
    assert values_by_scip(tape, point) == pytest.approx(tape(*point.values()), rel=1e-7)


def test_numbers_stay_numbers():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    tape = lower([cp.exp(x) * 0.0 + x**2 - y], (Block("x", (x,)), Block("y", (y,)), Block("p", ())))
    assert formulas(tape, {"x": [3.0], "y": [2.0], "p": []}) == [7.0]


@pytest.mark.parametrize("function", [np.sin, np.cos, np.tan])
@pytest.mark.parametrize("at", [-7.3, -1.0, 0.4, 2.9, 11.0])
@pytest.mark.parametrize("reach", [1.0, 2.5, 30.0, np.inf])
def test_waves_over_long_intervals_have_their_values(function, at, reach):
    y = cp.Variable(1, name="y")
    atom = {np.sin: cp.nlp.sin, np.cos: cp.nlp.cos, np.tan: cp.nlp.tan}[function]
    tape = lower([atom(2 * y)], (Block("x", ()), Block("y", (y,)), Block("p", ())))
    program = ScipProgram()
    (angle,) = program.variables(np.array([at - reach]), np.array([at + reach]))
    program.equal_zero([angle - at])
    (value,) = program.formulas(tape, {"x": [], "y": [angle], "p": []})
    named = program.named(value)
    program.minimise(1.0 * named)
    assert program.solve(1).value == pytest.approx(function(2 * at), abs=1e-5)


@pytest.mark.parametrize(
    "opcode", sorted(set(op.NAMES) - MASKS - NEVER_ON_A_TAPE - {op.WIDTH, op.INPUT, op.CONSTANT})
)
def test_variables_for_long_parts_change_no_value(opcode, monkeypatch):
    monkeypatch.setattr(scip_expressions, "LONGEST", 0)
    monkeypatch.setattr(scip_expressions, "LONGEST_PART", 0)
    tape = example(opcode)
    found = values_by_scip(tape, {"x": [1.0], "y": POINT, "p": [1.0]}, is_named=True)
    assert found == pytest.approx(tape([1.0], POINT, [1.0]), abs=1e-6)


def test_a_network_with_ten_classes_is_stated_in_a_moment():
    # The shift by the largest score would be written 2^9 times, and each of the layers in every score.
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(5, 4)), np.arange(5)
    first, second = cp.Variable((4, 3), name="first"), cp.Variable((3, 10), name="second")
    scores = cp.nlp.tanh(features @ first) @ second
    own = cp.sum(cp.multiply(np.eye(10)[labels], scores))
    loss = cp.sum(cp.log_sum_exp(scores, axis=1)) - own
    tape = lower([loss], (Block("x", ()), Block("y", (first, second)), Block("p", ())))
    point = random.normal(size=42)
    inputs = {"x": np.zeros(0), "y": point, "p": np.zeros(0)}
    assert lengths(tape, ())[tape.output].sum() > scip_expressions.LONGEST
    assert values_by_scip(tape, inputs, is_named=True) == pytest.approx(tape(*inputs.values()), rel=1e-6)
