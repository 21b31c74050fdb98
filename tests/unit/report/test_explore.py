"""The interactive page: its figures, and the page itself in a browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def priced(name: str = "t") -> bm.BilevelProblem:
    """Demand 8/t - 1 within [0, 3], by hand."""
    t, e = cp.Variable(name=name), cp.Variable(name="e")
    lower = bm.Lower(cp.Maximize(8 * cp.log(1 + e) - t * e), [e >= 0, e <= 3], variables=[e])
    return bm.BilevelProblem(cp.Maximize(t * e - e**2), [0.5 <= t, t <= 10], lower)


def data_of(path: Path) -> dict:
    found = re.search(r"const DATA = (\{.*?\});\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = priced()
    problem.solve()
    return problem.explore(tmp_path_factory.mktemp("pages") / "page.html", points=40)


def test_the_curves_are_those_by_hand(page: Path) -> None:
    data = data_of(page)
    t = np.array(data["x"])
    demand = np.clip(8 / t - 1, 0, 3)
    assert np.allclose(data["y"][0]["values"], demand, atol=1e-6)
    assert np.allclose(data["phi"], t * demand - demand**2, atol=1e-5)
    assert np.allclose(data["v"], 8 * np.log(1 + demand) - t * demand, atol=1e-5)
    assert data["answer"] == pytest.approx([4.0, 3.0], abs=1e-4)
    held = [[data["rows"][row] for row in rows] for rows in data["active"]]
    assert [len(rows) for rows in held] == [1 if d in (0, 3) else 0 for d in demand]
    allowed = np.array([list(row) for row in data["slices"][0]["allowed"]]) == "1"
    assert allowed.all()  # the slice ends at the bounds of e


def test_a_name_cannot_end_the_script(tmp_path: Path) -> None:
    path = priced("</script><b>").explore(tmp_path / "page.html", points=5)
    assert data_of(path)["xName"] == "</script><b>"
    assert path.read_text(encoding="utf-8").count("</script>") == 1


def test_two_unknowns_have_no_slider(tmp_path: Path) -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x[0] - x[1]) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) + y), [cp.abs(x) <= 1], lower)
    with pytest.raises(bm.errors.ModelError, match="2 upper unknowns"):
        problem.explore(tmp_path / "page.html")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize(("at", "answer"), [("2", "3"), ("8", "0")])
def test_moving_the_slider_moves_the_figures(page: Path, tmp_path: Path, at: str, answer: str) -> None:
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path}", "--dump-dom", f"{page.as_uri()}#x={at}",
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown.count("<svg") == 3
    cells = re.findall(r"<td>(.*?)</td>", shown[shown.index('id="figures"') :])
    figures = dict(zip(cells[::2], cells[1::2], strict=True))
    nearest = min(data_of(page)["x"], key=lambda x: abs(x - float(at)))
    assert float(figures["t"]) == pytest.approx(nearest, rel=1e-5)
    assert float(figures["answer e"]) == pytest.approx(float(np.clip(8 / nearest - 1, 0, 3)), abs=1e-4)
    assert abs(float(figures["answer e"]) - float(answer)) < 0.3
