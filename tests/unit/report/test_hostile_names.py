"""Names and titles that hold scripts, LaTeX and odd characters, everywhere a name is shown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser
from pathlib import Path

import cvxpy as cp
import pytest

import blomodel as bm
from tests.support.slow_cases import first_few

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
MARK = "document.documentElement.setAttribute('data-harmed', '1')"
SCRIPTS = [
    f"<script>{MARK}</script>",
    f"</script><script>{MARK}</script>",
    f'<img src=x onerror="{MARK}">',
    f'"><svg onload="{MARK}">',
    f'\'><svg onload="{MARK}">',
    f"<!--<script>{MARK}//",
    f"--><script>{MARK}</script>",
    f"]]><script>{MARK}</script>",
    f"</style></title></textarea></math></svg><script>{MARK}</script>",
    f'${{x_name}}<iframe srcdoc="<script>parent.{MARK}</script>">',
    f"$$</span><script>{MARK}</script>$$",
]
ODD = [
    "load_%", "%", "{", "x_{", "^", "\\", r"$\input{a}$", "a&b", "&lt;b&gt;", "日本語", "😀", "مرحبا",
    "a\nb", "\x00",
    "$", "$$", "_", "x__y", "\ud800", "%s", "\\frac{1}", "#&~^", "\u202eabc", "x" * 300,
]  # fmt: skip


def in_fours(names: list[str]) -> list[list[str]]:
    """Groups of four; the last one is filled up with the first names."""
    return [(names + names)[k : k + 4] for k in range(0, len(names), 4)]


def named(names: list[str]) -> bm.BilevelProblem:
    x, y = cp.Variable(name=names[0]), cp.Variable(name=names[1])
    a = cp.Parameter(name=names[2], value=2.0)
    row = (y <= 1).set_label(names[3])
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [row], variables=[y], name=names[3])
    problem = bm.BilevelProblem(cp.Minimize((x - a) ** 2 + y), [x >= 0, x <= 3], lower)
    problem.solve()
    return problem


def views(problem: bm.BilevelProblem) -> list[str]:
    """All that a notebook may put into its page as it is."""
    shown = []
    for part in (
        problem,
        problem.solution,
        problem.certificate,
        problem.explain(),
        problem.followers[0],
    ):
        for view in ("_repr_html_", "_repr_latex_", "_repr_markdown_"):
            if hasattr(part, view):
                shown.append(str(getattr(part, view)()))
    return shown


class Tags(HTMLParser):
    """Elements that run something, and attributes that do."""

    def __init__(self) -> None:
        super().__init__()
        self.harm: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.scripts += tag == "script"
        self.harm += [tag] * (tag in ("iframe", "img", "object", "embed"))
        self.harm += [name for name, value in attrs if name.startswith("on")]
        self.harm += [name for name, value in attrs if "javascript:" in (value or "")]


@pytest.mark.parametrize("names", first_few(in_fours(ODD), 3))
def test_any_name_is_shown(names: list[str], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts without these characters
        problem = named(names)
        problem.solution.report(tmp_path / "report.html")
        problem.explore(tmp_path / "page.html", points=3)
        problem.plot(points=3, path=tmp_path / "plot.svg")
        problem.solution.plot(path=tmp_path / "plot.png")
    assert views(problem) and str(problem) and repr(problem) and str(problem.explain())
    assert set(names[:2]) <= set(json.loads(problem.solution.to_json())["values"])
    for page in ("report.html", "page.html"):
        assert (tmp_path / page).read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every kind of page, with every script in its names, and one that is harmed for comparison."""
    folder = tmp_path_factory.mktemp("pages")
    found, notebook = {}, []
    for number, scripts in enumerate(in_fours(SCRIPTS)):
        problem = named(scripts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[f"report {number}"] = problem.solution.report(folder / f"report{number}.html")
            found[f"explore {number}"] = problem.explore(folder / f"explore{number}.html", points=3)
        notebook += views(problem)
    found["notebook"] = folder / "notebook.html"
    found["notebook"].write_text(
        "<html><body>" + "\n".join(f"<div>{view}</div>" for view in notebook) + "</body></html>"
    )
    return found


def test_no_name_becomes_an_element(pages: dict[str, Path]) -> None:
    for name, path in pages.items():
        tags = Tags()
        tags.feed(path.read_text(encoding="utf-8"))
        assert not tags.harm, name
        assert tags.scripts == ("explore" in name), name


def harmed(pages: list[Path], folder: Path) -> list[bool]:
    """Whether a script ran in each page."""
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", "--dump-dom",
    ]  # fmt: skip
    found = []
    for page in pages:
        shown = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
        ).stdout
        assert "</html>" in shown
        found.append(re.search(r"<html[^>]*data-harmed", shown) is not None)
    return found


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_no_script_in_a_name_runs_in_a_browser(pages: dict[str, Path], tmp_path: Path) -> None:
    control = tmp_path / "control.html"
    control.write_text(f"<html><body>{SCRIPTS[0]}{SCRIPTS[2]}</body></html>")
    assert harmed([control], tmp_path) == [True]
    assert harmed(list(pages.values()), tmp_path) == [False] * len(pages)
