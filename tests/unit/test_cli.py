"""The command line: what it prints, what it saves, and how it fails."""

from __future__ import annotations

import signal
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


MODEL = """
import cvxpy as cp, blomodel as bm
x, y = cp.Variable(name="x"), cp.Variable(name="y")
lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
{name} = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
if __name__ == "__main__":
    raise RuntimeError("a model is imported, not run")
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(name="problem"))
    return path


def test_solve_prints_answer_and_certificate(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "page.html"
    assert cli.main(["solve", str(model), "--report", str(report)]) == 0
    printed = capsys.readouterr().out
    assert "value   1\n" in printed and "certificate: optimal" in printed
    assert "<html" in report.read_text(encoding="utf-8")


def test_explain_prints_the_structure(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(model)]) == 0
    assert "lower variables" in capsys.readouterr().out


def test_the_only_problem_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "toll.py"
    path.write_text(MODEL.format(name="toll"))
    assert cli.main(["solve", str(path), "--method", "kkt-mip"]) == 0
    path.write_text(path.read_text() + "\nother = bm.BilevelProblem(cp.Minimize(x), [0 <= x], lower)")
    assert cli.main(["solve", str(path)]) == 1
    assert "several problems (other, toll): choose one with --name" in capsys.readouterr().err
    assert cli.main(["explain", str(path), "--name", "toll"]) == 0
    assert cli.main(["explain", str(path), "--name", "tall"]) == 1
    assert "has no problem 'tall'; it has other, toll" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1", "states no problem"),
        ("x = 1\ny = 1 / 0", "line 2 stopped with ZeroDivisionError"),
        ("raise SystemExit(3)", "stopped with SystemExit: 3"),
        (None, "there is no file"),
    ],
)
def test_a_file_without_a_problem_is_refused(
    source: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    if source is not None:
        path.write_text(source)
    assert cli.main(["solve", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("blomodel: ") and said in captured.err
    assert captured.out == "" and "Traceback" not in captured.err


def test_a_wrong_method_is_said_without_a_traceback(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["solve", str(model), "--method", "blok"]) == 1
    assert "UnknownMethodError" in capsys.readouterr().err


def test_problems_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["problems"]) == 0
    assert "bard_1988_1" in capsys.readouterr().out
    assert cli.main(["problems", "Bard1988Ex1"]) == 0
    printed = capsys.readouterr().out
    assert "best value   17" in printed and "(x - 5)**2" in printed
    assert cli.main(["problems", "bart_1988_1"]) == 1
    assert "did you mean 'bard_1988_1'? 'blomodel problems' has all names" in capsys.readouterr().err


def test_a_reader_who_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "blomodel", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()  # before anything is written
        assert run.stderr.read() == b""
        assert run.wait() == cli.UNREAD


def test_an_interrupt_of_the_files_own_solve_ends_the_command(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from blomodel.methods.run.run import Run

    monkeypatch.setattr(Run, "check_limits", lambda run: signal.raise_signal(signal.SIGINT))
    with model.open("a") as file:
        file.write("problem.solve()\n")
    assert cli.main(["solve", str(model)]) == cli.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
