"""Tables for notebooks, and the report page, also as a browser shows it."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.text.layout import number

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def clipped_problem() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [0 <= y, y <= x + 1], variables=[y])
    upper = cp.Minimize(cp.exp(x - y) + cp.nlp.sin(3 * x) + x**2)
    return bm.BilevelProblem(upper, [-1 <= x, x <= 2], lower)


@pytest.fixture(scope="module")
def solved() -> bm.BilevelProblem:
    problem = clipped_problem()
    problem.solve()
    return problem


class BalancedParser(HTMLParser):
    """Fails on a tag that is closed in the wrong place."""

    VOID = {"meta", "br", "path", "use", "rect", "line"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def check_markup(html: str) -> None:
    parser = BalancedParser()
    parser.feed(html)
    assert parser.open == []


def test_certificate_table_has_a_verdict_and_every_check(solved: bm.BilevelProblem) -> None:
    html = solved.certificate._repr_html_()
    check_markup(html)
    assert solved.certificate.claim.meaning in html
    for word in ("upper violation", "lower violation", "lower gap", "within 1e-06", "because"):
        assert word in html


def test_refused_point_is_shown_as_refused(solved: bm.BilevelProblem) -> None:
    html = bm.certify(solved, x=1.0, y=0.5)._repr_html_()
    check_markup(html)
    assert "refused because" in html and "above 1e-06" in html
    assert "&#10003; failed" not in html


def test_text_from_users_is_escaped() -> None:
    x, y = cp.Variable(name="<b>x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= x + 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [-1 <= x, x <= 1], lower)
    problem.solve()
    for html in (problem.solution._repr_html_(), problem.structure._repr_html_()):
        check_markup(html)
        assert "<b>" not in html and "&lt;b&gt;x" in html


def test_solution_and_structure_tables(solved: bm.BilevelProblem) -> None:
    html = solved.solution._repr_html_()
    check_markup(html)
    assert f"{float(solved.variables[0].value):.4g}" in html
    assert "auto" in html and "iterations" in html
    html = solved.structure._repr_html_()
    check_markup(html)
    assert all(fact.name in html for fact in solved.structure.facts)


def test_comparison_table_has_a_row_for_each_method(solved: bm.BilevelProblem) -> None:
    html = bm.compare(solved, ["reduced-penalty", "meha"])._repr_html_()
    check_markup(html)
    assert html.count("reduced-penalty") == 1
    assert "ModelError: the constraint" in html  # why there is no answer


def test_report_is_one_page_that_needs_no_network(solved: bm.BilevelProblem, tmp_path: Path) -> None:
    path = solved.solution.report(tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    check_markup(page)
    # namespaces are names, not addresses to fetch
    links = set(re.findall(r'(?:src|href)="([^"#][^"]*)"', page)) | set(
        re.findall(r"url\(([^#)]+)", page)
    )
    assert not links and "<script" not in page and "@import" not in page
    for title in (
        "The model",
        "The answer",
        "The certificate",
        "Structure",
        "What was chosen and why",
        "How the solve went",
        "What the upper level sees",
        "Settings and time",
        "Versions",
    ):
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") == 2
    assert (
        "<mi>x</mi>" in page
        and "\\" not in page[page.index("<h2>The model") : page.index("<h2>The answer")]
    )
    assert number(solved.value, 10) in page
    assert cp.__version__ in page


def test_pickled_solution_is_small_and_still_reports(solved: bm.BilevelProblem, tmp_path: Path) -> None:
    data = pickle.dumps(solved.solution)
    assert len(data) < 50_000
    copy = pickle.loads(data)
    assert copy.problem is None and copy.value == solved.value
    page = copy.report(tmp_path / "copy.html").read_text(encoding="utf-8")
    assert "<h2>The model</h2>" in page and "<h2>Structure</h2>" in page
    np.testing.assert_array_equal(copy.values["x"], solved.variables[0].value)


def test_solution_without_an_answer_reports_too(tmp_path: Path) -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [0 <= y, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 1, y >= 2], lower)
    problem.solve()
    assert not problem.status.has_point
    page = problem.solution.report(tmp_path / "none.html").read_text(encoding="utf-8")
    check_markup(page)
    assert problem.status.meaning in page


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
def test_page_reads_well_in_a_browser(solved: bm.BilevelProblem, tmp_path: Path) -> None:
    path = solved.solution.report(tmp_path / "report.html")
    options = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    done = subprocess.run(
        [*options, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120
    )
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<(svg|style).*?</\1>", "", done.stdout, flags=re.S))
    words = " ".join(unescape(text).split())
    assert "Bilevel problem: report of a solve" in words
    assert "subject to" in words and "argmin" in words
    assert solved.status.meaning in words
    assert "upper objective contains x" in words and "lower answer unique" in words
    picture = tmp_path / "page.png"
    subprocess.run(
        [*options, f"--screenshot={picture}", "--window-size=1000,2000", path.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert picture.stat().st_size > 50_000


def test_the_methods_settings_are_shown_with_other_names_and_meaning(tmp_path: Path) -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [0 <= x, x <= 2], lower)
    problem.solve(method="unrolled", keep_y=False, lower_steps=3, max_steps=20)
    page = problem.solution.report(tmp_path / "page.html").read_text(encoding="utf-8")
    check_markup(page)
    shown = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in page.split("<tr>")]
    meaning = "T, inner gradient steps; None: 10 times the condition number, or 100"
    assert ["inner_steps", "3", "automatic", "T, lower_steps", meaning] in shown
    restart = next(row for row in shown if row[:1] == ["restart"])
    assert restart[1:4] == ["True", "False", "not keep_y"]
    assert not any(row[:1] == ["lower_steps"] for row in shown)
