"""Every example runs as a user would run it, in a process of its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
named = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


@named
def test_script(script: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(script), "--save", "figure.png"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


@named
def test_script_is_literate(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, underline = (ast.get_docstring(tree) or "\n").split("\n")[:2]
    assert set(underline) == {"="} and len(underline) >= len(title), "the docstring begins with a title"
    assert source.count("\n# %%") >= 3, "the story is told in cells"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), "it checks its own answer"
    assert not re.search(r"[\u2013\u2014]", source), "no dashes that a keyboard does not have"


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 8
