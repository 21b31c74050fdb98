"""How the outputs of a tape depend on one block: as polynomials of degree at most two, or not.

Every element of every node carries, for the terms of degree 0, 1 and 2 in the variable, a class
that tells how the coefficients of these terms depend on another block. The classes are upper
bounds: cancellation is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blomodel.basics.arrays import is_on_disk
from blomodel.compiler.large_constants import has_no_zeros
from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op

ABSENT, CONSTANT, AFFINE, NONLINEAR = range(4)  # classes of coefficients
NOT_POLYNOMIAL = 99  # the degree of everything that is no polynomial of degree two or less

# The class of a product of coefficients of two classes.
_PRODUCT = np.array([[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 3], [0, 3, 3, 3]], dtype=np.int8)
# Pairs of thresholds that a product's factors must reach for it to reach 1, 2 or 3.
_REACHED_BY = {1: [(1, 1)], 2: [(2, 1), (1, 2)], 3: [(3, 1), (1, 3), (2, 2)]}
_FEW_PRODUCTS = 10_000  # of a matrix product that are looked at one by one


@dataclass(frozen=True)
class PolynomialFacts:
    """What is known of each output element.

    Attributes
    ----------
    degree : (n_outputs,) int array
        Degree in the variable: 0, 1, 2, or 99 for no polynomial of degree at most 2.
    coefficient_class : (n_outputs, 3) int array
        For the terms of degree 0, 1 and 2: 0 absent, 1 constant, 2 affine in the coefficient
        block, 3 nonlinear in it. All 3 where the degree is 99.
    """

    degree: np.ndarray
    coefficient_class: np.ndarray


@dataclass(frozen=True, slots=True)
class _Found:
    classes: np.ndarray  # (size, 3)
    other: np.ndarray  # (size,) whether it is no polynomial


class _Numbers:
    """The same of constants; data matrices are large, and mostly only their pattern is asked for."""

    def __init__(self, values: np.ndarray) -> None:
        # Of a file all entries are taken to differ from zero.
        is_full = is_on_disk(values) or has_no_zeros(values)
        self.nonzero: np.ndarray = np.broadcast_to(True, values.shape) if is_full else values != 0.0

    @cached_property
    def classes(self) -> np.ndarray:
        if not any(self.nonzero.strides):
            return np.broadcast_to(np.array([CONSTANT, 0, 0], np.int8), (self.nonzero.size, 3))
        classes = np.zeros((self.nonzero.size, 3), dtype=np.int8)
        classes[:, 0] = self.nonzero
        return classes

    @cached_property
    def other(self) -> np.ndarray:
        return np.broadcast_to(False, self.nonzero.size)


_State = _Found | _Numbers


def polynomial(tape: Tape, variable: str = "y", coefficient: str = "x") -> PolynomialFacts:
    """Classify each output element as a polynomial in one block with coefficients in another."""
    states: list[_State] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            states.append(_leaf(tape.input_names[node.data], node.size, variable, coefficient))
        else:
            states.append(_propagate(node, [states[arg] for arg in node.args]))
    result = states[tape.output]
    classes = np.where(result.other[:, None], NONLINEAR, result.classes).astype(int)
    present = np.where(classes > 0, np.arange(3), 0)
    degree = np.where(result.other, NOT_POLYNOMIAL, present.max(axis=1, initial=0))
    return PolynomialFacts(degree, classes)


def _leaf(name: str, size: int, variable: str, coefficient: str) -> _State:
    classes = np.zeros((1, 3), dtype=np.int8)
    if name == variable:
        classes[:, 1] = CONSTANT
    else:
        classes[:, 0] = AFFINE if name == coefficient else CONSTANT
    return _repeated(_Found(classes, np.zeros(1, dtype=bool)), size)


def _propagate(node: Node, args: list[_State]) -> _State:
    if node.op == op.CONSTANT:
        return _Numbers(node.data)
    if node.size > 1 and all(map(_is_uniform, args)):
        found = _of_all(node, [_first(arg) for arg in args])
        if found is not None:
            return _repeated(found, node.size)
    if node.op == op.MATMUL and node.data[0] == node.data[2] == 1 and all(map(_is_uniform, args)):
        return _product(*(_first(arg) for arg in args))
    if node.op == op.SUM and _is_uniform(args[0]):
        return _first(args[0])
    return _of_each(node, args)


# What all elements have in common, as sums over the rows of data have: kept once, at whatever length


def _of_all(node: Node, firsts: list[_State]) -> _State | None:
    """What all elements have in common where those of the arguments do; None: they may differ."""
    if _is_elementwise(node):
        return _of_each(node, firsts)
    if node.op == op.MATMUL:
        return _product(*firsts)
    if node.op == op.SUM:
        return firsts[0]
    if node.op in (op.SEGMENT_MAX, op.NORM):
        return _nonlinear(firsts)
    if node.op == op.SELECT and len(firsts) == 1:
        target = node.data[1]
        if target is None or (target.size and np.bincount(target, minlength=node.size).all()):
            return firsts[0]
    return None


def _is_elementwise(node: Node) -> bool:
    return node.op in op.UNARY or node.op in op.BINARY or node.op in (op.FREEZE, op.FILL)


def _is_uniform(state: _State) -> bool:
    if len(state.other) <= 1:
        return len(state.other) == 1
    return state.classes.strides[0] == 0 and state.other.strides[0] == 0


def _first(state: _State) -> _State:
    return _Found(state.classes[:1], state.other[:1])


def _repeated(state: _State, size: int) -> _State:
    return _Found(np.broadcast_to(state.classes, (size, 3)), np.broadcast_to(state.other, size))


def _of_each(node: Node, args: list[_State]) -> _State:
    if node.op in (op.NEG, op.FREEZE):
        return args[0]
    if node.op in (op.ADD, op.SUB):
        left, right = args
        return _Found(np.maximum(left.classes, right.classes), np.logical_or(left.other, right.other))
    if node.op == op.MUL:
        return _product(*args)
    if node.op in (op.DIV, op.SAFE_DIV):
        return _product(args[0], _nonlinear(args[1:]))
    if node.op in op.UNARY or node.op in op.BINARY:
        return _nonlinear(args)
    if node.op == op.MATMUL:
        return _matmul(node, *args)
    if node.op == op.SELECT and len(args) == 1 and node.data[1] is None:
        return _Found(args[0].classes[node.data[0]], args[0].other[node.data[0]])
    if node.op in (op.FILL, op.SELECT, op.SUM, op.CUMSUM, op.SPARSE):
        indicators = np.concatenate([_indicators(arg) for arg in args])
        return _from_indicators(_join(node, indicators))
    if node.op in (op.SEGMENT_MAX, op.FIRST_MAX, op.NORM, op.LARGEST):
        return _nonlinear_in_runs(node, args[0])
    raise unknown_instruction(node.op, "the classes of polynomials")


def _nonlinear_in_runs(node: Node, arg: _State) -> _State:
    """Any function of each run of the argument, one value or one for each element."""
    count, length, _ = node.data
    indicators = _indicators(arg).reshape(count, length, -1)
    run = _nonlinear([_from_indicators(np.logical_or.reduce(indicators, axis=1))])
    if node.size == count:
        return run
    return _Found(np.repeat(run.classes, length, axis=0), np.repeat(run.other, length))


def _nonlinear(args: list[_State]) -> _State:
    """Any function of the arguments: constant, or nonlinear in the coefficients."""
    highest = args[0].classes[:, 0]
    other = args[0].other | args[0].classes[:, 1:].any(axis=1)
    for arg in args[1:]:
        highest = np.maximum(highest, arg.classes[:, 0])
        other = other | arg.other | arg.classes[:, 1:].any(axis=1)
    classes = np.zeros((len(highest), 3), dtype=np.int8)
    classes[:, 0] = np.where(highest > CONSTANT, NONLINEAR, CONSTANT)
    return _Found(classes, np.broadcast_to(other, highest.shape))


def _product(left: _State, right: _State) -> _State:
    other = np.logical_or(left.other, right.other)
    classes = np.zeros((len(other), 3), dtype=np.int8)
    for i in range(3):
        for j in range(3):
            term = _PRODUCT[left.classes[:, i], right.classes[:, j]]
            if i + j <= 2:
                classes[:, i + j] = np.maximum(classes[:, i + j], term)
            else:
                other = other | (term > 0)
    return _Found(classes, other)


def _indicators(state: _State) -> np.ndarray:
    """Columns: class of each degree at least 1, 2, 3; then whether it is no polynomial."""
    reached = [state.classes >= threshold for threshold in (1, 2, 3)]
    return np.concatenate([*reached, state.other[:, None]], axis=1)


def _from_indicators(indicators: np.ndarray) -> _State:
    classes = indicators[:, :9].reshape(-1, 3, 3).sum(axis=1, dtype=np.int8)
    return _Found(classes, indicators[:, 9])


def _join(node: Node, indicators: np.ndarray) -> np.ndarray:
    """Which indicators reach each element of a node that adds elements up."""
    if node.op == op.FILL:
        return np.broadcast_to(indicators, (node.size, indicators.shape[1]))
    if node.op == op.SELECT:
        source, target = node.data
        if target is None:
            return indicators[source]
        joined = np.zeros((node.size, indicators.shape[1]), dtype=bool)
        np.logical_or.at(joined, target, indicators[source])
        return joined
    if node.op == op.SPARSE:
        matrix, columns = node.data
        pattern = abs(matrix.csr).sign()
        per_column = indicators.reshape(columns, matrix.shape[1], -1)
        return np.concatenate([pattern @ part.astype(float) > 0 for part in per_column])
    count, length, backwards = node.data
    runs = indicators.reshape(count, length, -1)
    if node.op == op.SUM:
        return np.logical_or.reduce(runs, axis=1)
    runs = runs[:, ::-1] if backwards else runs
    runs = np.logical_or.accumulate(runs, axis=1)
    return (runs[:, ::-1] if backwards else runs).reshape(node.size, -1)


def _pattern(state: _State) -> np.ndarray | None:
    """Where constants differ from zero; None for what is not constant."""
    if isinstance(state, _Numbers):
        return state.nonzero
    is_constant = not state.other.any() and bool(np.all(state.classes <= (CONSTANT, 0, 0)))
    return state.classes[:, 0] > 0 if is_constant else None


def _reached(pattern: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Which indicators of ``moving`` each row of a pattern meets."""
    if not any(pattern.strides) or pattern.all():  # a full matrix of data
        return np.broadcast_to(moving.any(axis=0), (pattern.shape[0], moving.shape[1]))
    return np.asarray(pattern.astype(np.float32) @ moving.astype(np.float32) > 0)


