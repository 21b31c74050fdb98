"""Derivatives of tapes, as tapes.

Every instruction has one rule: its linearisation, a list of linear maps from an operand's
change to the result's change. Forward mode pushes tangents through the maps, reverse mode pulls
cotangents back through their adjoints. Maps are written with instructions, so derivatives can be
differentiated again. Where a function has no derivative a subgradient (or zero) is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import Piece, TapeBuilder
from blomodel.compiler.passes.linear_map import linear_map
from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op

# jacobian() keeps at most this many numbers of dense rows at a time; a larger matrix is first looked
# for in the tape's structure.
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class LinearMap:
    """How one operand's change enters the result's change, and the adjoint of that."""

    push: Callable[[int], int]
    pull: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Selection:
    """The linear map that copies elements; kept apart so that many of them become one node."""

    source: np.ndarray
    target: np.ndarray


class _Sum:
    """A sum under construction; selections are collected and emitted together."""

    def __init__(self, builder: TapeBuilder, size: int) -> None:
        self.builder, self.size = builder, size
        self.terms: list[int] = []
        self.pieces: list[Piece] = []

    def total(self) -> int:
        if self.pieces:
            self.terms.append(self.builder.select(self.size, self.pieces))
            self.pieces = []
        total = self.terms[0]
        for term in self.terms[1:]:
            total = self.builder.add(total, term, self.size)
        return total


# Derivatives of the elementwise functions, from operand and result


def _unary_factor(b: TapeBuilder, opcode: int, x: int, out: int) -> int | None:
    one = b.constant(1.0)
    match opcode:
        case op.NEG:
            return b.constant(-1.0)
        case op.EXP:
            return out
        case op.LOG:
            return b.div(one, x)
        case op.LOG1P:
            return b.div(one, b.add(one, x))
        case op.SIN:
            return b.unary(op.COS, x)
        case op.COS:
            return b.unary(op.NEG, b.unary(op.SIN, x))
        case op.TAN:
            return b.add(one, b.mul(out, out))
        case op.SINH:
            return b.unary(op.COSH, x)
        case op.COSH:
            return b.unary(op.SINH, x)
        case op.TANH:
            return b.sub(one, b.mul(out, out))
        case op.ASINH:
            return b.div(one, b.unary(op.SQRT, b.add(one, b.mul(x, x))))
        case op.ATANH:
            return b.div(one, b.sub(one, b.mul(x, x)))
        case op.SQRT:
            return b.div(b.constant(0.5), out)
        case op.ABS:
            return b.unary(op.SIGN, x)
        case op.SOFTPLUS:
            return b.unary(op.SIGMOID, x)
        case op.SIGMOID:
            # Written with both tails: out * (1 - out) would lose all digits for large x.
            return b.mul(out, b.unary(op.SIGMOID, b.unary(op.NEG, x)))
        case op.ENTR:
            return b.sub(b.constant(-1.0), b.unary(op.LOG, x))
        case op.NORMCDF:
            density = b.unary(op.EXP, b.scale(-0.5, b.mul(x, x)))
            return b.scale(1.0 / sqrt(2.0 * pi), density)
        case op.SIGN:
            return None  # flat
    raise unknown_instruction(opcode, "the derivatives of elementwise functions")


def _binary_factors(
    b: TapeBuilder, opcode: int, x: int, y: int, out: int
) -> tuple[int | None, int | None]:
    one = b.constant(1.0)
    match opcode:
        case op.ADD:
            return one, one
        case op.SUB:
            return one, b.constant(-1.0)
        case op.MUL:
            return y, x
        case op.DIV:
            return b.div(one, y), b.unary(op.NEG, b.div(out, y))
        case op.SAFE_DIV:
            # The reciprocal of y, but zero at zero.
            inverse = b.binary(op.SAFE_DIV, b.unary(op.ABS, b.unary(op.SIGN, y)), y)
            return inverse, b.unary(op.NEG, b.mul(out, inverse))
        case op.POWER:
            slope = b.mul(y, b.binary(op.POWER, x, b.sub(y, one)))
            growth = None if b.is_constant(y) else b.mul(out, b.unary(op.LOG, x))
            return slope, growth
        case op.MAXIMUM:
            chosen = b.binary(op.GREATER_EQUAL, x, y)
            return chosen, b.sub(one, chosen)
        case op.MINIMUM:
            chosen = b.binary(op.GREATER_EQUAL, y, x)
            return chosen, b.sub(one, chosen)
        case op.REL_ENTR:
            ratio = b.div(x, y)
            return b.add(one, b.unary(op.LOG, ratio)), b.unary(op.NEG, ratio)
        case op.GREATER_EQUAL:
            return None, None  # flat
    raise unknown_instruction(opcode, "the derivatives of functions of two operands")


def _scaling(b: TapeBuilder, factor: int, operand_size: int, size: int) -> LinearMap:
    def pull(cotangent: int) -> int:
        product = b.mul(factor, cotangent, size)
        return product if operand_size == size else b.sum(product)

    return LinearMap(lambda tangent: b.mul(factor, tangent, size), pull)


def _matmul_maps(b: TapeBuilder, node: Node) -> list[LinearMap]:
    x, y = node.args
    m, k, n, transposed = node.data
    tx, ty = transposed % 2 == 1, transposed >= 2

    def pull_left(c: int) -> int:
        if tx:
            return b.matmul(y, c, k, n, m, ty, True)
        return b.matmul(c, y, m, n, k, False, not ty)

    def pull_right(c: int) -> int:
        if ty:
            return b.matmul(c, x, n, m, k, True, tx)
        return b.matmul(x, c, k, m, n, not tx, False)

    return [
        LinearMap(lambda t: b.matmul(t, y, m, k, n, tx, ty), pull_left),
        LinearMap(lambda t: b.matmul(x, t, m, k, n, tx, ty), pull_right),
    ]


def _run_weights(b: TapeBuilder, weights: int, length: int) -> LinearMap:
    """The map of a run-wise function whose gradient on each run is ``weights``."""
    return LinearMap(
        lambda t: b.sum(b.mul(weights, t, b.size(weights)), length),
        lambda c: b.mul(weights, b.repeat(c, length), b.size(weights)),
    )


def linearise(b: TapeBuilder, node: Node, out: int) -> list[LinearMap | Selection | None]:
    """One linear map for each operand of a node; None where the derivative vanishes."""
    if node.op in op.UNARY:
        factor = _unary_factor(b, node.op, node.args[0], out)
        return [None if factor is None else _scaling(b, factor, node.size, node.size)]
    if node.op in op.BINARY:
        left, right = node.args
        factors = _binary_factors(b, node.op, left, right, out)
        return [
            None if factor is None else _scaling(b, factor, b.size(arg), node.size)
            for factor, arg in zip(factors, node.args, strict=True)
        ]
    if node.op == op.SELECT:
        return list(_selections(b, node))
    if node.op == op.MATMUL:
        return list(_matmul_maps(b, node))
    x = node.args[0]
    if node.op == op.FILL:
        return [LinearMap(lambda t: b.fill(t, node.size), b.sum)]
    if node.op == op.SPARSE:
        matrix, columns = node.data
        return [
            LinearMap(
                lambda t: b.sparse(matrix, t, columns),
                lambda c: b.sparse(matrix.transposed, c, columns),
            )
        ]
    if node.op in op.SEGMENTS:
        _, length, k = node.data
        if node.op == op.SUM:
            return [LinearMap(lambda t: b.sum(t, length), lambda c: b.repeat(c, length))]
        if node.op == op.CUMSUM:
            cumulate = partial(b.segments, op.CUMSUM, length=length)
            return [LinearMap(lambda t: cumulate(t, k=k), lambda c: cumulate(c, k=1 - k))]
        if node.op == op.SEGMENT_MAX:
            return [_run_weights(b, b.segments(op.FIRST_MAX, x, length), length)]
        if node.op == op.NORM:
            direction = b.binary(op.SAFE_DIV, x, b.repeat(out, length), b.size(x))
            return [_run_weights(b, direction, length)]
    if node.op in (op.FIRST_MAX, op.LARGEST, op.FREEZE):
        return [None]  # masks are flat, what is frozen counts as constant
    raise unknown_instruction(node.op, "the derivatives")


def _selections(b: TapeBuilder, node: Node) -> list[Selection]:
    source, target = node.data
    target = np.arange(node.size) if target is None else target
    if len(node.args) == 1:
        return [Selection(source, target)]
    ends = np.cumsum([b.size(arg) for arg in node.args])
    part = np.searchsorted(ends, source, side="right")
    arrangement = np.argsort(part, kind="stable")
    cuts = np.searchsorted(part[arrangement], np.arange(1, len(node.args)))
    return [
        Selection(source[chosen] - (end - b.size(arg)), target[chosen])
        for arg, end, chosen in zip(node.args, ends, np.split(arrangement, cuts), strict=True)
    ]


# Tape to tape


def _names(wrt: str | Sequence[str], tape: Tape) -> tuple[str, ...]:
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
    for name in names:
        if name not in tape.input_names:
            raise KeyError(f"the tape has no input block {name!r}, only {tape.input_names}")
    return names


def _new_name(stem: str, taken: Sequence[str]) -> str:
    number, name = 1, stem
    while name in taken:
        number += 1
        name = f"{stem}{number}"
    return name


def _copy(tape: Tape, b: TapeBuilder, wrt: tuple[str, ...]) -> tuple[list[int], list[bool]]:
    """Emit the tape's nodes again; also tell which of them depend on the named blocks."""
    numbers: list[int] = []
    active: list[bool] = []
    for node in tape.nodes:
        args = tuple(numbers[arg] for arg in node.args)
        numbers.append(b.emit(node.op, args, node.size, node.data))
        if node.op == op.INPUT:
            active.append(tape.input_names[node.data] in wrt)
        else:
            active.append(node.op != op.FREEZE and any(active[arg] for arg in node.args))
    return numbers, active


