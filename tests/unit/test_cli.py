"""The command line: what it prints, what it saves, and how it fails."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from blomodel import cli


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.strip() == f"blomodel {version('blomodel')}"


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "demo" in capsys.readouterr().out


def test_unknown_command_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["dmeo"])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert "dmeo" in message and "demo" in message and "methods" in message


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert cli.main(["demo", "--output", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "exp(2 - y) / (2 + cos(4 * x))" in printed  # the model
    assert "2.6545" in printed and "0.300705" in printed  # the known solution of the first problem
    picture = folder / "blomodel_demo.png"
    assert str(picture.resolve()) in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_without_plot_saves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--no-plot"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert "saved" not in capsys.readouterr().out


def test_output_that_is_a_file_fails_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "occupied"
    occupied.write_text("")
    assert cli.main(["demo", "--output", str(occupied)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "blomodel: File exists" in captured.err and "occupied" in captured.err


def test_methods_lists_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    import blomodel as bm

    assert cli.main(["methods"]) == 0
    printed = capsys.readouterr().out
    assert "auto" in printed
    for method in bm.methods():
        assert f"\n{method.name}\n" in printed
        assert all(f"{name} = " in printed for name in method.settings)


def test_interrupt_exits_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_methods", interrupt)
    assert cli.main(["methods"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_version_loads_nothing_that_is_slow(tmp_path: Path) -> None:
    slow = "{'cvxpy', 'numpy', 'scipy', 'numba', 'matplotlib'}"
    code = f"import sys, blomodel.cli; sys.exit(bool({slow} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0
