"""The check of words refuses exactly what the translation to SCIP refuses."""

import numpy as np
import pytest
from blomodel.kernels import machine as op

from blomodel.solvers.branching.scip import ScipProgram
from blomodel.solvers.branching.scip_expressions import UntranslatableError, formulas
from blomodel.solvers.branching.words import check_words
from tests.unit.compiler.passes.test_instructions import SIZE, example

pytest.importorskip("pyscipopt")


@pytest.mark.parametrize("opcode", sorted(set(op.NAMES) - {op.WIDTH, op.INPUT, op.CONSTANT}))
def test_the_same_is_refused(opcode):
    tape = example(opcode)
    program = ScipProgram()  # its variables live no longer than it does
    y = program.variables(np.zeros(SIZE), np.ones(SIZE))
    try:
        formulas(tape, {"x": [1.0], "y": y, "p": [1.0]})
    except UntranslatableError as error:
        with pytest.raises(UntranslatableError, match=str(error)):
            check_words(tape, numbers=("x", "p"))
    else:
        check_words(tape, numbers=("x", "p"))
    check_words(tape, numbers=("x", "y", "p"))
