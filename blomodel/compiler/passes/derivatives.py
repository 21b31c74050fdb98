"""Derivatives of tapes, as tapes.

Forward mode pushes tangents through the linear maps of ``linearisation.py``, reverse mode pulls
cotangents back through their adjoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import Piece, TapeBuilder
from blomodel.compiler.passes.entries import JacobianEntries, jacobian_entries
from blomodel.compiler.passes.linearisation import Selection, copied, linearise
from blomodel.compiler.passes.slopes import TooManyEntriesError
from blomodel.compiler.tape import Node, Tape
from blomodel.compiler.work import MULTIPLIED
from blomodel.kernels import machine as op

# A sweep keeps at most this many numbers of dense rows at a time.
_CHUNK = 1 << 20
# In operations of the machine: what a run of a derivative tape costs for each node, what finding the
# entries of a Jacobian costs for each node, and what each entry costs that is carried along meanwhile.
_SWEPT_NODE, _FOUND_NODE, _CARRIED_ENTRY = 20, 40_000, 1000
_FEW_ENTRIES = 1e5  # are carried along whatever sweeps would cost
_ENTRIES_OF_A_PATTERN = 4e6  # the same where only the positions are asked for
_SHARE_OF_A_SWEEP = 0.25  # with more entries than this part of a sweep's operations, sweeps are as fast


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


def _pull_back(tape: Tape, b: TapeBuilder, wrt: tuple[str, ...], cotangent: int) -> int:
    """Emit the product of the transposed Jacobian with the cotangent."""
    numbers, active = copied(tape, b, wrt)
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
    numbers, active = copied(tape, b, wrt)
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

    It takes one run of a derivative tape for each row or column, until these runs have cost as much as
    it takes to find a tape for all entries together. What that takes is not known before: it is tried
    with as many entries as the runs would have paid for, and again when they have cost twice as much.
    """
    names = _names(wrt, tape)
    shape = _jacobian_shape(tape, names)
    if 0 in shape:
        return sp.csc_array(shape)
    entries = _known_entries(tape, names, shape)
    if entries is not None:
        return entries.at(point)
    by_rows = shape[0] < shape[1]
    parts = [_compressed(part) for _, part in _sweep(tape, names, by_rows, point)]
    values = np.concatenate([part[0] for part in parts])
    if values.size == shape[0] * shape[1]:
        return _full(values.reshape(shape) if by_rows else values.reshape(shape[::-1]).T)
    places, counts = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    lists = values, places, _begins(counts)
    if by_rows:
        return sp.csc_array(sp.csr_array(lists, shape=shape))
    return sp.csc_array(lists, shape=shape)