def _as_matrix(values: np.ndarray, rows: int, columns: int, flipped: bool) -> np.ndarray:
    """A matrix stored by columns, perhaps transposed."""
    matrix = values.reshape((columns, rows) if flipped else (rows, columns), order="F")
    return matrix.T if flipped else matrix


def _numbers(rows: int, columns: int, flipped: bool) -> np.ndarray:
    """Where the entries of a matrix lie."""
    numbers = np.arange(rows * columns)
    matrix = numbers.reshape((columns, rows) if flipped else (rows, columns), order="F")
    return matrix.T if flipped else matrix


def _small_matmul(
    left: _State, right: _State, left_shape: tuple[int, int, bool], right_shape: tuple[int, int, bool]
) -> _State:
    """Product by product, which are then joined: less work than a matrix product for each class."""
    (m, k, _), n = left_shape, right_shape[1]
    first, second = _numbers(*left_shape)[:, :, None], _numbers(*right_shape)[None]
    first, second = (np.broadcast_to(part, (m, k, n)).ravel() for part in (first, second))
    products = _product(
        _Found(left.classes[first], left.other[first]),
        _Found(right.classes[second], right.other[second]),
    )
    joined = np.logical_or.reduce(_indicators(products).reshape(m, k, n, 10), axis=1)
    return _from_indicators(joined.transpose(1, 0, 2).reshape(m * n, 10))


