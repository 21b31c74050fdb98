"""The papers' tables and figures at small size: the command runs, and known figures are met."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.slow_cases import first_few

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "reproduce.md", *sorted((ROOT / "docs" / "reproduce").glob("*.md"))]


@pytest.fixture
def reproduce(monkeypatch):
    """Make a table as the command does, but keep its numbers; its picture can be written."""
    monkeypatch.syspath_prepend(str(ROOT))

    def make(name):
        from examples.reproduce.__main__ import TABLES

        return TABLES[name].make(None, quick=True)

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
        encoding="utf-8",
        timeout=200,
    )


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_a_picture(tmp_path):
    run = command("alt-fig6", "--quick", "--save", str(tmp_path))
    assert run.returncode == 0, run.stderr
    assert "| y within 1 of x | 5.0 | 1.1 | 2.9 |" in run.stdout
    assert "Made in" in run.stdout
    assert 3_000 < (tmp_path / "alt-fig6.png").stat().st_size < 60_000


@pytest.mark.slow
def test_several_parts_go_on_where_one_fails(tmp_path):
    broken, results = tmp_path / "broken.csv", tmp_path / "results.json"
    broken.write_text("nothing\n", encoding="utf-8")
    run = command(
        *("alt-fig18", "galet-fig6", "--quick"),
        *("--data", str(broken), "--save", str(tmp_path), "--json", str(results)),
    )
    assert run.returncode == 1, run.stderr
    assert "alt-fig18: FAILED" in run.stdout and "2 parts, 1 failed" in run.stdout
    told = json.loads(results.read_text(encoding="utf-8"))
    parts = told["parts"]
    assert set(parts) == {"alt-fig18", "galet-fig6"}
    assert parts["alt-fig18"]["error"] and not parts["galet-fig6"]["error"]
    assert parts["galet-fig6"]["rows"][0][1] == "1.0000"
    assert (tmp_path / "galet-fig6.png").exists()
    assert told["cpu_seconds"] == pytest.approx(
        sum(part["cpu_seconds"] or 0 for part in parts.values()), abs=0.2
    )


def test_results_fill_the_places_of_a_page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from examples.reproduce.fill import filled

    part = {"title": "Table 9", "headings": ["a", "b"], "rows": [["1", "2"]], "error": ""}
    results = {"parts": {"t-9": {**part, "cpu_seconds": 12.4}}, "load_of_15_minutes": 0.1}
    results |= {"seconds": 90.0, "cores": 2, "cpu_seconds": 12.4}
    page = "before\n<!-- made: t-9 -->\nold\n<!-- end -->\nafter <!-- made: t-8 -->\nkept\n<!-- end -->"
    new = filled(page, results)
    assert "old" not in new and "kept" in new and new.startswith("before\n")
    assert "Table 9; made in 12 CPU seconds.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n" in new
    assert filled(new, results) == new
    results["parts"]["t-9"]["error"] = "crashed"
    assert filled(page, results) == page
    told = filled("<!-- made: times -->\n<!-- end -->", results)
    assert "1 parts, 1 of them failed: 1.5 minutes" in told


def test_every_part_without_data_has_a_place_on_a_page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from examples.reproduce.__main__ import TABLES

    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    places = re.findall(r"<!-- made: ([a-z0-9-]+) -->", text)
    assert sorted(places) == sorted([*TABLES, "times"])


def test_the_command_names_what_it_has():
    run = command("meha-99")
    assert run.returncode == 2
    for name in ("svm", "meha-2", "meha-few-shot", "galet-3", "pbgd-h", "alt-fig18", "all"):
        assert name in run.stderr


# --- the page


def items():
    """Rows of the list of all tables and figures: paper, item, state, command, where."""
    found = []
    for line in PAGES[0].read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if re.match(r"\| (Table|Fig\.) \d", line):
            found.append(cells)
    return found


def test_every_table_and_figure_of_the_papers_has_a_row():
    counts = {}
    paper = ""
    for line in PAGES[0].read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            paper = line[4:]
        if match := re.match(r"\| (Table|Fig\.) (\d+)", line):
            counts.setdefault((paper.split(":")[0], match[1]), []).append(int(match[2]))
    wanted = {
        ("Global optimality", "Fig."): 6,
        ("GALET", "Table"): 3, ("GALET", "Fig."): 7,
        ("Perturbed gradient descent", "Table"): 1, ("Perturbed gradient descent", "Fig."): 6,
        ("MEHA", "Table"): 9, ("MEHA", "Fig."): 6,
        ("ALT-PBGD", "Table"): 7, ("ALT-PBGD", "Fig."): 18,
    }  # fmt: skip
    assert {key: sorted(set(numbers)) for key, numbers in counts.items()} == {
        key: list(range(1, n + 1)) for key, n in wanted.items()
    }


def test_no_row_of_the_list_is_empty():
    for cells in items():
        assert len(cells) == 4 and all(cells), cells
        assert re.match(r"(better|equal|worse|reproduced|nearest|not possible|theory)", cells[1]), cells


def test_every_command_on_the_pages_exists_and_every_command_is_on_them(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from examples.reproduce.__main__ import TABLES

    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"`((?:pbgd|galet|perturbed|meha|alt)-[a-z0-9-]+|svm)`", text)) - NOT_COMMANDS
    assert named <= set(TABLES) and set(TABLES) <= named


NOT_COMMANDS = {"pbgd-free", "perturbed-gd", "alt-pbgd"}  # methods


def test_pictures_of_the_pages_are_there_and_small():
    named = set()
    for page in PAGES:
        for path in re.findall(
            r"\]\(((?:\.\./)?static/reproduce/[^)]+\.png)\)", page.read_text("utf-8")
        ):
            file = (page.parent / path).resolve()
            assert file.exists(), path
            named.add(file)
    kept = set((ROOT / "docs" / "static" / "reproduce").glob("*.png"))
    assert kept == named and sum(file.stat().st_size for file in kept) < 1_500_000


# --- the papers' claims at small size


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


@pytest.mark.parametrize("name", first_few(["meha-8", "meha-3", "meha-2"], 1))
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


@pytest.mark.slow
def test_errors_of_appendix_h_fall_as_printed_and_with_warm_starts(reproduce):
    figures = reproduce("pbgd-h").figures
    for inner in ("prin", "warm"):
        for gamma in (0.01, 1.0, 500.0):
            for level in (0, 1):
                assert (
                    figures["H.1", inner, gamma, 10][level]
                    < 0.05 * figures["H.1", inner, gamma, 3][level]
                )
                assert figures["H.1", inner, gamma, 300][level] < 1e-3
                assert figures["H.2", inner, gamma, 300][level] < 1e-3
        for experiment in ("H.1", "H.2"):
            lower = [figures[experiment, inner, gamma, 300][1] for gamma in (0.01, 1.0, 500.0)]
            assert lower[0] > lower[1] > lower[2]
    polluted, clean = figures["weights"]
    assert polluted < clean


@pytest.mark.parametrize("label", ["GALET, w kept", "GALET, printed"])
def test_galet_by_hand_is_the_library_s(monkeypatch, label):
    monkeypatch.syspath_prepend(str(ROOT))
    from examples.reproduce.cleaning import centred, read
    from examples.reproduce.cleaning_draws import one_draw

    parts = centred(read(None), 10)
    (ours, _), (by_hand, _) = (
        one_draw(parts, label, 0, (2, 4, 6), by_hand=way) for way in (False, True)
    )
    assert ours.keys() == by_hand.keys() == {2, 4, 6}
    for count in ours:
        assert ours[count] == pytest.approx(by_hand[count], rel=1e-12)


@pytest.mark.slow
def test_cleaning_finds_wrong_labels(reproduce):
    table = reproduce("galet-3")
    for model in ("linear", "MLP"):
        accuracy, f1 = table.figures[model, "pbgd, gauss-seidel"]
        assert accuracy > 0.85 and f1 > 0.8
    assert table.figures["linear", "galet, w kept, centred"][0] > 0.85
    answers = dict(zip(table.figures, (row[4] for row in table.rows), strict=True))
    assert float(answers["linear", "pbgd, gauss-seidel"]) > 85


def test_landscapes(reproduce):
    first = reproduce("pbgd-fig1").figures
    assert first["slope"] < 1e-12  # F has slope 0 where it is not least, so that it is not PL
    assert len(first["rest"]) == 6
    assert reproduce("pbgd-fig5").figures["least_curvature"] < 0
    sixth = reproduce("pbgd-fig6").figures
    assert abs(sixth["slope_3"]) < 1e-12 and sixth["value"] == pytest.approx(10 / 25)
    assert reproduce("galet-fig6").figures["polyak"] == pytest.approx(1.0, rel=1e-3)


def test_the_value_function_s_kkt_score_stays_away_from_zero_where_galet_s_vanishes(reproduce):
    for gap, galet, value_function in reproduce("galet-fig1").figures.values():
        assert gap < 1e-4 and galet < 1e-3 and value_function > 1


@pytest.mark.slow
def test_galet_as_printed_does_not_reach_the_solution_with_its_default_settings(reproduce):
    figures = reproduce("galet-fig4").figures
    assert figures["α = 0.3", False][-1] > 0.1 and figures["α = 0.3", True][-1] < 1e-4


def test_alternating_steps_bear_a_long_step_and_joint_ones_do_not(reproduce):
    figures = reproduce("alt-fig9").figures
    assert np.abs(figures["alt-pbgd", 0.1][5:] - 0.3646).max() < 1e-3
    assert np.abs(figures["jnt-pbgd", 0.1][-1] - 0.3646) > 0.1


def test_kinks_and_slopes_of_the_alt_pbgd_paper(reproduce):
    kinks = reproduce("alt-fig1").figures
    assert kinks["[-1/2, 1/2]", 0.5] == pytest.approx((1, 0), abs=1e-3)
    assert kinks["y ≤ x/2", 0.0] == pytest.approx((1, 0.5), abs=1e-3)
    spread = reproduce("alt-fig3").figures
    assert spread[20.0][0] < 1.1 * spread[5.0][0] and spread[20.0][1] > 3 * spread[5.0][1]
    ball = reproduce("alt-fig4").figures
    assert ball.pop("library") < 1e-4 and max(ball.values()) < 1e-6


def test_fine_tuning_toy(reproduce):
    fifth = reproduce("alt-fig5").figures
    assert abs(fifth["Example 1", "pbgd-free"]) < 0.1 and fifth["Example 1", "f2sa"] < -4
    assert reproduce("alt-fig7").figures["delta"] < 3e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "pbgd-fig2",
        "pbgd-fig4",
        "galet-fig3",
        "galet-fig5",
        "galet-draws",
        "perturbed-fig2",
        "perturbed-fig3",
        "perturbed-fig4",
        "perturbed-fig5",
        "perturbed-fig6",
        "meha-4",
        "meha-5",
        "meha-7",
        "meha-few-shot",
        "meha-fig1",
        "meha-fig2",
        "meha-fig4",
        "meha-fig5",
        "meha-fig6",
        "meha-settings",
        "alt-4",
        "alt-fig10",
        "alt-fig11",
        "alt-fig18",
    ],
)
def test_the_others_run(reproduce, name, tmp_path):
    table = reproduce(name)
    assert table.rows and table.figures
    assert table.save(tmp_path / "picture.png") == (table.picture is not None)
