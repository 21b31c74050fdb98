"""Loops and methods read and write arrays of settings, state and scratch rows by name, not by number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [*(ROOT / "kernels" / "loops").rglob("*.py"), *(ROOT / "blomodel" / "methods").rglob("*.py")]
# Also as the last part of a longer name, such as lower_memory or self.settings.
ARRAYS = ("settings", "state", "work", "space", "memory", "pace", "figures", "measures", "curvature")


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _places(index: ast.expr) -> Iterator[ast.expr]:
    """Where in the array: the first index, or the ends of a slice in its place."""
    first = index.elts[0] if isinstance(index, ast.Tuple) else index
    if isinstance(first, ast.Slice):
        yield from (end for end in (first.lower, first.upper) if end is not None)
    else:
        yield first


def bare_positions(source: str) -> list[str]:
    """The subscripts of a program that hold a number where a name should be."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Subscript) and _name(node.value).split("_")[-1] in ARRAYS
        for place in _places(node.slice)
        for part in ast.walk(place)
        if isinstance(part, ast.Constant) and isinstance(part.value, int)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_bare_positions(path: Path) -> None:
    assert not bare_positions(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        "settings[0]",
        "state[3:5]",
        "state[:3]",
        "work[7, :n]",
        "space[-1]",
        "lower_memory[2]",
        "pace[1:]",
    ],
)
def test_a_bare_position_is_found(line: str) -> None:
    assert bare_positions(line)


@pytest.mark.parametrize(
    "line", ["settings[STEP_X]", "work[OLD_X, : n + 1]", "values[0]", "pace[GROWTH:]"]
)
def test_names_are_no_positions(line: str) -> None:
    assert not bare_positions(line)
