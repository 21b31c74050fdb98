"""verbose=True: a live line on a terminal, a few plain lines elsewhere, silence by default."""

from __future__ import annotations

import math
import os
import re
import select
import signal
import sys
import time
from typing import TextIO

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.methods.run.run import Standing
from blomodel.solve.progress import PlainLines, Progress

pty = pytest.importorskip("pty", reason="pseudo-terminals exist on Unix only")

# A search that goes on for minutes, so that there is something to interrupt.
ENDLESS = """
import cvxpy as cp, blomodel as bm
x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [-5 <= x, x <= 5], lower)
problem.solve("random-search", n_points=10**6, verbose=True)
print("status:", problem.status)
"""

NOTHING = Standing(None, -math.inf, "")  # a run that has found nothing yet

pytestmark = pytest.mark.usefixtures("light_heap")  # the clock is looked at


def toll_problem() -> bm.BilevelProblem:
    t, y = cp.Variable(name="t"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - (10 - t)) ** 2), [0 <= y], variables=[y])
    return bm.BilevelProblem(cp.Maximize(t * y), [0 <= t, t <= 10], lower)


def solve_for_a_while(stream: TextIO, monkeypatch: pytest.MonkeyPatch, seconds: float = 1.2) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        toll_problem().solve("random-search", n_points=10**6, time_limit=seconds, verbose=True)
    stream.close()


def interrupt_on_terminal(code: str, *, at: bytes, timeout: float = 60) -> bytes:
    """What a program writes to a terminal of its own, on which Ctrl-C is typed once a text is shown."""
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background
        os.execv(sys.executable, [sys.executable, "-c", code])
    seen, has_typed, deadline = b"", False, time.monotonic() + timeout
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            part = read(terminal)
            if not part:
                break
            seen += part
            if at in seen and not has_typed:
                os.write(terminal, b"\x03")
                has_typed = True
    finally:
        os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return seen


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def last_screen(output: bytes) -> list[str]:
    """The lines that stay: what a carriage return and later text have overwritten is gone."""
    lines = []
    for line in output.decode().replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_quiet_by_default(capsys) -> None:
    toll_problem().solve("reduced-penalty")
    captured = capsys.readouterr()
    assert captured.out == ""


def test_plain_lines_tell_value_gap_and_weight_in_the_users_sense(capsys) -> None:
    problem = toll_problem()
    problem.solve("reduced-penalty", verbose=True)
    head, first, *_, last = capsys.readouterr().out.splitlines()
    assert head == "reduced-penalty: 1 upper and 1 lower unknowns"
    figures = re.search(r"step 1  best \S+.*value (\S+)  lower gap \S+  gamma (\S+)", first)
    assert figures and float(figures[1]) > 0 and float(figures[2]) == pytest.approx(0.1)
    assert re.match(r"reduced-penalty: \w+, value 25, lower gap \S+, no bound, \d+ iterations in ", last)


def test_plain_lines_come_at_most_twice_a_second(capsys) -> None:
    progress = Progress(PlainLines(sys.stdout, time.perf_counter()), 1.0, "auto")
    began = time.perf_counter()
    steps = 0
    while time.perf_counter() - began < 1.2:
        steps += 1
        progress(steps, {"value": 1.0}, NOTHING)
    lines = capsys.readouterr().out.splitlines()
    assert steps > 100
    assert 2 <= len(lines) <= 3


def test_figures_that_a_step_lacks_keep_their_last_value(capsys) -> None:
    progress = Progress(PlainLines(sys.stdout, time.perf_counter()), -1.0, "auto")
    progress(1, {"value": 2.0, "gamma": 10.0, "unknown": 3.0}, NOTHING)
    line = capsys.readouterr().out
    assert "value -2" in line and "gamma 1.0e+01" in line and "unknown" not in line
    progress = Progress(PlainLines(sys.stdout, 0.0), 1.0, "auto")
    progress._known["gamma"] = 100.0
    progress(2, {"gap": -1e-17}, NOTHING)
    assert "gap 0.0e+00  gamma 1.0e+02" in capsys.readouterr().out


def test_incumbent_bound_and_what_is_tried_are_shown_in_the_users_sense(capsys) -> None:
    progress = Progress(PlainLines(sys.stdout, time.perf_counter()), -1.0, "auto")
    progress(7, {}, Standing(-8.0, -10.0, "tree over KKT pieces"))
    line = capsys.readouterr().out
    assert "auto: tree over KKT pieces  step 7  best 8  bound 10  open 25.0%" in line


def test_an_error_leaves_no_outcome_of_an_earlier_solve(capsys) -> None:
    problem = toll_problem()
    problem.solve()
    with pytest.raises(bm.BlomodelError):
        problem.solve("no-such-method", verbose=True)
    assert capsys.readouterr().out.splitlines() == ["no-such-method: 1 upper and 1 lower unknowns"]


def test_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    source, sink = os.pipe()
    solve_for_a_while(os.fdopen(sink, "w"), monkeypatch)
    with os.fdopen(source) as pipe:
        output = pipe.read()
    assert "\r" not in output and "\x1b" not in output
    lines = output.splitlines()
    assert 4 <= len(lines) <= 6
    assert "stopped by time limit" in lines[-1]


def test_terminal_gets_one_live_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, screen_end = pty.openpty()
    # Long enough for three lines even where collecting garbage stops all threads for a while.
    solve_for_a_while(os.fdopen(screen_end, "w"), monkeypatch, seconds=3.0)
    output = b"".join(iter(lambda: read(terminal), b""))
    os.close(terminal)
    drawn = [part for part in output.decode().split("\r") if " s  random-search  step" in part]
    assert len(drawn) >= 3  # drawn over and over
    assert max(map(len, drawn)) <= 80
    screen = last_screen(output)
    assert screen[0] == "random-search: 1 upper and 1 lower unknowns"
    assert screen[1].startswith("random-search: ") and "stopped by time limit" in screen[1]
    assert screen[2:] == [""]


def test_interrupt_leaves_the_terminal_clean_and_keeps_the_point() -> None:
    output = interrupt_on_terminal(ENDLESS, at=b"step")
    screen = [line for line in last_screen(output) if line]
    assert "Traceback" not in output.decode()
    assert screen[-1] == "status: interrupted"
    assert screen[-2].endswith("stopped by user")


def test_only_a_plan_waits_for_a_bound() -> None:
    lines: list[str] = []

    class Lines:
        def show(self, line: str, iterations: int) -> None:
            lines.append(line)

        def close(self) -> None:
            pass

    for activity in ("", "descent on phi"):
        Progress(Lines(), 1.0, "blocc")(1, {}, Standing(2.0, -math.inf, activity))
    assert "no bound" not in lines[0]
    assert "no bound yet" in lines[1]