def _compressed(block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of a block that are not zero, row by row, their columns, and how many each row has."""
    is_kept = block != 0.0
    counts = np.count_nonzero(is_kept, axis=1)
    if counts.sum() == block.size:  # as dense data make it: no place has to be looked for
        return block.flatten(), np.tile(np.arange(block.shape[1], dtype=np.int32), len(block)), counts
    return block[is_kept], np.nonzero(is_kept)[1].astype(np.int32), counts


def _full(matrix: np.ndarray) -> sp.csc_array:
    """A matrix without zeros."""
    n_rows, n_columns = matrix.shape
    places = np.tile(np.arange(n_rows, dtype=np.int32), n_columns)
    lists = matrix.ravel(order="F"), places, _begins(np.full(n_columns, n_rows))
    return sp.csc_array(lists, shape=matrix.shape)


def _begins(counts: np.ndarray) -> np.ndarray:
    """Where each run of so many entries begins, and where the last one ends; in short integers."""
    begins = np.concatenate([[0], np.cumsum(counts)])
    return begins.astype(np.int32) if begins[-1] <= np.iinfo(np.int32).max else begins


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


def known_jacobian(
    tape: Tape, wrt: str | Sequence[str], point: Sequence[np.ndarray], most: float = np.inf
) -> np.ndarray | None:
    """The Jacobian as a plain matrix, by a tape for all its entries.

    None where there is no such tape yet, or where it takes longer than a run for each row or column, or
    more than ``most`` operations.
    """
    names = _names(wrt, tape)
    entries: JacobianEntries | None = tape.derivatives.get(("entries", names))
    if entries is None:
        return None
    cost = cost_of_a_run(entries.values) if isinstance(entries.values, Tape) else 0.0
    return entries.full_at(point) if cost <= min(most, _sweeping_cost(tape, entries.shape)) else None


def pattern(tape: Tape, wrt: str | Sequence[str]) -> sp.csc_array | None:
    """Ones where the Jacobian may differ from zero somewhere; None where that would cost too much."""
    names = _names(wrt, tape)
    shape = _jacobian_shape(tape, names)
    if 0 in shape:
        return sp.csc_array(shape)
    entries = _found_entries(
        tape, names, max(_ENTRIES_OF_A_PATTERN, _sweeping_cost(tape, shape) / _CARRIED_ENTRY)
    )
    return None if entries is None else entries.mask


def _known_entries(tape: Tape, names: tuple[str, ...], shape: tuple[int, int]) -> JacobianEntries | None:
    """The entries, once looking for them has paid; None where sweeps are to be used."""
    kept = tape.derivatives
    if ("entries", names) in kept:
        return kept["entries", names]
    one = _sweeping_cost(tape, shape)
    spent = kept.get(("swept", names), 0.0) + one
    if spent > _FOUND_NODE * len(tape.nodes):
        most = max(_FEW_ENTRIES, min(spent / _CARRIED_ENTRY, _SHARE_OF_A_SWEEP * one))
        is_more = most >= 2 * kept.get(("tried", names), 0.0)
        found = _found_entries(tape, names, most) if is_more else None
        if found is not None:
            return found
        if most >= _SHARE_OF_A_SWEEP * one:
            kept["entries", names] = None  # for good
    kept["swept", names] = spent
    return None


def _found_entries(tape: Tape, names: tuple[str, ...], most: float) -> JacobianEntries | None:
    """The entries if no more than so many have to be carried along, and none for each row of a file."""
    if tape.pieces is not None:
        return None
    kept = tape.derivatives
    if kept.get(("entries", names)) is None and most > kept.get(("tried", names), 0.0):
        try:
            kept["entries", names] = jacobian_entries(tape, names, most)
        except TooManyEntriesError:
            kept["tried", names] = most
    return kept.get(("entries", names))


def _sweeping_cost(tape: Tape, shape: tuple[int, int]) -> float:
    return min(shape) * cost_of_a_run(tape)


def cost_of_a_run(tape: Tape) -> float:
    """What a run of a tape costs, in operations of the machine."""
    one = _SWEPT_NODE * len(tape.nodes) + sum(node.size for node in tape.nodes) + tape.n_products
    return float(one - _saved_by_libraries(tape))


def _saved_by_libraries(tape: Tape) -> float:
    """Operations less than multiplications, since matrix libraries do several in the time of one."""
    sizes = [node.data[:3] for node in tape.nodes if node.op == op.MATMUL]
    return sum((1.0 - MULTIPLIED) * m * k * n for m, k, n in sizes if m > 1 and n > 1)


def _jacobian_shape(tape: Tape, names: tuple[str, ...]) -> tuple[int, int]:
    return tape.n_outputs, sum(tape.input_size(name) for name in names)


def _sweep(
    tape: Tape, names: tuple[str, ...], by_rows: bool, point: Sequence[np.ndarray]
) -> Iterator[tuple[int, np.ndarray]]:
    """Rows (or columns) of the Jacobian in blocks: the first one's number, and the block."""
    derivative = (vjp if by_rows else jvp)(tape, names)
    shape = _jacobian_shape(tape, names)
    n_seeds, n_results = shape if by_rows else shape[::-1]
    block = np.empty((min(n_seeds, max(1, _CHUNK // n_results)), n_results))
    if derivative.pieces is not None:
        for first in range(0, n_seeds, len(block)):
            part = block[: n_seeds - first]
            derivative.pieces.sweep((*point, np.zeros(n_seeds)), first, part)
            yield first, part
        return
    derivative(*point, np.zeros(n_seeds))  # also runs what does not depend on the seed
    m = derivative.machinery
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
