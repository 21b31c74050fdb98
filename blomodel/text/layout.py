"""Numbers, durations, arrays, aligned tables and wrapped lines as plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np


def number(value: float, digits: int = 6, zero: float = 0.0) -> str:
    """A number in as few characters as keep ``digits`` significant digits; up to ``zero`` it is 0.

    >>> number(2.0), number(0.1234567891), number(1.5e-9), number(-0.0), number(1.5e-9, zero=1e-8)
    ('2', '0.123457', '1.5e-09', '0', '0')
    """
    text = "0" if abs(value) <= zero else f"{float(value):.{digits}g}"
    return "0" if text == "-0" else text


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the singular where the number is one.

    >>> counted(1, "node"), counted(1500, "node"), counted(2, "entry", "entries")
    ('1 node', '1,500 nodes', '2 entries')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def seconds(value: float) -> str:
    """A duration with the unit that suits it.

    >>> seconds(0.0000042), seconds(0.0153), seconds(2.5), seconds(90)
    ('4.2 us', '15.3 ms', '2.50 s', '90.0 s')
    """
    if value >= 1.0:
        return f"{value:.2f} s" if value < 10.0 else f"{value:.1f} s"
    if value >= 1e-3:
        return f"{value * 1e3:.1f} ms"
    return f"{value * 1e6:.1f} us"


def array(value: Any, digits: int = 6, entries: int = 10) -> str:
    """A scalar or an array on one line, its middle left out beyond ``entries`` numbers.

    >>> array([1.0, -2.5]), array(3.0), array(range(100), entries=4)
    ('[1, -2.5]', '3', '[0, 1, ..., 98, 99]')
    """
    flat = np.asarray(value, float).ravel(order="F")
    if np.ndim(value) == 0:
        return number(flat[0], digits)
    if flat.size <= entries:
        return "[" + ", ".join(number(entry, digits) for entry in flat) + "]"
    head = [number(entry, digits) for entry in flat[: entries // 2]]
    tail = [number(entry, digits) for entry in flat[-(entries // 2) :]]
    return "[" + ", ".join([*head, "...", *tail]) + "]"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Aligned columns under a ruled head; the columns named in ``right`` are set flush right.

    >>> print(table(["name", "value"], [["x", "1.5"], ["gap", "10"]], right=[1]))
    name  value
    ----  -----
    x       1.5
    gap      10
    """
    widths = [max(len(row[k]) for row in [headers, *rows]) for k in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(headers), line(["-" * w for w in widths]), *map(line, rows)])


def indent(text: str, width: int = 2) -> str:
    """The text moved to the right; empty lines stay empty."""
    return "\n".join(" " * width + line if line else line for line in text.split("\n"))


def titled(title: str, body: str) -> str:
    """A heading with an indented text below."""
    return f"{title}\n{indent(body)}"


def wrap(line: str, width: int) -> str:
    """A sentence broken into lines."""
    return "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))


def columns(rows: Sequence[tuple[str, str]], width: int) -> str:
    """Names and what is said about them, side by side; a name is not repeated.

    >>> print(columns([("why", "one thing"), ("why", "another"), ("method", "auto")], 40))
    why     one thing
            another
    method  auto
    """
    first = max(len(name) for name, _ in rows)
    lines: list[str] = []
    last = None
    for name, said in rows:
        for k, part in enumerate(wrap(said, max(width - first - 2, 40)).split("\n")):
            shown = name if k == 0 and name != last else ""
            lines.append(f"{shown:<{first}}  {part}")
        last = name
    return "\n".join(lines)
