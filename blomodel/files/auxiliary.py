"""The auxiliary file beside an MPS file: which columns and rows are the lower one's, and its objective.

Two dialects are read. The older one has a key and a value on each line (``N``, ``M``, ``LC``, ``LR``,
``LO``, ``OS``, for interdiction ``IC`` and ``IB``); columns and rows are counted from 0 without the
objective row, or named. The newer one has sections that begin with ``@``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blomodel.errors import FileFormatError
from blomodel.files.lines import Line, read_lines

KEYS = ("N", "M", "LC", "LR", "LO", "OS", "IC", "IB")


@dataclass
class Auxiliary:
    """What such a file says.

    Attributes
    ----------
    columns, rows : list of int
        Those of the lower level, by their places in the MPS file.
    costs : list of float
        The lower objective, in the order of ``columns``.
    is_maximised : bool
        Whether the lower level maximises.
    attack_costs : list of float
        In interdiction files: what an attack on each of the follower's columns costs.
    budget : float or None
        In interdiction files: what all attacks may cost.
    """

    columns: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    is_maximised: bool = False
    attack_costs: list[float] = field(default_factory=list)
    budget: float | None = None

    @property
    def is_interdiction(self) -> bool:
        """Whether the MPS file holds the follower alone, and the upper level attacks its columns."""
        return self.budget is not None


class _Reader:
    def __init__(self, columns: Sequence[str], rows: Sequence[str]) -> None:
        self.found = Auxiliary()
        self.columns = {name: place for place, name in enumerate(columns)}
        self.rows = {name: place for place, name in enumerate(rows)}
        self.n_columns: int | None = None
        self.n_rows: int | None = None
        self.places: dict[str, Line] = {}  # where columns, rows and so on were last spoken of
        self.section = ""

    def read_key(self, line: Line) -> None:
        """A line of the older dialect."""
        words = line.words
        if words[0] not in KEYS or len(words) != 2:
            line.refuse(f"a key of {', '.join(KEYS)} and one value are expected")
        key, word = words
        self.places[key] = line
        if key == "N":
            self.n_columns = self.number(line, word)
        elif key == "M":
            self.n_rows = self.number(line, word)
        elif key == "LC":
            self.found.columns.append(self.place(line, word, self.columns))
        elif key == "LR":
            self.found.rows.append(self.place(line, word, self.rows))
        elif key == "LO":
            self.found.costs.append(line.finite(word))
        elif key == "OS":
            self.sense(line, word)
        elif key == "IC":
            self.found.attack_costs.append(line.finite(word))
        else:
            self.found.budget = line.finite(word)

    def read_section(self, line: Line) -> None:
        """A line that begins with @; a value may stand in the same line."""
        words = line.words
        self.section = words[0].upper()
        self.places[self.section] = line
        if len(words) > 1:
            self.read_value(line, words[1:])

    def read_value(self, line: Line, words: list[str]) -> None:
        """What stands below the beginning of a section."""
        if self.section == "@NUMVARS":
            self.n_columns = self.number(line, words[0])
        elif self.section in ("@NUMCONSTRS", "@NUMCONSTS"):
            self.n_rows = self.number(line, words[0])
        elif self.section == "@VARSBEGIN":
            if len(words) != 2:
                line.refuse("a column of the lower level and its coefficient are expected")
            self.found.columns.append(self.place(line, words[0], self.columns, by_name=True))
            self.found.costs.append(line.finite(words[1]))
            self.places["LC"] = line
        elif self.section in ("@CONSTRSBEGIN", "@CONSTSBEGIN"):
            self.found.rows.append(self.place(line, words[0], self.rows, by_name=True))
            self.places["LR"] = line
        elif self.section in ("@OBJSENSE", "@OS"):
            self.sense(line, words[0])
        elif self.section not in ("@NAME", "@MPS", "@LP"):
            line.refuse(f"{self.section or 'this'} is no section that is known here")

    def sense(self, line: Line, word: str) -> None:
        """1 or -1, or a word."""
        known = {"1": False, "-1": True, "MIN": False, "MAX": True}
        if word.upper().removesuffix(".0").removeprefix("+") not in known:
            line.refuse("the sense of the lower objective is 1 (minimise) or -1 (maximise)")
        self.found.is_maximised = known[word.upper().removesuffix(".0").removeprefix("+")]

    def number(self, line: Line, word: str) -> int:
        """A count."""
        if not word.isdigit():
            line.refuse(f"{word!r} is no count")
        return int(word)

    def place(self, line: Line, word: str, names: Mapping[str, int], *, by_name: bool = False) -> int:
        """The place of a column or row, which may be named."""
        if word in names and (by_name or not word.isdigit()):
            return names[word]
        if by_name or not word.isdigit():
            line.refuse(f"{word!r} does not occur in the MPS file")
        return int(word)

    def check(self, path: Path) -> Auxiliary:
        """The record, whose counts must agree."""
        found = self.found
        if not found.columns:
            raise FileFormatError(f"{path} names no column of the lower level.")
        _check_count(path, "columns", self.n_columns, len(found.columns), self.places.get("LC"))
        _check_count(path, "rows", self.n_rows, len(found.rows), self.places.get("LR"))
        _check_count(path, "coefficients", len(found.columns), len(found.costs), self.places.get("LO"))
        for key, places in (("LC", found.columns), ("LR", found.rows)):
            _check_once(self.places.get(key), places)
        if found.is_interdiction:
            n = len(found.columns)
            _check_count(path, "costs of attacks", n, len(found.attack_costs), self.places.get("IC"))
        else:
            _check_range(self.places.get("LC"), "columns", found.columns, len(self.columns))
            _check_range(self.places.get("LR"), "rows", found.rows, len(self.rows))
        return found


def _check_count(path: Path, what: str, said: int | None, count: int, line: Line | None) -> None:
    if said is not None and said != count:
        message = f"{said} {what} of the lower level are announced, and {count} are given"
        if line is not None:
            line.refuse(message)
        raise FileFormatError(f"{path}: {message}.")


def _check_once(line: Line | None, places: Sequence[int]) -> None:
    if line is not None and len(set(places)) < len(places):
        repeated = next(place for place in places if places.count(place) > 1)
        line.refuse(f"number {repeated} is given more than once")


def _check_range(line: Line | None, what: str, places: Iterable[int], count: int) -> None:
    worst = max(places, default=-1)
    if line is not None and worst >= count:
        line.refuse(f"number {worst} is beyond the {count} {what} of the MPS file, counted from 0")


def read_auxiliary(path: Path, columns: Sequence[str], rows: Sequence[str]) -> Auxiliary:
    """What an auxiliary file says about the columns and rows of an MPS file.

    Raises
    ------
    FileFormatError
        With the line at which the file cannot be understood.
    """
    reader = _Reader(columns, rows)
    for line in read_lines(path, "#"):
        word = line.words[0]
        if word.upper().endswith("END") and word.startswith("@"):
            reader.section = ""
        elif word.startswith("@"):
            reader.read_section(line)
        elif reader.section:
            reader.read_value(line, line.words)
        else:
            reader.read_key(line)
    return reader.check(path)


def write_auxiliary(found: Auxiliary, path: Path) -> None:
    """Write the older dialect, which every reader knows."""
    lines = [f"N {len(found.columns)}", f"M {len(found.rows)}"]
    lines += [f"LC {place}" for place in found.columns]
    lines += [f"LR {place}" for place in found.rows]
    lines += [f"LO {cost!r}" for cost in found.costs]
    lines.append(f"OS {-1 if found.is_maximised else 1}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
