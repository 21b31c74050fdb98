"""What ``solve(verbose=True)`` shows while it runs: a live line on a terminal, plain lines elsewhere.

The live line is tqdm's: small, without dependencies of its own, at home on every terminal. A bar
appears where a limit says how far there is to go.
"""

from __future__ import annotations

import logging
import math
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from blomodel.basics.log import LOGGER, log
from blomodel.methods.run.run import Standing
from blomodel.text.layout import counted, number, seconds

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

BETWEEN_LINES = 0.5  # seconds; plain lines end up in files, which nobody wants to see fill up
BETWEEN_REFRESHES = 0.1
SHOWN = ("value", "gap", "gamma", "stationarity", "residual")  # in this order, where a method has them


class Display(Protocol):
    """Where progress goes."""

    def show(self, line: str, iterations: int) -> None:
        """Take the newest line."""

    def close(self) -> None:
        """Leave a clean screen."""


class PlainLines:
    """A line now and then, for files, pipes and notebooks."""

    def __init__(self, stream: TextIO, began: float, between: float = BETWEEN_LINES) -> None:
        self._stream, self._began, self._between = stream, began, between
        self._last = -float("inf")

    def show(self, line: str, iterations: int) -> None:
        """Print the line unless another was printed a moment ago."""
        now = time.perf_counter()
        if now - self._last >= self._between:
            self._last = now
            print(f"{now - self._began:7.1f} s  {line}", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to clean up."""


class _LogLines:
    """Hands every line to the logger."""

    def show(self, line: str, iterations: int) -> None:
        log(logging.DEBUG, "%s", line)

    def close(self) -> None:
        """Nothing to clean up."""


class _Both:
    """Two displays at once."""

    def __init__(self, *displays: Display) -> None:
        self._displays = displays

    def show(self, line: str, iterations: int) -> None:
        for display in self._displays:
            display.show(line, iterations)

    def close(self) -> None:
        for display in self._displays:
            display.close()


class LiveLine:
    """One line of a terminal, drawn over and over; its clock ticks while the method is busy."""

    def __init__(self, stream: TextIO, began: float, limits: Mapping[str, float | None]) -> None:
        from tqdm import tqdm

        self._began, self._limits = began, limits
        self._line, self._iterations = "preparing", 0
        has_limit = any(limit is not None for limit in limits.values())
        self._bar: Any = tqdm(
            total=1.0 if has_limit else None,
            bar_format="{desc} {bar:10}" if has_limit else "{desc}",
            file=stream,
            leave=False,
            nrows=20,  # a terminal that does not tell its size would get no line at all
        )
        self._is_over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def show(self, line: str, iterations: int) -> None:
        """Remember the line; the ticker draws it."""
        self._line, self._iterations = line, iterations

    def close(self) -> None:
        """Stop the ticker and wipe the line."""
        self._is_over.set()
        self._ticker.join()
        self._bar.close()

    def _tick(self) -> None:
        while not self._is_over.wait(BETWEEN_REFRESHES):
            self._bar.n = self._share()
            self._bar.ncols = shutil.get_terminal_size().columns  # the window may have been resized
            room = self._bar.ncols - (13 if self._bar.total else 1)
            elapsed = time.perf_counter() - self._began
            self._bar.set_description_str(f"{elapsed:7.1f} s  {self._line}"[:room], refresh=False)
            self._bar.refresh()

    def _share(self) -> float:
        """How much of the tighter limit is used up."""
        used = {"time": time.perf_counter() - self._began, "iterations": self._iterations}
        shares = [used[name] / limit for name, limit in self._limits.items() if limit]
        return min(1.0, max(shares, default=0.0))


class Progress:
    """Told of every step of a run; writes what it knows of the present point."""

    def __init__(self, display: Display, sign: float, method: str) -> None:
        self._display, self._sign, self._method = display, sign, method
        self._known: dict[str, float] = {}

    def __call__(self, iterations: int, figures: Mapping[str, float], standing: Standing) -> None:
        """Show the newest figures; those that this step lacks keep their last value."""
        self._known.update(figures)
        what = f"{self._method}: {standing.activity}" if standing.activity else self._method
        parts = [f"{what}  step {iterations}", *self._say(standing)]
        for name in SHOWN:
            if name == "value" and name in self._known:
                # Methods minimise; the user may maximise.
                parts.append(f"value {number(self._sign * self._known[name])}")
            elif name in self._known:
                # A gap may be negative by rounding; "gap" alone could be the one to the bound.
                label = "lower gap" if name == "gap" else name
                parts.append(f"{label} {max(self._known[name], 0.0):.1e}")
        self._display.show("  ".join(parts), iterations)

    def _say(self, standing: Standing) -> list[str]:
        """The best point so far, what bounds it, and the relative distance of the two."""
        said = []
        if standing.value is not None:
            said.append(f"best {number(self._sign * standing.value)}")
        if not math.isfinite(standing.bound):
            if standing.activity:  # of a plan, whose steps look for bounds; other methods find none
                said.append("no bound yet")
        else:
            said.append(f"bound {number(self._sign * standing.bound)}")
            if standing.value is not None:
                open_part = max(standing.value - standing.bound, 0.0) / (1e-9 + abs(standing.value))
                said.append(f"open {min(open_part, 9.99):.1%}")
        return said


@contextmanager
def show_progress(
    problem: BilevelProblem,
    method: str,
    verbose: int,
    *,
    time_limit: float | None,
    max_iterations: int | None,
) -> Iterator[Progress | None]:
    """What a run tells its steps to, or None; ends with a line about the outcome."""
    logged = _LogLines() if LOGGER.isEnabledFor(logging.DEBUG) else None
    if not verbose:
        yield None if logged is None else Progress(logged, problem.sign, method)
        return
    stream = sys.stdout
    began = time.perf_counter()
    n_upper, n_lower = (
        sum(v.size for v in level) for level in (problem.levels.upper, problem.levels.lower)
    )
    print(f"{method}: {n_upper} upper and {n_lower} lower unknowns", file=stream, flush=True)
    display: Display = PlainLines(stream, began, BETWEEN_LINES if verbose == 1 else 0.0)
    if verbose > 1 and str(method).lower() == "auto":
        print(problem.plan(), file=stream, flush=True)
    if verbose == 1 and stream.isatty():
        display = LiveLine(stream, began, {"time": time_limit, "iterations": max_iterations})
    before = problem.solution
    try:
        yield Progress(display if logged is None else _Both(display, logged), problem.sign, method)
    finally:
        display.close()
        if problem.solution is not None and problem.solution is not before:
            print(_outcome(problem, time.perf_counter() - began), file=stream, flush=True)


def _outcome(problem: BilevelProblem, elapsed: float) -> str:
    solution, certificate = problem.solution, problem.certificate
    assert solution is not None
    parts = [f"{solution.method}: {solution.status}", f"value {number(solution.value, 8)}"]
    if certificate is not None:
        parts.append(f"lower gap {max(certificate.lower_gap, 0.0):.1e}")
        if certificate.bound is None:
            parts.append("no bound")
        else:
            parts.append(f"bound {number(certificate.bound, 8)}")
        if certificate.gap is not None:
            parts.append(f"gap {max(certificate.gap, 0.0):.1e}")
    parts.append(f"{counted(solution.iterations, 'iteration')} in {seconds(elapsed)}")
    if solution.stopped_by:
        parts.append(f"stopped by {solution.stopped_by}")
    return ", ".join(parts)
