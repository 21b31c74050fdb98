"""An instruction in parts, each a list of instructions that a thread of its own may run.

How an instruction is divided follows from its sizes and the number of parts alone, so that results are
the same to the last bit for a given number of threads. Parts of products and functions leave their rows
where the whole one would; sums are added in the order of the parts.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from blomodel.kernels import machine as op

Row = list[int]
_WORD = 8  # bytes
_MASK = (1 << 64) - 1  # distances are counted round the corner, as the machine does


@dataclass(frozen=True, eq=False)
class Division:
    """The parts of an instruction, and what is done when all of them are.

    Attributes
    ----------
    parts : list of arrays
        Instructions, one in each row.
    last : array
        Instructions that put the parts together; may be empty.
    kept : tuple or None
        Of a product that is kept: where its second factor lies, where the last one does, and their size.
    scratch : array
        Where parts leave what is put together.
    """

    parts: list[np.ndarray]
    last: np.ndarray
    kept: tuple[int, int, int] | None
    scratch: np.ndarray


def divide(row: np.ndarray, integers_at: int, w_at: int, count: int) -> Division | None:
    """The instruction in ``count`` parts at most; None for one that has no parts."""
    opcode = int(row[0]) % op.DIVISIBLE
    fields = [opcode, *(int(entry) for entry in row[1:])]
    if opcode == op.MATMUL:
        return _product(fields, w_at, count)
    if opcode == op.SUM and fields[1] == 1:
        return _sum(fields, w_at, count)
    length = fields[1]
    cuts = _sparse_cuts(fields, integers_at, count) if opcode == op.SPARSE else _cuts(length, count)
    if len(cuts) < 3:
        return None
    pairs = zip(cuts[:-1], cuts[1:], strict=True)
    pieces = [_table(_piece(fields, begin, end)) for begin, end in pairs]
    return Division(pieces, _table([]), None, np.zeros(0))


def _cuts(length: int, count: int) -> list[int]:
    count = min(count, length)
    return [length * part // count for part in range(count + 1)]


def _table(rows: list[Row]) -> np.ndarray:
    table = np.zeros((len(rows), op.WIDTH), dtype=np.uint64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = [entry & _MASK for entry in row]
    return table


def _piece(row: Row, begin: int, end: int) -> list[Row]:
    """Entries, runs or rows ``begin`` to ``end - 1`` of an instruction whose parts do not meet."""
    opcode, n, out, a = row[:4]
    size = end - begin
    if opcode in op.UNARY:
        return [[opcode, size, out + begin, a + begin]]
    if opcode in op.BINARY:
        step_a, b, step_b = row[4:7]
        return [[opcode, size, out + begin, a + step_a * begin, step_a, b + step_b * begin, step_b]]
    if opcode == op.FILL:
        return [[opcode, size, out + begin, a]]
    if opcode == op.GATHER:
        return [[opcode, size, out + begin, a + begin]]
    if opcode == op.SPARSE:
        where, data, columns, rows_a = row[4:8]
        return [
            [opcode, size, out + column * n + begin, a + column * rows_a, where + begin, data,
             1 + ((n - end) << 32), rows_a]
            for column in range(columns)
        ]  # fmt: skip
    length, k = row[4:6]
    is_one = opcode in (op.SUM, op.NORM, op.SEGMENT_MAX)  # number for each run
    each = 1 if is_one else length
    return [[opcode, size, out + begin * each, a + begin * length, length, k]]


def row_starts(row: Row | np.ndarray, integers_at: int) -> np.ndarray:
    """Where each row of a sparse matrix begins among its numbers, and where the last one ends."""
    n, where = int(row[1]), int(row[4])
    begin = (integers_at + _WORD * where) & _MASK
    return np.ctypeslib.as_array((ctypes.c_uint64 * (n + 1)).from_address(begin))


def _sparse_cuts(row: Row, integers_at: int, count: int) -> list[int]:
    """Rows at which a matrix falls into parts with as many numbers each."""
    n, starts = row[1], row_starts(row, integers_at)
    wanted = [int(starts[0]) + int(starts[n] - starts[0]) * part // count for part in range(1, count)]
    inner = np.searchsorted(starts, np.array(wanted, dtype=np.uint64))
    return sorted({0, n, *(int(cut) for cut in inner)})


def _place(scratch: np.ndarray, w_at: int) -> int:
    """Where an array lies, counted from the workspace."""
    return int((scratch.__array_interface__["data"][0] - w_at) // _WORD)


def _sum(row: Row, w_at: int, count: int) -> Division | None:
    _, _, out, a, length, k = row[:6]
    cuts = _cuts(length, count)
    scratch = np.zeros(len(cuts) - 1)
    place = _place(scratch, w_at)
    parts = [
        _table([[op.SUM, 1, place + number, a + begin, end - begin, k]])
        for number, (begin, end) in enumerate(zip(cuts[:-1], cuts[1:], strict=True))
    ]
    return Division(parts, _table([[op.SUM, 1, out, place, len(parts), k]]), None, scratch)


def _product(row: Row, w_at: int, count: int) -> Division | None:
    """A product by rows of its first factor where these lie one after another, else by its columns."""
    _, m, out, a, k, b, n, transposed = row
    kept = (b, out + m * n, k * n) if transposed >= 4 else None
    transposed %= 4
    is_by_rows = transposed % 2 == 1
    is_far = transposed >= 2 or n == 1  # the second factor's rows lie one after another
    cuts = _cuts(m if is_by_rows else k, count)
    pairs = list(zip(cuts[:-1], cuts[1:], strict=True))
    if len(pairs) < 2 or cuts[1] < 2:
        return None
    longest = max(end - begin for begin, end in pairs)
    if is_by_rows:
        room = 0 if n == 1 else longest * n
    else:
        room = m * n + (0 if is_far else longest * n)
    scratch = np.ones(room * len(pairs) + 1)
    one = _place(scratch, w_at)
    parts, places = [], []
    for number, (begin, end) in enumerate(pairs):
        size, place = end - begin, one + 1 + number * room
        places.append(place)
        if is_by_rows and n == 1:
            parts.append([[op.MATMUL, size, out + begin, a + begin * k, k, b, n, transposed]])
        elif is_by_rows:
            # The product's columns are whole elsewhere: this part of each goes there.
            rows = [[op.MATMUL, size, place, a + begin * k, k, b, n, transposed]]
            rows += [_copy(size, out + j * m + begin, place + j * size, one) for j in range(n)]
            parts.append(rows)
        elif is_far:
            parts.append([[op.MATMUL, m, place, a + begin * m, size, b + begin * n, n, transposed]])
        else:
            factor = place + m * n
            rows = [_copy(size, factor + j * size, b + j * k + begin, one) for j in range(n)]
            parts.append([*rows, [op.MATMUL, m, place, a + begin * m, size, factor, n, transposed]])
    last: list[Row] = []
    if not is_by_rows:
        last = [[op.ADD, m * n, out, places[0], 1, places[1], 1]]
        last += [[op.ADD, m * n, out, out, 1, place, 1] for place in places[2:]]
    return Division([_table(part) for part in parts], _table(last), kept, scratch)


def _copy(size: int, target: int, source: int, one: int) -> Row:
    """Once a number is the number itself."""
    return [op.MUL, size, target, one, 0, source, 1]
