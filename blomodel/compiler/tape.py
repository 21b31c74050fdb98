"""The tape: a function of flat vectors as a list of instructions, run by one compiled machine.

A tape is a list of nodes in single-assignment form. Each node is one instruction of the machine
(``kernels/machine.py``) with its operands; derivatives and analyses work on the nodes. The table
of numbers that the machine reads is made when the tape is first called.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.large_constants import FAR, attached, far_place, is_large
from blomodel.compiler.team import shared
from blomodel.errors import UnknownInstructionError
from blomodel.kernels import machine as op

if TYPE_CHECKING:
    from blomodel.compiler.pieces import Pieces

KEPT_ENTRIES = 100_000  # entries of an array from which copies and keys of it are worth keeping
_KNOWN_KEYS: dict[int, tuple[weakref.ref[np.ndarray], bytes]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value of a tape.

    ``data`` is the part that is fixed when the tape is built: the block's number (INPUT), the
    numbers (CONSTANT), pairs of positions (SELECT), a matrix and a number of columns (SPARSE),
    sizes (MATMUL: m, k, n, transposed; functions of runs: count, length, k).
    """

    op: int
    args: tuple[int, ...]
    size: int
    data: Any = None

    def __repr__(self) -> str:
        return f"{op.NAMES.get(self.op, self.op)}{self.args}[{self.size}]"


def unknown_instruction(opcode: int, where: str) -> UnknownInstructionError:
    """The error of a pass that has no entry for an instruction: a guess could end up in a proof."""
    name = op.NAMES.get(opcode, "an instruction that the machine does not know")
    return UnknownInstructionError(
        f"{where} has no entry for instruction {opcode} ({name}); every pass over tapes needs one for "
        "each instruction of kernels/machine.py."
    )


class SparseMatrix:
    """A constant matrix by rows; it keeps its transpose, which the adjoint needs."""

    shape: Any

    def __init__(self, matrix: Any) -> None:
        rows = sp.csr_array(matrix)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        self.csr = rows
        self.shape = rows.shape

    @cached_property
    def transposed(self) -> SparseMatrix:
        """The transpose, which knows this matrix as its own transpose."""
        other = SparseMatrix(self.csr.T)
        other.__dict__["transposed"] = self
        return other

    @cached_property
    def lists(self) -> np.ndarray:
        """Row starts and column numbers, as the machine reads them."""
        return np.concatenate([self.csr.indptr, self.csr.indices]).astype(np.uint64)

    @cached_property
    def key(self) -> bytes:
        """Equal for equal matrices."""
        parts = (self.csr.indptr, self.csr.indices, self.csr.data)
        return digest(np.array(self.shape), *parts)


def digest(*arrays: np.ndarray) -> bytes:
    """A short key, equal for equal arrays; that of a large array which cannot change is kept."""
    alone = arrays[0] if len(arrays) == 1 and arrays[0].size >= KEPT_ENTRIES else None
    if alone is not None and is_large(alone) and not alone.flags.writeable:
        return (
            f"{alone.__array_interface__['data'][0]} {alone.shape}".encode()
        )  # kept once, see interned
    if alone is not None and not alone.flags.writeable:
        known = _KNOWN_KEYS.get(id(alone))
        if known is not None and known[0]() is alone:
            return known[1]
    state = blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.dtype.str}{array.shape}".encode())
        if array.size:
            state.update(np.ascontiguousarray(array).data.cast("B"))
    key = state.digest()
    if alone is not None and not alone.flags.writeable:
        number = id(alone)
        _KNOWN_KEYS[number] = (weakref.ref(alone, lambda _: _KNOWN_KEYS.pop(number, None)), key)
    return key


@dataclass(frozen=True, slots=True)
class Machinery:
    """What the machine needs to run a tape; also the arguments for loops compiled around it."""

    code: np.ndarray  # instructions, one a row
    integers: np.ndarray  # index lists of the instructions
    workspace: np.ndarray  # inputs, constants (already set), every intermediate value
    start: int  # instructions before this one use constants only and have been run
    prefix: int  # instructions from here on depend on the last input
    inputs: tuple[int, ...]  # where each input block begins in the workspace
    output: int  # where the output begins
    constants: dict[int, int]  # where each constant begins, and its size
    portable: tuple[
        np.ndarray, np.ndarray
    ]  # code and integers for a copy of the workspace, see attached
    kept: tuple[np.ndarray, ...]  # large constants, which lie outside of the workspace


