"""The documentation is complete: pages of all methods, sections of all errors, no broken link."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cvxpy.atoms.atom import Atom

import blomodel as bm
from blomodel.basics.limits import LIMITS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
METHODS = [info.name for info in bm.methods()]


def load(name: str) -> ModuleType:
    """A module of the folder that Sphinx loads its extensions from, found as Sphinx finds it."""
    folder = str(DOCS / "_sphinx")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


parts = load("generated_parts")


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_a_page_with_all_its_parts(name: str) -> None:
    page = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    for part in ("method_facts", "method_text", "method_settings"):
        assert f'{{{{ {part}("{name}") }}}}' in page
    assert "```python" in page, "an experiment that runs"
    filled = parts.fill(page)
    for setting in parts.information(name).settings:
        assert f"| `{setting}` |" in filled
    assert "{{" not in re.sub(r"```python.*?```", "", filled, flags=re.DOTALL)


def test_no_page_describes_a_method_that_does_not_exist() -> None:
    described = {page.stem for page in (DOCS / "methods").glob("*.md")} - {"index"}
    assert described == set(METHODS)


def test_the_table_for_choosing_has_every_method_and_its_claims() -> None:
    table = parts.fill((DOCS / "choosing.md").read_text(encoding="utf-8"))
    for info in bm.methods():
        assert f"[{info.name}](methods/{info.name}.md)" in table
        for text in (info.takes, info.assumes, info.costs, info.claims):
            assert parts.cell(text) in table


def test_the_table_of_limits_has_every_limit() -> None:
    page = parts.fill((DOCS / "choosing.md").read_text(encoding="utf-8"))
    for name, limit in LIMITS.items():
        assert f"| `{name}` | {limit.value:,} |" in page
        assert parts.cell(limit.reason) in page


def test_each_error_and_each_status_has_a_section() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^### (\w+)$", page, flags=re.MULTILINE))
    errors = {cls.__name__ for cls in parts.error_classes()}
    assert sections == errors | {str(status) for status in bm.Status}


@pytest.mark.parametrize("name", bm.__all__)
def test_everything_public_has_a_docstring_and_is_in_the_reference(name: str) -> None:
    thing = getattr(bm, name)
    assert inspect.getdoc(thing)
    assert name in (DOCS / "reference.md").read_text(encoding="utf-8")
    if inspect.isclass(thing) and not issubclass(thing, Atom):  # an atom's methods are cvxpy's
        own = {member: value for member, value in vars(thing).items() if not member.startswith("_")}
        for member, value in own.items():
            if inspect.isfunction(value) or isinstance(value, property):
                assert inspect.getdoc(value), f"{name}.{member}"


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">x</a> <a href="c.html">y</a>')
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    assert load("check_links").broken_links(tmp_path) == ["a.html: b.html#here", "a.html: c.html"]


@pytest.mark.slow
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx_gallery", reason="comes with the extra blomodel[docs]")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += [str(DOCS), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    assert load("check_links").broken_links(tmp_path) == []
