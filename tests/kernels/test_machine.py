"""Every instruction of the machine against NumPy; repeated runs; loops compiled around it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.special
from blomodel.kernels import machine as op
from numba import njit
from numba.core.runtime import _nrt_python, rtsys

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.tape import SparseMatrix, Tape

AWKWARD = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0, 800.0, -800.0, 1e-300, np.inf, -np.inf])

UNARY_TWINS = {
    op.NEG: np.negative, op.EXP: np.exp, op.LOG: np.log, op.LOG1P: np.log1p, op.SIN: np.sin,
    op.COS: np.cos, op.TAN: np.tan, op.SINH: np.sinh, op.COSH: np.cosh, op.TANH: np.tanh,
    op.ASINH: np.arcsinh, op.ATANH: np.arctanh, op.SQRT: np.sqrt, op.ABS: np.abs,
    op.SIGN: np.sign, op.SOFTPLUS: lambda a: np.logaddexp(0.0, a), op.SIGMOID: scipy.special.expit,
    op.ENTR: scipy.special.entr, op.NORMCDF: scipy.special.ndtr,
}  # fmt: skip


def safe_division(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(a == 0.0, 0.0, a / b)


BINARY_TWINS = {
    op.ADD: np.add, op.SUB: np.subtract, op.MUL: np.multiply, op.DIV: np.divide,
    op.SAFE_DIV: safe_division, op.POWER: np.power, op.MAXIMUM: np.maximum,
    op.MINIMUM: np.minimum, op.GREATER_EQUAL: lambda a, b: (a >= b).astype(float),
    op.REL_ENTR: scipy.special.rel_entr,
}  # fmt: skip


def instruction(opcode: int, sizes: list[int], size: int, data=None) -> Tape:
    """A tape of one instruction on inputs of the given sizes."""
    names = [f"a{k}" for k in range(len(sizes))]
    builder = TapeBuilder(names, sizes)
    args = tuple(builder.input(name) for name in names)
    return builder.finish(builder.emit(opcode, args, size, data))


def test_every_elementwise_function_has_a_twin() -> None:
    assert set(UNARY_TWINS) == op.UNARY
    assert set(BINARY_TWINS) == op.BINARY


@pytest.mark.parametrize("opcode", sorted(UNARY_TWINS), ids=op.NAMES.get)
def test_unary(opcode: int) -> None:
    rng = np.random.default_rng(opcode)
    for a in (rng.normal(size=7), rng.uniform(0.1, 0.9, size=1), AWKWARD):
        with np.errstate(all="ignore"):
            expected = UNARY_TWINS[opcode](a)
        found = instruction(opcode, [a.size], a.size)(a)
        np.testing.assert_allclose(found, expected, rtol=5e-14)


@pytest.mark.parametrize("opcode", sorted(BINARY_TWINS), ids=op.NAMES.get)
def test_binary_with_and_without_repeated_scalars(opcode: int) -> None:
    rng = np.random.default_rng(opcode)
    first, second = rng.uniform(0.1, 3.0, size=(2, 5))
    grid = np.array(np.meshgrid(AWKWARD, AWKWARD)).reshape(2, -1)
    for a, b in (
        (first, second), (first, second[:1]), (first[:1], second), (first[:1], second[:1]),
        (first, np.array([3.0])), (first, np.array([4.0])), tuple(grid),
    ):  # fmt: skip
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(BINARY_TWINS[opcode](a, b), max(a.size, b.size))
        found = instruction(opcode, [a.size, b.size], expected.size)(a, b)
        np.testing.assert_allclose(found, expected, rtol=5e-14)


def test_fill_gather_and_scatter() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    np.testing.assert_array_equal(instruction(op.FILL, [1], 4)(a[:1]), np.ones(4))
    source = np.array([4, 0, 0, 2])
    gathered = instruction(op.SELECT, [3, 2], 4, (source, None))
    np.testing.assert_array_equal(gathered(a, b), [20.0, 1.0, 1.0, 3.0])
    holes = instruction(op.SELECT, [3, 2], 6, (source, np.array([5, 0, 1, 3])))
    np.testing.assert_array_equal(holes(a, b), [1.0, 1.0, 0.0, 3.0, 0.0, 20.0])
    added = instruction(op.SELECT, [3, 2], 3, (source, np.array([2, 0, 2, 2])))
    for _ in range(2):  # the second run must not add to the first
        np.testing.assert_array_equal(added(a, b), [1.0, 0.0, 24.0])


@pytest.mark.parametrize(("count", "length"), [(1, 1), (1, 6), (3, 4), (4, 1)])
def test_functions_of_runs(count: int, length: int) -> None:
    a = np.round(np.random.default_rng(0).normal(size=count * length), 1)
    rows = a.reshape(count, length)

    def run(opcode: int, size: int, k: int = 0) -> np.ndarray:
        return instruction(opcode, [a.size], size, (count, length, k))(a)

    np.testing.assert_allclose(run(op.SUM, count), rows.sum(axis=1), atol=1e-15)
    np.testing.assert_array_equal(run(op.SEGMENT_MAX, count), rows.max(axis=1))
    np.testing.assert_allclose(run(op.NORM, count), np.linalg.norm(rows, axis=1), rtol=1e-15)
    np.testing.assert_allclose(run(op.CUMSUM, a.size), np.cumsum(rows, axis=1).ravel(), atol=1e-15)
    backwards = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1].ravel()
    np.testing.assert_allclose(run(op.CUMSUM, a.size, 1), backwards, atol=1e-15)
    first = np.arange(length) == np.argmax(rows, axis=1)[:, None]
    np.testing.assert_array_equal(run(op.FIRST_MAX, a.size), first.ravel())
    for k in range(length + 1):
        order = np.argsort(-rows, axis=1, kind="stable")
        largest = np.zeros_like(rows)
        np.put_along_axis(largest, order[:, :k], 1.0, axis=1)
        np.testing.assert_array_equal(run(op.LARGEST, a.size, k), largest.ravel())


def test_ties_go_to_the_first() -> None:
    tied = np.array([1.0, 2.0, 2.0, 2.0])
    mask = instruction(op.FIRST_MAX, [4], 4, (1, 4, 0))
    np.testing.assert_array_equal(mask(tied), [0.0, 1.0, 0.0, 0.0])
    two = instruction(op.LARGEST, [4], 4, (1, 4, 2))
    np.testing.assert_array_equal(two(tied), [0.0, 1.0, 1.0, 0.0])


def test_norms_that_overflow_or_vanish() -> None:
    norm = instruction(op.NORM, [2], 1, (1, 2, 0))
    for a in ([3e200, 4e200], [3e-200, 4e-200], [5e-324, 0.0], [0.0, 0.0], [np.inf, 1.0]):
        np.testing.assert_allclose(norm(a), [np.hypot(*a)], rtol=1e-15)
    assert np.isnan(norm([np.nan, 1.0]))[0]


SHAPES = [(1, 5, 1), (4, 3, 1), (1, 3, 4), (2, 3, 4), (3, 1, 2), (30, 20, 25)]
SHAPES += [(3, 4, 1), (2, 8, 3), (5, 11, 2), (3, 0, 2)]  # inner products are summed by fours


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", range(4))
def test_matrix_products(shape: tuple[int, int, int], transposed: int) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    stored_a = a.T if transposed % 2 else a
    stored_b = b.T if transposed >= 2 else b
    tape = instruction(op.MATMUL, [m * k, k * n], m * n, (m, k, n, transposed))
    found = tape(stored_a.ravel(order="F"), stored_b.ravel(order="F"))
    np.testing.assert_allclose(found, (a @ b).ravel(order="F"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 3])
def test_sparse_products(columns: int) -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random_array((6, 5), density=0.3, rng=rng)
    dense = rng.normal(size=(5, columns))
    for each, operand in (
        (SparseMatrix(matrix), dense),
        (SparseMatrix(matrix).transposed, rng.normal(size=(6, columns))),
    ):
        tape = instruction(op.SPARSE, [operand.size], each.shape[0] * columns, (each, columns))
        expected = (each.csr @ operand).ravel(order="F")
        np.testing.assert_allclose(tape(operand.ravel(order="F")), expected, atol=1e-15)


def busy_tape() -> Tape:
    """A tape with an instruction of every family."""
    builder = TapeBuilder(("a",), (36,))
    a = builder.input("a")
    square = builder.matmul(a, a, 6, 6, 6, False, True)
    large = builder.matmul(
        builder.gather(a, np.arange(900) % 36), builder.gather(a, np.arange(900) % 35), 30, 30, 30
    )
    sparse = builder.sparse(SparseMatrix(sp.eye_array(36, k=1)), square)
    parts = [
        builder.unary(op.SIGMOID, sparse),
        builder.binary(op.DIV, a, builder.sum(square)),
        builder.segments(op.CUMSUM, a, 6),
        builder.segments(op.NORM, square, 6),
        builder.segments(op.LARGEST, a, 6, 2),
        builder.select(3, [(a, np.arange(36), np.arange(36) % 3)]),
        builder.sum(large),
    ]
    return builder.finish(builder.concatenate(parts))


def test_repeated_runs_do_not_drift() -> None:
    tape = busy_tape()
    at, elsewhere = np.linspace(-1.0, 1.0, 36), np.linspace(3.0, 1.0, 36)
    expected = tape(at)
    for _ in range(50):
        tape(elsewhere)
        np.testing.assert_array_equal(tape(at), expected)


@njit
def repeat(code, integers, workspace, start, times):
    for _ in range(times):
        op.run(code, integers, workspace, start, len(code))


def test_runs_do_not_allocate() -> None:
    tape = busy_tape()
    tape(np.linspace(-1.0, 1.0, 36))
    m = tape.machinery
    _nrt_python.memsys_enable_stats()

    def allocations(times: int) -> int:
        before = rtsys.get_allocation_stats().alloc
        repeat(m.code, m.integers, m.workspace, m.start, times)
        return rtsys.get_allocation_stats().alloc - before

    allocations(1)
    # The call from Python makes a handle for each array; the runs add nothing to that.
    assert allocations(100) == allocations(1) <= 3


def test_one_specialisation_serves_all_tapes() -> None:
    busy_tape()(np.ones(36))
    instruction(op.NEG, [1], 1)([1.0])
    assert len(op.run.signatures) == 1


def test_results_are_copies() -> None:
    tape = instruction(op.NEG, [1], 1)
    first = tape([1.0])
    tape([2.0])
    assert first.tolist() == [-1.0]


@njit
def descend(code, integers, workspace, start, inputs, output, n, steps):
    """A compiled loop around the machine, as methods write them."""
    for _ in range(steps):
        op.run(code, integers, workspace, start, len(code))
        for i in range(n):
            workspace[inputs + i] -= 0.25 * workspace[output + i]


def test_loops_can_be_compiled_around_the_machine() -> None:
    builder = TapeBuilder(("a",), (3,))
    a = builder.input("a")
    slope = builder.scale(2.0, builder.sub(a, builder.constant([1.0, 2.0, 3.0])))
    m = builder.finish(slope).machinery
    m.workspace[m.inputs[0] : m.inputs[0] + 3] = 0.0
    descend(m.code, m.integers, m.workspace, m.start, m.inputs[0], m.output, 3, 60)
    np.testing.assert_allclose(m.workspace[m.inputs[0] : m.inputs[0] + 3], [1.0, 2.0, 3.0])


SCRIPT = """
import warnings
warnings.simplefilter("error")
import numpy as np
import numba
import test_machine
assert numba.config.DISABLE_JIT
print(*test_machine.busy_tape()(np.linspace(-1.0, 1.0, 36)).tolist())
"""


def test_compiled_and_interpreted_runs_agree() -> None:
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.path.dirname(__file__),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    interpreted = np.array(done.stdout.split(), dtype=float)
    compiled_result = busy_tape()(np.linspace(-1.0, 1.0, 36))
    np.testing.assert_allclose(interpreted, compiled_result, rtol=1e-13)
