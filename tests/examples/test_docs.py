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


@pytest.mark.parametrize("status", bm.Status)
def test_each_status_has_a_page_that_says_what_to_do_next(status: bm.Status) -> None:
    page = (DOCS / "status" / f"{status}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {status}\n") and f'status_meaning("{status}")' in page
    assert "## What to do next\n\n- " in page
    assert "```python" in page or status is bm.Status.INTERRUPTED, "an example that runs"
    for linking in ("troubleshooting.md", "status/index.md"):
        filled = parts.fill((DOCS / linking).read_text(encoding="utf-8"))
        assert f"status/{status}.md" in filled, linking
    assert "status/index.md" in (DOCS / "certificate.md").read_text(encoding="utf-8")


def test_no_page_describes_a_status_that_does_not_exist() -> None:
    described = {page.stem for page in (DOCS / "status").glob("*.md")} - {"index"}
    assert described == {str(status) for status in bm.Status}


RAW = re.compile(r"gamma|lambda|theta|\bphi\b|grad_|\b[A-Za-z]_[a-z]\b|\b[A-Za-z]\^|\by\*|\bf\(x")


@pytest.mark.parametrize("name", METHODS)
def test_formulas_of_methods_are_set_as_formulas(name: str) -> None:
    for part in (parts.method_facts(name), parts.method_settings(name)):
        words = re.sub(r"\$[^$]*\$|`[^`]*`", "", part)
        assert RAW.search(words) is None, words
    text = re.sub(
        r":math:`[^`]*`|``[^`]*``|\.\. math::(?:.|\n)*?(?=\n\S|\Z)", "", parts.method_text(name)
    )
    assert RAW.search(text.partition("\n")[2]) is None, text


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("steps on f + gamma (g - v)", r"steps on $f + \gamma (g - v)$"),
        ("of f(x, y*(x)), by y", "of $f(x, y^*(x))$, by $y$"),
        ("min f subject to grad_y g = 0", r"min $f$ subject to $\nabla_y g = 0$"),
        ("of order 1/gamma; a PL condition", r"of order $1/\gamma$; a PL condition"),
        ("a user's x_1 and a file.x", "a user's $x_1$ and a file.x"),
    ],
)
def test_formulas_in_plain_text_are_found(plain: str, expected: str) -> None:
    assert load("formulas").with_formulas(plain) == expected


def test_times_are_read_off_between_measured_sizes_and_not_far_beyond() -> None:
    seconds = parts.expected_seconds([10.0, 1000.0], [1.0, 100.0], 100.0)
    assert seconds == pytest.approx(10.0)
    assert parts.expected_seconds([10.0, 1000.0], [1.0, 100.0], 5000.0) is None
    assert "| --- |" in parts.expectation_table()


@pytest.mark.parametrize("name", METHODS)
def test_method_pages_define_their_symbols_before_they_use_equation_numbers(name: str) -> None:
    page = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    before, algorithm, _ = page.partition("## The algorithm")
    assert algorithm and "## Symbols\n" in before
    symbols = before.partition("## Symbols\n")[2]
    formula = parts.method_text(name) + page.partition("{{ method_settings")[0].partition(algorithm)[2]
    for sign in (
        r"F_\gamma",
        r"y^\gamma",
        r"\lambda^\gamma",
        r"L_\gamma",
        r"L_g",
        r"\theta",
        r"\varphi",
    ):
        if re.search(re.escape(sign) + r"(?![a-z])", formula.replace(r"F_{\gamma}", r"F_\gamma")):
            assert sign in symbols, f"{sign} is used and not defined"
    for number in re.findall(r"\((\d{2}|\d[a-e])\)", parts.method_text(name)):
        assert f"({number})" in symbols or name in ("galet", "perturbed-gd"), number


SOUGHT = """interdiction, MPEC, equilibrium, inverse, adversarial, robust, cross-validation, warm start,
callback, export, JSON, DataFrame, logging, Gurobi, MOSEK, cite, changelog, glossary, exercise, conda,
FAQ, contributing, Stackelberg, big-M, network design, hyperparameter, hyper-parameter"""


@pytest.mark.parametrize("words", re.split(r",\s+", SOUGHT))
def test_what_readers_look_for_is_found(words: str) -> None:
    pages = [
        page.read_text(encoding="utf-8")
        for page in DOCS.glob("**/*.md")
        if "generated" not in page.parts
    ]
    found = [page for page in pages if re.search(rf"\b{re.escape(words)}", page, re.IGNORECASE)]
    assert found, f"no page has {words!r}"
