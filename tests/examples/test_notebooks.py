"""Every example runs as the notebook that readers download, in a real kernel, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SHORTEST = "first_bilevel_problem"  # the one notebook among the quick tests
named = pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == SHORTEST else pytest.mark.slow)
        for path in SCRIPTS
    ],
)


def _as_notebook(script: Path) -> object:
    """A code cell for each part of the story, as sphinx-gallery cuts them."""
    nbformat = pytest.importorskip("nbformat")
    cells = re.split(r"^# %%.*$", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    make = nbformat.v4
    return make.new_notebook(cells=[make.new_code_cell(cell) for cell in cells if cell.strip()])


@named
def test_notebook(script: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = _as_notebook(script)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    client.execute()  # raises what a cell raises
    printed = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any(output.output_type == "stream" and output.name == "stdout" for output in printed)
