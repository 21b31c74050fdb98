"""Every example runs as a user would run it, one of them (slow: all) in a process of its own.

Half of the time of such a process goes into loading what the other tests have loaded already.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from blomodel.basics.registry import kept_registries

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SHORTEST = "first_bilevel_problem"
# The pages run these too when they are built.
LONG = ("hyper_cleaning", "lasso_hyperparameters", "representation_learning", "svm_selection")
named = pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else [])
        for path in SCRIPTS
    ],
)


alone = pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == SHORTEST else pytest.mark.slow)
        for path in SCRIPTS
    ],
)


def check(printed: str, folder: Path) -> None:
    assert printed.strip()
    assert (folder / "figure.png").stat().st_size > 10_000
    assert [path.name for path in folder.iterdir()] == ["figure.png"]


@alone
def test_script_in_a_process_of_its_own(script: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(script), "--save", "figure.png"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    check(run.stdout, tmp_path)


@named
def test_script(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--save", "figure.png"])
    printed = io.StringIO()
    with kept_registries(), contextlib.redirect_stdout(printed), pyplot.rc_context():
        runpy.run_path(str(script), run_name="__main__")
        pyplot.close("all")
    check(printed.getvalue(), tmp_path)


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