def _matmul(node: Node, left: _State, right: _State) -> _State:
    m, k, n, transposed = node.data
    left_shape = (m, k, transposed % 2 == 1)
    right_shape = (k, n, transposed >= 2)
    pattern = _pattern(left)
    if pattern is not None:
        moving = _indicators(right)[_numbers(*right_shape)].reshape(k, -1)
        joined = _reached(_as_matrix(pattern, *left_shape), moving)
        if n == 1 and joined.strides[0] == 0:
            return _repeated(_from_indicators(joined[:1]), m)
        joined = joined.reshape(m, n, -1).transpose(1, 0, 2)
        return _from_indicators(joined.reshape(m * n, -1))
    pattern = _pattern(right)
    if pattern is not None:
        moving = _indicators(left)[_numbers(*left_shape).T].reshape(k, -1)
        joined = _reached(_as_matrix(pattern, *right_shape).T, moving)
        return _from_indicators(joined.reshape(m * n, -1))
    if m == n == 1:  # two vectors
        joined = np.logical_or.reduce(_indicators(_product(left, right)), axis=0, keepdims=True)
        return _from_indicators(joined)
    if m * k * n <= _FEW_PRODUCTS:
        return _small_matmul(left, right, left_shape, right_shape)
    # As floats, whose products are fast.
    a = [_as_matrix(each.astype(np.float32), *left_shape) for each in _indicators(left).T]
    b = [_as_matrix(each.astype(np.float32), *right_shape) for each in _indicators(right).T]
    reached = np.zeros((3, 4, m, n), dtype=bool)  # degree, threshold
    other = np.logical_or.outer(np.max(a[9], axis=1), np.max(b[9], axis=0))
    for i in range(3):
        for j in range(3):
            for threshold, pairs in _REACHED_BY.items():
                for s, t in pairs:
                    x, y = a[3 * (s - 1) + i], b[3 * (t - 1) + j]
                    if not x.any() or not y.any():
                        continue
                    present = x @ y > 0
                    if i + j <= 2:
                        reached[i + j, threshold] |= present
                    else:
                        other |= present
    classes = reached.sum(axis=1, dtype=np.int8)  # thresholds are nested, so they count up
    flat = [matrix.ravel(order="F") for matrix in classes]
    return _Found(np.stack(flat, axis=1), other.ravel(order="F"))


def is_jointly_quadratic(tape: Tape) -> bool:
    """Whether the first output is a quadratic function of (x, y) together."""
    in_y = polynomial(tape, variable="y", coefficient="x")
    in_x = polynomial(tape, variable="x", coefficient="y")
    return bool(
        in_y.degree[0] <= 2
        and in_x.degree[0] <= 2
        and in_y.coefficient_class[0, 2] <= CONSTANT
        and in_y.coefficient_class[0, 1] <= AFFINE
        and in_x.coefficient_class[0, 2] <= CONSTANT
    )
