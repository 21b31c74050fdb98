"""Every example runs as the notebook that readers download, in a real kernel, from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.gallery_files import quick


def _as_notebook(script: Path) -> object:
    """The notebook of the example, made by sphinx-gallery as for the pages."""
    nbformat = pytest.importorskip("nbformat")
    made = pytest.importorskip("sphinx_gallery.notebook")
    blocks = pytest.importorskip("sphinx_gallery.py_source_parser").split_code_and_text_blocks
    settings = pytest.importorskip("sphinx_gallery.gen_gallery").DEFAULT_GALLERY_CONF
    _, cells = blocks(script)
    notebook = made.jupyter_notebook(cells, dict(settings), script.parent)
    return nbformat.reads(json.dumps(notebook), as_version=4)


@quick("first_bilevel_problem")
def test_notebook(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel shows pictures by its own
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = _as_notebook(script)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    client.execute()  # raises what a cell raises
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any(output.output_type == "stream" and output.name == "stdout" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs), "no picture"
    errors = [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"]
    # On a machine's first day the kernels are compiled, which one line says.
    assert not [text for text in errors if not text.startswith("blomodel: compiling numerical kernels")]
