"""Lengths of formulas, beside the trees that the translation makes."""

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels import machine as op

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.solvers.branching.lengths import lengths
from blomodel.solvers.branching.scip import ScipProgram
from blomodel.solvers.branching.scip_expressions import UntranslatableError, formulas, is_number
from tests.unit.compiler.passes.test_instructions import SIZE, example

pytest.importorskip("pyscipopt")


def leaves(formula):
    """Variables in the tree of a formula, as often as they stand there."""
    if is_number(formula):
        return 0
    terms = getattr(formula, "terms", None)
    if terms is not None:
        return sum(len(term) for term in terms)
    return sum(leaves(child) for child in getattr(formula, "children", ())) or int(
        hasattr(formula, "var")
    )


@pytest.mark.parametrize("opcode", sorted(set(op.NAMES) - {op.WIDTH, op.INPUT, op.CONSTANT}))
def test_a_formula_has_no_length_exactly_where_it_is_a_number(opcode):
    tape = example(opcode)
    assert not np.any(lengths(tape, ("x", "y", "p"))[tape.output])
    found = lengths(tape, ("x", "p"))[tape.output]
    assert found.shape == (tape.n_outputs,)
    program = ScipProgram()  # its variables live no longer than it does
    y = program.variables(np.zeros(SIZE), np.ones(SIZE))
    try:
        written = formulas(tape, {"x": [1.0], "y": y, "p": [1.0]})
    except UntranslatableError:
        return
    assert [length > 0 for length in found] == [not is_number(formula) for formula in written]


@pytest.mark.parametrize("count", [2, 4, 7])
def test_the_largest_of_some_functions_doubles_with_each(count):
    y = cp.Variable(count, name="y")
    tape = lower([cp.max(cp.exp(y))], (Block("x", ()), Block("y", (y,)), Block("p", ())))
    program = ScipProgram()
    variables = program.variables(np.zeros(count), np.ones(count))
    (formula,) = formulas(tape, {"x": [], "y": variables, "p": []})
    (length,) = lengths(tape, ())[tape.output]
    assert 2 ** (count - 1) <= leaves(formula) <= length <= 16 * leaves(formula)
