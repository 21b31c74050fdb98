"""Every Python block of the documentation runs, in order, and prints what the page says it prints.

A block fenced as ``python`` is run; all blocks of a page share their names, as in one session. A
block fenced as ``text`` directly below it is what it prints, to the digit, with two exceptions
that differ from machine to machine: durations, and numbers below 1e-6, which are rounding errors.
A block fenced as ``py`` shows another tool and is run by itself, where that tool is installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from blomodel.basics.registry import kept_registries
from blomodel.compiler import atoms, rules  # noqa: F401 - atoms loads the rules

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", *DOCS.glob("*.md")]
    + [page for folder in ("methods", "course", "status") for page in DOCS.glob(f"{folder}/*.md")]
)
FOLD = re.compile(r"<details>\n<summary>[^\n]*</summary>")  # output may be folded
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass
class Block:
    """A Python block, where it starts, and what the page says it prints."""

    line: int
    source: str
    output: str | None = None


def blocks(page: Path, fence: str = "python") -> list[Block]:
    """The Python blocks of a page, each with the output shown directly below it."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end_of_python = -1
    for match in FENCE.finditer(text):
        language, body = match.groups()
        if language == fence:
            found.append(Block(text.count("\n", 0, match.start()) + 2, body))
            end_of_python = match.end()
        elif (
            language == "text"
            and found
            and not FOLD.sub("", text[end_of_python : match.start()]).strip()
        ):
            found[-1].output = body
    return found


def comparable(output: str) -> list[str]:
    """The words of each line, with durations and rounding errors replaced by a mark."""
    output = re.sub(r"\b\d+(\.\d+)?(e[-+]\d+)? ?(us|ms|s|seconds)\b", "TIME", output)
    output = re.sub(r"-?\b(0\.0+e\+00|\d+(\.\d+)?e-(0[6-9]|[1-9]\d))\b", "TINY", output)
    return [" ".join(line.split()) for line in output.strip().split("\n")]


MODULES_OF_EXTRAS = ("unopy",)
find_spec = importlib.util.find_spec


def without_extras(name: str, package: str | None = None) -> object:
    """Pages show what a plain installation prints; only those that ask see the solvers of an extra."""
    return None if name in MODULES_OF_EXTRAS else find_spec(name, package)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_page(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    if "installed_solvers" not in page.read_text(encoding="utf-8"):
        monkeypatch.setattr(importlib.util, "find_spec", without_extras)
    # One page registers things of its own, which other tests must not meet.
    monkeypatch.setattr(rules, "RULES", dict(rules.RULES))
    names: dict[str, object] = {"__name__": "page"}
    with kept_registries():
        for block in blocks(page):
            run_block(block, page, names)


def run_block(block: Block, page: Path, names: dict[str, object]) -> None:
    """Run a block with the names of those before it; it must print what the page says."""
    # empty lines in front, so that a traceback shows the line of the page
    code = compile("\n" * (block.line - 1) + block.source, str(page), "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    if block.output is not None:
        shown, real = comparable(block.output), comparable(printed.getvalue())
        assert real == shown, f"{page.name}, line {block.line} prints:\n{printed.getvalue()}"


OTHER_TOOLS = DOCS / "other_tools.md"


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(OTHER_TOOLS, "py"), ids=lambda block: f"line {block.line}")
def test_block_of_another_tool(block: Block) -> None:
    for tool in re.findall(r"^(?:import|from) (\w+)", block.source, re.MULTILINE):
        pytest.importorskip(tool)
    assert block.output is not None
    run_block(block, OTHER_TOOLS, {"__name__": "page"})


def test_a_wrong_output_is_noticed() -> None:
    assert comparable("value 2.65 in 3.1 ms, gap 0.00e+00") == comparable(
        "value 2.65  in 12 s, gap 7e-15"
    )
    assert comparable("value 2.65") != comparable("value 2.66")
    assert comparable("gap 1e-3") != comparable("gap 1e-9")
