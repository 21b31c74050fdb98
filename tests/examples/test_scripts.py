"""Every example runs as a user would run it, one of them (slow: all) in a process of its own.

Half of the time of such a process goes into loading what the other tests have loaded already.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from blomodel.basics.registry import kept_registries
from tests.support.gallery_files import GROUPS, ROOT, SCRIPTS, quick


@quick("first_bilevel_problem")
def test_script_in_a_process_of_its_own(script: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "checked" in run.stdout
    assert not list(tmp_path.iterdir()), "it leaves files behind"


@quick("first_bilevel_problem", "emission_tax", "interdiction", "meta_learning", "shortest_way")
def test_script(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.close("all")
    printed = io.StringIO()
    with kept_registries(), contextlib.redirect_stdout(printed), pyplot.rc_context():
        runpy.run_path(str(script), run_name="__main__")
        pictures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert pictures and all(
            picture.axes[0].has_data() or picture.axes[0].texts for picture in pictures
        )
        pyplot.close("all")
    assert "checked" in printed.getvalue()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_literate(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    tree = ast.parse(source)
    heading, card, *_ = (ast.get_docstring(tree) or "\n\n").split("\n\n")
    title, underline = heading.split("\n")
    assert set(underline) == {"="} and len(underline) == len(title), "the docstring begins with a title"
    assert "\n" not in card and len(card) <= 95, (
        "a card of the gallery holds one line, cut at 95 characters"
    )
    assert source.count("\n# %%") >= 2, "the story is told in cells"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), "it checks its own answer"
    assert "plt.show()" in source and "argparse" not in source
    assert ".. math::" in source or "BilevelCV" in source, "the formula of the model"
    assert len(source.splitlines()) <= 125, "it is read in three minutes"
    assert not re.search(r"[\u2013\u2014]", source), "no dashes that a keyboard does not have"


def test_every_group_has_examples_and_stands_in_the_order_of_the_pages() -> None:
    names = [group.name for group in GROUPS]
    order = re.search(
        r"^GROUPS = (\[.*?\])", (ROOT / "docs/conf.py").read_text(encoding="utf-8"), re.M | re.S
    )
    assert order and sorted(ast.literal_eval(order[1])) == names
    assert len(SCRIPTS) >= 25 and all(list(group.glob("*.py")) for group in GROUPS)