def _pull_back(tape: Tape, b: TapeBuilder, wrt: tuple[str, ...], cotangent: int) -> int:
    """Emit the product of the transposed Jacobian with the cotangent."""
    numbers, active = _copy(tape, b, wrt)
    sums: list[_Sum | None] = [None] * len(tape.nodes)
    of_block: dict[str, int] = {}
    if active[tape.output]:
        output_sum = sums[tape.output] = _Sum(b, tape.n_outputs)
        output_sum.terms.append(cotangent)
    for position in range(tape.output, -1, -1):
        node, arriving = tape.nodes[position], sums[position]
        if arriving is None:
            continue
        total = arriving.total()
        sums[position] = None
        if node.op == op.INPUT:
            of_block[tape.input_names[node.data]] = total
            continue
        here = Node(node.op, tuple(numbers[arg] for arg in node.args), node.size, node.data)
        for arg, linear in zip(node.args, linearise(b, here, numbers[position]), strict=True):
            if linear is None or not active[arg]:
                continue
            slot = sums[arg]
            if slot is None:
                slot = sums[arg] = _Sum(b, tape.nodes[arg].size)
            if isinstance(linear, Selection):
                slot.pieces.append((total, linear.target, linear.source))
            else:
                slot.terms.append(linear.pull(total))
    return b.concatenate(
        [of_block[name] if name in of_block else b.zeros(tape.input_size(name)) for name in wrt]
    )


