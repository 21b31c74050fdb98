"""MPS files: a mixed-integer linear program, read and written.

Fixed and free format are read alike, by the words of each line, so that names hold no blanks. Integer
columns between markers that have no bounds lie between 0 and 1, as the other readers take them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from blomodel.errors import FileFormatError
from blomodel.files.lines import Line, read_lines
from blomodel.programs.linear_mip import LinearMip

SECTIONS = ("NAME", "OBJSENSE", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "ENDATA")
NEEDS_VALUE = ("UP", "LO", "FX", "UI", "LI")
WITHOUT_VALUE = ("FR", "MI", "PL", "BV")


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearProgram(LinearMip):
    """A mixed-integer linear program with names, a constant beside cost'z, and a sense."""

    name: str
    columns: list[str]
    rows: list[str]
    constant: float
    is_maximised: bool


@dataclass
class _Column:
    """A column while a file is read."""

    is_integer: bool
    cost: float = 0.0
    entries: dict[int, float] = field(default_factory=dict)  # by row
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        if self.low is None and self.high is None and self.is_integer:
            return 0.0, 1.0
        low = 0.0 if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        if self.low is None and high < 0:
            low = -np.inf  # a negative upper bound without a lower one means that there is none
        return low, high


class _Reader:
    """What has been read so far."""

    def __init__(self) -> None:
        self.name = ""
        self.is_maximised = False
        self.objective: str | None = None
        self.free_rows: set[str] = set()
        self.rows: dict[str, int] = {}
        self.kinds: list[str] = []
        self.right: dict[int, float] = {}
        self.ranges: dict[int, float] = {}
        self.constant = 0.0
        self.columns: dict[str, _Column] = {}
        self.is_integer = False

    def read_objsense(self, line: Line) -> None:
        """MIN or MAX."""
        word = line.words[-1].upper()
        if word not in ("MIN", "MAX", "MINIMIZE", "MAXIMIZE", "MINIMISE", "MAXIMISE"):
            line.refuse("OBJSENSE is MIN or MAX")
        self.is_maximised = word.startswith("MAX")

    def read_rows(self, line: Line) -> None:
        """The kind and the name of a row."""
        words = line.words
        if len(words) != 2 or words[0].upper() not in "NLGE":
            line.refuse("a row is N, L, G or E and a name")
        kind, name = words[0].upper(), words[1]
        if name in self.rows or name == self.objective or name in self.free_rows:
            line.refuse(f"the row {name!r} stands here for the second time")
        if kind != "N":
            self.rows[name] = len(self.rows)
            self.kinds.append(kind)
        elif self.objective is None:
            self.objective = name
        else:
            self.free_rows.add(name)

    def read_columns(self, line: Line) -> None:
        """A marker, or a column with its entries in one or two rows."""
        words = line.words
        if len(words) == 3 and words[1].strip("'\"").upper() == "MARKER":
            mark = words[2].strip("'\"").upper()
            if mark not in ("INTORG", "INTEND"):
                line.refuse("a marker is 'INTORG' or 'INTEND'")
            self.is_integer = mark == "INTORG"
            return
        if len(words) not in (3, 5):
            line.refuse("a column is followed by one or two pairs of a row and a number")
        column = self.columns.setdefault(words[0], _Column(self.is_integer))
        for row, word in zip(words[1::2], words[2::2], strict=True):
            number = line.finite(word)
            if row == self.objective:
                column.cost += number
            elif row not in self.free_rows:
                place = self.row(line, row)
                column.entries[place] = column.entries.get(place, 0.0) + number

    def row(self, line: Line, name: str) -> int:
        """The place of a row."""
        if name not in self.rows:
            line.refuse(f"there is no row {name!r}")
        return self.rows[name]

    def read_rhs(self, line: Line) -> None:
        """Right sides, of the objective too: its constant with the other sign."""
        for row, word in self.pairs(line):
            if row == self.objective:
                self.constant = -1.0 * line.finite(word)
            elif row not in self.free_rows:
                self.right[self.row(line, row)] = line.value(word)

    def read_ranges(self, line: Line) -> None:
        """Ranges of rows."""
        for row, word in self.pairs(line):
            if row != self.objective and row not in self.free_rows:
                self.ranges[self.row(line, row)] = line.finite(word)

    def pairs(self, line: Line) -> list[tuple[str, str]]:
        """Pairs of a row and a number; the name of the set before them may be missing."""
        words = line.words
        if len(words) not in (2, 3, 4, 5):
            line.refuse("one or two pairs of a row and a number are expected")
        words = words[len(words) % 2 :]
        return list(zip(words[::2], words[1::2], strict=True))

    def read_bounds(self, line: Line) -> None:
        """A bound; the name of the set may be missing."""
        words = line.words
        kind = words[0].upper()
        if kind not in NEEDS_VALUE + WITHOUT_VALUE:
            line.refuse(f"{words[0]!r} is no kind of bound that is known here")
        rest = words[1:]
        if kind in NEEDS_VALUE:
            if len(rest) not in (2, 3):
                line.refuse("a bound is a kind, a set, a column and a number")
            name, value = rest[-2], line.value(rest[-1])
        else:
            value = 0.0
            known = [word for word in rest[:2] if word in self.columns]
            name = known[-1] if known else (rest or [""])[-1]
        if name not in self.columns:
            line.refuse(f"there is no column {name!r}")
        self.bound(self.columns[name], kind, value)

    @staticmethod
    def bound(column: _Column, kind: str, value: float) -> None:
        """Set a bound."""
        column.is_integer |= kind in ("BV", "UI", "LI")
        if kind in ("LO", "LI"):
            column.low = value
            if column.high is None:
                column.high = np.inf
        elif kind in ("UP", "UI"):
            column.high = value
        elif kind == "FX":
            column.low = column.high = value
        elif kind == "BV":
            column.low, column.high = 0.0, 1.0
        elif kind == "FR":
            column.low, column.high = -np.inf, np.inf
        elif kind == "MI":
            column.low = -np.inf
        else:
            column.high = np.inf

    @property
    def program(self) -> LinearProgram:
        """All of it as arrays."""
        n, m = len(self.columns), len(self.rows)
        columns = list(self.columns.values())
        places = [(row, j, a) for j, column in enumerate(columns) for row, a in column.entries.items()]
        row_of, column_of, entries = zip(*places, strict=True) if places else ((), (), ())
        matrix = sp.csr_array(sp.coo_array((entries, (row_of, column_of)), shape=(m, n), dtype=float))
        row_low, row_high = np.full(m, -np.inf), np.full(m, np.inf)
        for row, kind in enumerate(self.kinds):
            right = self.right.get(row, 0.0)
            if kind in "GE":
                row_low[row] = right
            if kind in "LE":
                row_high[row] = right
            width = self.ranges.get(row)
            if width is not None:
                if kind == "G" or (kind == "E" and width > 0):
                    row_high[row] = right + abs(width)
                else:
                    row_low[row] = right - abs(width)
        bounds = np.array([column.bounds for column in columns]).reshape(n, 2)
        return LinearProgram(
            name=self.name,
            columns=list(self.columns),
            rows=list(self.rows),
            cost=np.array([column.cost for column in columns]),
            constant=self.constant,
            is_maximised=self.is_maximised,
            matrix=matrix,
            row_low=row_low,
            row_high=row_high,
            low=bounds[:, 0],
            high=bounds[:, 1],
            is_integer=np.array([column.is_integer for column in columns], dtype=bool),
        )


