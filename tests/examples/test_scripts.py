"""Every example runs as a user would run it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    arguments = ["--save", "figure.png"] if "--save" in script.read_text(encoding="utf-8") else []
    run = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()
    if arguments:
        assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 2