def vjp(tape: Tape, wrt: str | Sequence[str]) -> Tape:
    """The transposed Jacobian times a vector, which is one more input, ``cotangent``, the last."""
    names = _names(wrt, tape)
    if ("vjp", names) not in tape.derivatives:
        extra = _new_name("cotangent", tape.input_names)
        b = TapeBuilder((*tape.input_names, extra), (*tape.input_sizes, tape.n_outputs))
        result = b.finish(_pull_back(tape, b, names, b.input(extra)))
        tape.derivatives["vjp", names] = result
    return tape.derivatives["vjp", names]


def gradient(tape: Tape, wrt: str | Sequence[str]) -> Tape:
    """The gradient of a scalar tape in the named blocks, with the tape's own inputs."""
    names = _names(wrt, tape)
    if tape.n_outputs != 1:
        raise ValueError(f"gradient: the tape has {tape.n_outputs} outputs, not 1; use vjp")
    if ("gradient", names) not in tape.derivatives:
        b = TapeBuilder(tape.input_names, tape.input_sizes)
        result = b.finish(_pull_back(tape, b, names, b.constant(1.0)))
        tape.derivatives["gradient", names] = result
    return tape.derivatives["gradient", names]


def jvp(tape: Tape, wrt: str | Sequence[str]) -> Tape:
    """The Jacobian times a vector, which is one more input, ``tangent``, the last."""
    names = _names(wrt, tape)
    if ("jvp", names) not in tape.derivatives:
        tape.derivatives["jvp", names] = _push_forward(tape, names)
    return tape.derivatives["jvp", names]