def read_mps(path: Path) -> LinearProgram:
    """The program in an MPS file.

    Raises
    ------
    FileFormatError
        With the line at which the file cannot be understood.
    """
    reader = _Reader()
    readers: dict[str, Callable[[Line], None]] = {
        "OBJSENSE": reader.read_objsense,
        "ROWS": reader.read_rows,
        "COLUMNS": reader.read_columns,
        "RHS": reader.read_rhs,
        "RANGES": reader.read_ranges,
        "BOUNDS": reader.read_bounds,
    }
    section = ""
    for line in read_lines(path, "*"):
        words = line.words
        is_header = not line.text[0].isspace() and words[0].upper() in SECTIONS
        if is_header and (len(words) == 1 or words[0].upper() in ("NAME", "OBJSENSE")):
            section = words[0].upper()
            if section == "NAME":
                reader.name = " ".join(words[1:])
            elif section == "OBJSENSE" and len(words) > 1:
                reader.read_objsense(line)
            elif section == "ENDATA":
                break
        elif section not in readers:
            line.refuse("this belongs to no section that is known here")
        else:
            readers[section](line)
    if section != "ENDATA":
        raise FileFormatError(f"{path} ends without ENDATA; a part of it is missing.")
    if reader.objective is None:
        raise FileFormatError(f"{path} has no row of kind N, so that nothing is minimised.")
    return reader.program


def write_mps(program: LinearProgram, path: Path, remarks: list[str]) -> None:
    """Write a program; bounds are all said, since readers differ in those they add."""
    lines = [f"* {remark}" for remark in remarks]
    lines += [f"NAME          {program.name}", "ROWS", " N  OBJ"]
    kinds = [_kind(low, high) for low, high in zip(program.row_low, program.row_high, strict=True)]
    lines += [f" {kind}  {row}" for kind, row in zip(kinds, program.rows, strict=True)]
    lines.append("COLUMNS")
    by_column, is_open = program.matrix.tocsc(), False
    for j, column in enumerate(program.columns):
        if program.is_integer[j] != is_open:
            is_open = not is_open
            mark = "INTORG" if is_open else "INTEND"
            lines.append(f"    MARK{j:<6}  'MARKER'                 '{mark}'")
        # A column without entries must occur all the same.
        lines.append(f"    {column}  OBJ  {_number(program.cost[j])}")
        for k in range(by_column.indptr[j], by_column.indptr[j + 1]):
            row, entry = program.rows[by_column.indices[k]], by_column.data[k]
            lines.append(f"    {column}  {row}  {_number(entry)}")
    if is_open:
        lines.append("    MARKEND     'MARKER'                 'INTEND'")
    lines.append("RHS")
    if program.constant:
        lines.append(f"    RHS  OBJ  {_number(-program.constant)}")
    ranges = []
    for kind, row, low, high in zip(kinds, program.rows, program.row_low, program.row_high, strict=True):
        right = low if kind == "G" else high
        if right:
            lines.append(f"    RHS  {row}  {_number(right)}")
        if kind == "L" and np.isfinite(low):
            ranges.append(f"    RANGE  {row}  {_number(high - low)}")
    lines += ["RANGES", *ranges] if ranges else []
    lines.append("BOUNDS")
    for column, low, high in zip(program.columns, program.low, program.high, strict=True):
        lines += _bounds(column, low, high)
    lines.append("ENDATA")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _kind(low: float, high: float) -> str:
    if low == high:
        return "E"
    return "L" if np.isfinite(high) else "G"


def _bounds(column: str, low: float, high: float) -> list[str]:
    if low == high:
        return [f" FX BND  {column}  {_number(low)}"]
    if np.isneginf(low) and np.isposinf(high):
        return [f" FR BND  {column}"]
    below = f" MI BND  {column}" if np.isneginf(low) else f" LO BND  {column}  {_number(low)}"
    above = f" PL BND  {column}" if np.isposinf(high) else f" UP BND  {column}  {_number(high)}"
    return [below, above]


def _number(value: float) -> str:
    """A number with all its digits."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