class Tape:
    """A compiled vector function of named blocks; call it with one array for each block.

    Parameters
    ----------
    input_names, input_sizes : sequences
        The blocks, in calling order.
    nodes : list of Node
        In an order in which operands come first.
    output : int
        Number of the node that is the result.
    output_slices : sequence of slice
        Where each of the lowered expressions lies in the result.

    Notes
    -----
    A tape owns one workspace, so that a call allocates nothing but its answer: do not call the
    same tape from two threads.
    """

    def __init__(
        self,
        input_names: Sequence[str],
        input_sizes: Sequence[int],
        nodes: Sequence[Node],
        output: int,
        output_slices: Iterable[slice] | None = None,
    ) -> None:
        self.input_names: tuple[str, ...] = tuple(input_names)
        self.input_sizes: tuple[int, ...] = tuple(input_sizes)
        kept, position = _reachable(nodes, output)
        self.nodes: tuple[Node, ...] = kept
        self.output: int = position
        self._size_of = dict(zip(self.input_names, self.input_sizes, strict=True))
        self.n_outputs: int = self.nodes[self.output].size
        whole = [slice(0, self.n_outputs)]
        self.output_slices: list[slice] = whole if output_slices is None else list(output_slices)
        self.derivatives: dict[Any, Any] = {}  # filled by compiler/passes/derivatives.py

    def __call__(self, *inputs: Any) -> np.ndarray:
        """Run the tape; the result is a copy, since the next call uses the same workspace."""
        if self.pieces is not None:
            return self.pieces(*inputs)
        run, arguments, views, result = self._runner
        if len(inputs) != len(views):
            raise TypeError(f"this tape takes the blocks {self.input_names}")
        for view, value in zip(views, inputs, strict=True):
            if len(value) != len(view):
                raise ValueError(self._wrong_sizes(inputs))
            view[:] = value
        run(*arguments)
        return result.copy()

    def at_each(self, name: str, points: np.ndarray, *inputs: Any) -> np.ndarray:
        """The results at many values of one block, a row for each; ``inputs`` give the other blocks."""
        number = self.input_names.index(name)
        if self.pieces is not None:
            before, after = inputs[:number], inputs[number + 1 :]
            return np.array([self(*before, point, *after) for point in points])
        m = self.machinery
        result = np.empty((len(points), self.n_outputs))
        points = np.ascontiguousarray(points, dtype=float)
        if points.shape[1] != self.input_sizes[number]:
            raise ValueError(f"block {name} has size {self.input_sizes[number]}, not {points.shape[1]}")
        if not len(points):
            return result
        result[0] = self(*inputs[:number], points[0], *inputs[number + 1 :])
        # What does not depend on the last block has just been run.
        first, others = m.prefix if number == len(self.input_sizes) - 1 else m.start, slice(1, None)
        block = m.code, m.integers, m.workspace, first, m.inputs[number], m.output
        op.run_each(*block, points[others], result[others])
        return result

    def _wrong_sizes(self, inputs: Sequence[Any]) -> str:
        wanted = dict(zip(self.input_names, self.input_sizes, strict=True))
        return f"this tape takes blocks of sizes {wanted}, not {[len(value) for value in inputs]}"

    def __getstate__(self) -> dict[str, Any]:
        """Without the machinery: copies of its views would no longer share one workspace."""
        return {k: v for k, v in vars(self).items() if k not in ("machinery", "_runner", "pieces")}

    def __repr__(self) -> str:
        blocks = ", ".join(map("{}[{}]".format, self.input_names, self.input_sizes))
        return f"<Tape ({blocks}) -> [{self.n_outputs}], {len(self.nodes)} nodes>"

    def input_size(self, name: str) -> int:
        """Size of the named block; 0 if the tape has no such block."""
        return self._size_of.get(name, 0)

    def depends_on(self, name: str) -> bool:
        """Whether the block can influence the result."""
        return any(node.op == op.INPUT and self.input_names[node.data] == name for node in self.nodes)

    @property
    def n_products(self) -> int:
        """Multiplications of its products with matrices in one run."""
        count = 0
        for node in self.nodes:
            if node.op == op.MATMUL:
                count += int(np.prod(node.data[:3], dtype=np.int64))
            elif node.op == op.SPARSE:
                count += node.data[0].csr.nnz * node.data[1]
        return count

    @cached_property
    def pieces(self) -> Pieces | None:
        """The tape a few rows of a file at a time; None for one that is run as a whole."""
        from blomodel.compiler.pieces import pieces_of  # which is made of tapes itself

        return pieces_of(self)

    @cached_property
    def machinery(self) -> Machinery:
        """The tape in the machine's own terms."""
        return _Encoder(self).encode()

    @cached_property
    def _runner(self) -> tuple[Any, tuple[Any, ...], list[np.ndarray], np.ndarray]:
        m = self.machinery
        views = [
            m.workspace[begin : begin + size]
            for begin, size in zip(m.inputs, self.input_sizes, strict=True)
        ]
        arguments = (m.code, m.integers, m.workspace, m.start, len(m.code))
        run = partial(shared, op.run) if np.any(m.code[:, 0] >= op.DIVISIBLE) else op.run
        return run, arguments, views, m.workspace[m.output : m.output + self.n_outputs]


