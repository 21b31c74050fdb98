"""Several tables and figures by one command: a process for each, times, and what became of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LONGEST = 2400.0  # seconds by the clock for one part
Part = dict[str, Any]


def make_all(
    names: Sequence[str],
    seconds: Mapping[str, float],
    *,
    jobs: int,
    options: Mapping[str, Sequence[str]],
    results: Path | None,
    longest: float = LONGEST,
) -> int:
    """Make each part in a process of its own, the longest first; 1 where one of them failed.

    A part that fails, crashes or takes too long is reported, and the others go on.

    Parameters
    ----------
    seconds : mapping
        About how long each part takes.
    jobs : int
        Processes at a time; each has one thread, so that processor times stay comparable.
    options : mapping
        Further words of the command line for each part.
    results : path, optional
        File for all tables, times and errors as JSON, written anew after each part.
    """
    began, found = time.perf_counter(), dict[str, Part]()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        order = sorted(names, key=lambda name: -seconds.get(name, 0.0))
        waiting = {pool.submit(_make, name, options[name], longest): name for name in order}
        for done in as_completed(waiting):
            name, part = waiting[done], done.result()
            found[name] = part
            print(part.pop("printed"), flush=True)
            if results is not None:
                write(results, {n: found[n] for n in names if n in found}, time.perf_counter() - began)
    _print_times(names, found, time.perf_counter() - began, jobs)
    return int(any(part["error"] for part in found.values()))


def write(results: Path, parts: Mapping[str, Part], seconds: float) -> None:
    """All parts as JSON, with the machine that made them."""
    load = os.getloadavg()[2] if hasattr(os, "getloadavg") else None
    told = {"cores": os.cpu_count(), "load_of_15_minutes": load, "seconds": round(seconds, 1)}
    told["cpu_seconds"] = round(sum(part["cpu_seconds"] or 0.0 for part in parts.values()), 1)
    results.write_text(
        json.dumps({**told, "parts": dict(parts)}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _make(name: str, options: Sequence[str], longest: float) -> Part:
    """One part in a process of its own: what it printed and wrote, or why it did not."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "part.json"
        command = [sys.executable, "-m", __package__, name, "--json", str(results), *options]
        hidden = {"PYTHONSAFEPATH"}
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        environment |= dict.fromkeys(ONE_THREAD, "1")
        try:
            run = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=longest,
            )
        except subprocess.TimeoutExpired:
            return _failed(name, began, f"not done after {longest:g} s")
        if run.returncode != 0 or not results.exists():
            lines = run.stderr.strip().splitlines() or [f"ended with code {run.returncode}"]
            return _failed(name, began, lines[-1], "\n".join(lines[-20:]))
        part: Part = json.loads(results.read_text(encoding="utf-8"))["parts"][name]
    return {**part, "printed": run.stdout}


def _failed(name: str, began: float, error: str, trace: str = "") -> Part:
    seconds = round(time.perf_counter() - began, 1)
    printed = f"### {name}: FAILED after {seconds:.0f} s: {error}\n{trace}\n"
    return {"error": error, "seconds": seconds, "cpu_seconds": None, "printed": printed}


def _print_times(names: Sequence[str], found: Mapping[str, Part], seconds: float, jobs: int) -> None:
    print("| part | seconds | CPU seconds | |\n| --- | --- | --- | --- |")
    for name in names:
        part = found[name]
        used = "" if part["cpu_seconds"] is None else f"{part['cpu_seconds']:.0f}"
        print(f"| `{name}` | {part['seconds']:.0f} | {used} | {part['error'] or 'made'} |")
    total = sum(part["cpu_seconds"] or 0.0 for part in found.values())
    n_failed = sum(bool(part["error"]) for part in found.values())
    load = f", load {os.getloadavg()[2]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"\n{len(names)} parts, {n_failed} failed: {seconds:.0f} s by the clock with {jobs} process(es) "
        f"on {os.cpu_count()} cores{load}; {total:.0f} CPU seconds."
    )
