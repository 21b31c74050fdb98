"""The papers' tables at small size: the command runs, and its figures are those that are known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def reproduce(monkeypatch):
    """Make a table as the command does, but keep its numbers."""
    monkeypatch.syspath_prepend(str(ROOT))

    def make(name):
        from examples.reproduce.__main__ import TABLES

        return TABLES[name][0](None, quick=True)

    return make


def command(*arguments):
    """Run it in a process of its own, with the folder of the project on the path as for a user."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, "-m", "examples.reproduce", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_the_command_prints_a_table_in_markdown():
    run = command("meha-8", "--quick")
    assert run.returncode == 0, run.stderr
    assert "| 20 | meha |" in run.stdout and "0.166 s |" in run.stdout
    assert "Made in" in run.stdout


def test_the_command_names_the_tables_it_has():
    run = command("meha-9")
    assert run.returncode == 2
    for name in ("svm", "meha-2", "meha-3", "meha-4", "meha-6", "meha-8", "galet-3", "pbgd-h"):
        assert name in run.stderr


@pytest.mark.slow
def test_support_vector_machine_is_proved_optimal_on_every_split(reproduce):
    figures = reproduce("svm").figures
    assert figures["proofs"] == figures["n_splits"] == 2
    assert not any(figures["failures"].values())
    for name, rows in figures["found"].items():
        if name in figures["above"]:
            assert all(
                best <= other + 1e-6
                for (_, best, _), (_, other, _) in zip(figures["found"]["auto"], rows, strict=True)
            )
    for name in ("blocc", "gam"):
        assert figures["above"][name] < 1e-6
    for name in ("bic-gaffa", "pbgd-free"):  # errors of order 1/c, and the part of the slope left out
        assert figures["above"][name] < 1e-2


@pytest.mark.parametrize("name", ["meha-2", "meha-3", "meha-8"])
def test_synthetic_problems_reach_their_known_solutions(reproduce, name):
    table = reproduce(name)
    assert table.figures
    for row, (error, _) in table.figures.items():
        assert error < 1e-3, row


@pytest.mark.slow
def test_group_lasso_with_a_weight_for_each_group_is_better_than_with_one(reproduce):
    figures = reproduce("meha-6").figures
    assert figures[60, "meha"][0] < 0.9 * figures[60, "grid-search"][0]
    assert figures[60, "meha"][0] < figures[60, "random-search"][0]


def test_errors_of_appendix_h_fall(reproduce):
    figures = reproduce("pbgd-h").figures
    for gamma in (0.1, 1.0, 10.0, 500.0):
        for level in (0, 1):
            assert figures["H.1", gamma, 10][level] < 0.05 * figures["H.1", gamma, 3][level]
            assert figures["H.1", gamma, 100][level] < 1e-3
            assert figures["H.2", gamma, 300][level] < 1e-3
        # Below, the polluted samples count as long as their weights have not fallen.
        for level, share in ((0, 0.01), (1, 0.1)):
            assert figures["H.2", gamma, 10][level] < share * figures["H.2", gamma, 3][level]
    for experiment, count in (("H.1", 100), ("H.2", 300)):
        lower = [figures[experiment, gamma, count][1] for gamma in (0.01, 1.0, 500.0)]
        assert lower[0] > lower[1] > lower[2]
    polluted, clean = figures["weights"]
    assert polluted < clean


def test_cleaning_finds_wrong_labels(reproduce):
    table = reproduce("galet-3")
    for model in ("linear", "MLP"):
        accuracy, f1 = table.figures[model, "pbgd, gauss-seidel"]
        assert accuracy > 0.85 and f1 > 0.8
    assert table.figures["linear", "galet"][0] > 0.8
    answers = dict(zip(table.figures, (row[4] for row in table.rows), strict=True))
    assert float(answers["linear", "pbgd, gauss-seidel"]) > 85