def _push_forward(tape: Tape, wrt: tuple[str, ...]) -> Tape:
    extra = _new_name("tangent", tape.input_names)
    width = sum(tape.input_size(name) for name in wrt)
    b = TapeBuilder((*tape.input_names, extra), (*tape.input_sizes, width))
    numbers, active = _copy(tape, b, wrt)
    begins = dict(zip(wrt, np.cumsum([0, *map(tape.input_size, wrt)]), strict=False))
    tangents: list[int | None] = [None] * len(tape.nodes)
    for position, node in enumerate(tape.nodes):
        if not active[position]:
            continue
        if node.op == op.INPUT:
            begin = begins[tape.input_names[node.data]]
            tangents[position] = b.gather(b.input(extra), begin + np.arange(node.size))
            continue
        here = Node(node.op, tuple(numbers[arg] for arg in node.args), node.size, node.data)
        arriving = _Sum(b, node.size)
        for arg, linear in zip(node.args, linearise(b, here, numbers[position]), strict=True):
            tangent = tangents[arg]
            if linear is None or tangent is None:
                continue
            if isinstance(linear, Selection):
                arriving.pieces.append((tangent, linear.source, linear.target))
            else:
                arriving.terms.append(linear.push(tangent))
        if arriving.terms or arriving.pieces:
            tangents[position] = arriving.total()
    result = tangents[tape.output]
    return b.finish(b.zeros(tape.n_outputs) if result is None else result)


# Numbers


def jacobian(tape: Tape, wrt: str | Sequence[str], point: Sequence[np.ndarray]) -> sp.csc_array:
    """The Jacobian at a point.

    A large one of a linear tape is read off the tape; any other takes one run of a derivative tape for
    each row or column.
    """
    names = _names(wrt, tape)
    shape = _jacobian_shape(tape, names)
    if 0 in shape:
        return sp.csc_array(shape)
    if shape[0] * shape[1] > _CHUNK:
        known = linear_map(tape, names, point)
        if known is not None:
            matrix = sp.csc_array(known)
            matrix.eliminate_zeros()
            return matrix
    by_rows = shape[0] < shape[1]
    seeds, results, values = [], [], []
    for first, part in _sweep(tape, names, by_rows, point):
        seed, result = np.nonzero(part)
        seeds.append(seed + first)
        results.append(result)
        values.append(part[seed, result])
    positions = np.concatenate(seeds), np.concatenate(results)
    rows, columns = positions if by_rows else positions[::-1]
    return sp.csc_array((np.concatenate(values), (rows, columns)), shape=shape)


def dense_jacobian(tape: Tape, wrt: str | Sequence[str], point: Sequence[np.ndarray]) -> np.ndarray:
    """The Jacobian as a plain matrix: for small ones, where sparse arrays cost more than the numbers."""
    names = _names(wrt, tape)
    shape = _jacobian_shape(tape, names)
    matrix = np.zeros(shape)
    if 0 not in shape:
        by_rows = shape[0] < shape[1]
        by_seed = matrix if by_rows else matrix.T
        for first, part in _sweep(tape, names, by_rows, point):
            by_seed[first : first + len(part)] = part
    return matrix


def _jacobian_shape(tape: Tape, names: tuple[str, ...]) -> tuple[int, int]:
    return tape.n_outputs, sum(tape.input_size(name) for name in names)


def _sweep(
    tape: Tape, names: tuple[str, ...], by_rows: bool, point: Sequence[np.ndarray]
) -> Iterator[tuple[int, np.ndarray]]:
    """Rows (or columns) of the Jacobian in blocks: the first one's number, and the block."""
    derivative = (vjp if by_rows else jvp)(tape, names)
    shape = _jacobian_shape(tape, names)
    n_seeds, n_results = shape if by_rows else shape[::-1]
    derivative(*point, np.zeros(n_seeds))  # also runs what does not depend on the seed
    m = derivative.machinery
    block = np.empty((min(n_seeds, max(1, _CHUNK // n_results)), n_results))
    for first in range(0, n_seeds, len(block)):
        part = block[: n_seeds - first]
        op.sweep(
            m.code,
            m.integers,
            m.workspace,
            m.prefix,
            m.inputs[-1],
            n_seeds,
            m.output,
            n_results,
            first,
            part,
        )
        yield first, part


def hessian(tape: Tape, wrt: str | Sequence[str], point: Sequence[np.ndarray]) -> sp.csc_array:
    """The matrix of second derivatives of a scalar tape at a point."""
    return jacobian(gradient(tape, wrt), wrt, point)