def _reachable(nodes: Sequence[Node], output: int) -> tuple[tuple[Node, ...], int]:
    """The nodes that the output needs, renumbered."""
    needed = np.zeros(len(nodes), dtype=bool)
    needed[output] = True
    for number in range(output, -1, -1):
        if needed[number]:
            needed[list(nodes[number].args)] = True
    new_number = np.cumsum(needed) - 1
    kept = [
        Node(node.op, tuple(int(new_number[arg]) for arg in node.args), node.size, node.data)
        for node, keep in zip(nodes, needed, strict=True)
        if keep
    ]
    return tuple(kept), int(new_number[output])


class _Encoder:
    """Gives every node a place in the workspace and every instruction a row."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.offset = [0] * len(tape.nodes)
        # Values that compiler/passes/directions.py may move away from what lies beside them.
        kinds = (op.INPUT, op.CONSTANT, op.MATMUL)
        self.movable = {number for number, node in enumerate(tape.nodes) if node.op in kinds}
        self.rows: list[list[int]] = []
        self.rank: list[int] = []  # 0 constant, 1 does not depend on the last input, 2 does
        self.integers: list[np.ndarray] = []
        self.n_integers = 0
        self.constants: list[tuple[int, np.ndarray]] = []
        self.matrices: dict[bytes, tuple[int, int]] = {}
        self.kept: list[np.ndarray] = []
        self.far: dict[int, int] = {}
        self.top = 0

    def encode(self) -> Machinery:
        """Lay out the workspace and the code, and run what depends on constants only."""
        tape = self.tape
        inputs = [self._take(size) for size in tape.input_sizes]
        self.zero = self._constant(np.zeros(1))
        last = len(tape.input_sizes) - 1
        node_rank = [0] * len(tape.nodes)
        for number, node in enumerate(tape.nodes):
            if node.op == op.INPUT:
                self.offset[number] = inputs[node.data]
                node_rank[number] = 2 if node.data == last else 1
            elif node.op == op.CONSTANT:
                self.offset[number] = self._constant(node.data)
            else:
                node_rank[number] = max((node_rank[arg] for arg in node.args), default=0)
                row = self._instruction(number, node)
                if row is not None:
                    self.rows.append(row + [0] * (op.WIDTH - len(row)))
                    self.rank.append(node_rank[number])
        if self.offset[tape.output] >= FAR:  # the result must lie in the workspace
            size = tape.n_outputs
            places = self.offset[tape.output] + np.arange(size)
            self.offset[tape.output] = self._take(size)
            row = [op.GATHER, size, self.offset[tape.output], self._list(places)]
            self.rows.append(row + [0] * (op.WIDTH - len(row)))
            self.rank.append(0)
        # A stable sort by rank keeps operands before their use.
        order = np.argsort(np.array(self.rank, dtype=int), kind="stable")
        code = np.array(self.rows, dtype=np.uint64).reshape(-1, op.WIDTH)[order]
        integers = np.concatenate([np.zeros(1, np.uint64), *self.integers])
        self.integers.clear()
        workspace = np.zeros(max(self.top, 1))
        for begin, values in self.constants:
            workspace[begin : begin + values.size] = values
        ranks = np.array(self.rank, dtype=int)
        start = int(np.count_nonzero(ranks == 0))
        prefix = int(np.count_nonzero(ranks <= 1))
        portable = code, integers
        code, integers = attached(code, integers, workspace, self.kept)
        if start:
            op.run(code, integers, workspace, 0, start)
        return Machinery(
            code,
            integers,
            workspace,
            start,
            prefix,
            tuple(inputs),
            self.offset[tape.output],
            {begin: values.size for begin, values in self.constants} | self.far,
            portable,
            tuple(self.kept),
        )

    def _take(self, size: int) -> int:
        begin, self.top = self.top, self.top + size
        return begin

    def _constant(self, values: np.ndarray) -> int:
        far = far_place(values)
        if far is not None:
            self.kept.append(values)
            self.far[far] = values.size
            return far
        begin = self._take(values.size)
        self.constants.append((begin, values))
        return begin

    def _list(self, *arrays: np.ndarray) -> int:
        # The pool begins with one unused number, so that it is never empty.
        begin = self.n_integers + 1
        for array in arrays:
            is_signed = array.dtype == np.int64  # the bits of numbers from zero on are the same
            self.integers.append(array.view(np.uint64) if is_signed else array.astype(np.uint64))
            self.n_integers += array.size
        return begin

    def _instruction(self, number: int, node: Node) -> list[int] | None:
        if node.op == op.SELECT:
            return self._select(number, node)
        a = self.offset[node.args[0]]
        if node.op == op.FREEZE:
            self.offset[number] = a
            if node.args[0] in self.movable:
                self.movable.add(number)
            return None
        out = self.offset[number] = self._take(node.size)
        if node.op in op.UNARY or node.op == op.FILL:
            return [node.op, node.size, out, a]
        if node.op in op.BINARY:
            b = self.offset[node.args[1]]
            steps = [int(self.tape.nodes[arg].size > 1) for arg in node.args]
            return [node.op, node.size, out, a, steps[0], b, steps[1]]
        if node.op in op.SEGMENTS:
            count, length, k = node.data
            return [node.op, count, out, a, length, k]
        if node.op == op.MATMUL:
            m, k, n, transposed = node.data
            return [node.op, m, out, a, k, self.offset[node.args[1]], n, transposed]
        if node.op == op.SPARSE:
            matrix, columns = node.data
            if matrix.key not in self.matrices:
                where = far_place(matrix.lists)
                if where is None:
                    where = self._list(matrix.lists)
                else:
                    self.kept.append(matrix.lists)
                self.matrices[matrix.key] = (where, self._constant(matrix.csr.data))
            where, data = self.matrices[matrix.key]
            return [node.op, matrix.shape[0], out, a, where, data, columns, matrix.shape[1]]
        raise unknown_instruction(node.op, "the encoding of tapes")

    def _select(self, number: int, node: Node) -> list[int] | None:
        source, target = node.data
        if node.size == 0:
            return None
        places, held = self._places(node.args, source)
        is_fixed = len(held) == 1 or self.movable.isdisjoint(held)
        if target is None and is_fixed and places[-1] - places[0] == node.size - 1:
            if np.all(np.diff(places) == 1):  # a piece of another value: nothing to do
                self.offset[number] = int(places[0])
                if not self.movable.isdisjoint(held):
                    self.movable.add(number)
                return None
        out = self.offset[number] = self._take(node.size)
        if target is None:
            return [op.GATHER, node.size, out, self._list(places)]
        if target.size <= node.size and np.bincount(target).max(initial=0) <= 1:
            full = np.full(node.size, self.zero)
            full[target] = places
            return [op.GATHER, node.size, out, self._list(full)]
        return [op.SCATTER, node.size, out, self._list(places, target), target.size]

    def _places(self, args: tuple[int, ...], source: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Where elements of some values, one after another, lie, and which of the values have some."""
        if len(args) == 1:
            return np.add(source, self.offset[args[0]], dtype=np.int64), list(args)
        sizes = np.array([self.tape.nodes[arg].size for arg in args])
        offsets = np.array([self.offset[arg] for arg in args])
        ends = np.cumsum(sizes)
        part = np.searchsorted(ends, source, side="right")
        places = source - (ends - sizes)[part] + offsets[part]
        held = [arg for arg, count in zip(args, np.bincount(part), strict=False) if count]
        return places, held
