"""How reliable is it? ``python tests/reliability`` measures everything anew and prints the figures.

    python tests/reliability                          # all sections; an hour or more
    python tests/reliability --only interrupts        # one of them
    python tests/reliability --models 5000 --only models
    python tests/reliability --models 5000 --only models --seconds 600  # a piece; the next goes on
    python tests/reliability --table                  # only print what was recorded

What is measured is put into docs/reliability.json, section by section, and from there into the table of
docs/reliability.md. A section that was not measured again keeps its figures and their date.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORD, PAGE = ROOT / "docs" / "reliability.json", ROOT / "docs" / "reliability.md"
KEPT = ROOT / "build" / "reliability" / "fuzz.jsonl"
TROUBLES = ROOT / "tests" / "contracts" / "test_solver_trouble.py"
LARGE_PAGE = ROOT / "docs" / "large_data.md"
RATIO = "largest ratio to an iteration by hand"
MEASURED = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end of measured -->)", re.DOTALL)
TABLE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


def models(given: argparse.Namespace) -> dict[str, Any]:
    """Random models against an independent judge."""
    sys.path.append(str(ROOT / "tests" / "fuzz"))
    from fuzz_record import Records, figures

    given.kept.parent.mkdir(parents=True, exist_ok=True)
    call = ["--models", str(given.models), "--first", str(given.first), "--file", str(given.kept)]
    if given.seconds is not None:
        call += ["--seconds", str(given.seconds)]
    for extra in ([], ["--again"]):  # what a mended fault had spoilt is solved anew
        while subprocess.run(
            [sys.executable, str(ROOT / "tests" / "fuzz"), *call, *extra], stdout=sys.stderr
        ).returncode:
            # A process that died: the model that it was at counts, and the others go on.
            at = given.kept.with_suffix(".now").read_text()
            records = Records(given.kept)
            if at not in records.known:
                seed = at if at.startswith("h") else int(at)
                records.add(seed, {"kind": "unknown", "status": "died", "faults": ["died"]})
    return figures(list(Records(given.kept).known.values()))


def interrupts(given: argparse.Namespace) -> dict[str, Any]:
    """Ctrl-C at random moments."""
    from interrupts import measure

    found = measure(given.interrupts - given.cold, given.seed, given.cold)
    found["stages"] = ", ".join(f"{count} {stage}" for stage, count in sorted(found["stages"].items()))
    return found


def resumes(given: argparse.Namespace) -> dict[str, Any]:
    """Runs that were saved and resumed."""
    from resumes import measure

    return measure()


def faults(given: argparse.Namespace) -> dict[str, Any]:
    """Inner solvers that fail, stall, are inaccurate or crash."""
    if not TROUBLES.exists():
        return {}
    call = [sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", str(TROUBLES)]
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT)
    counts = dict((word, int(n)) for n, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout))
    return {
        "faults injected": sum(counts.values()),
        "another solver or an honest status": counts.get("passed", 0),
        "anything else": counts.get("failed", 0) + counts.get("error", 0),
    }


def large(given: argparse.Namespace) -> dict[str, Any]:
    """Time and memory on large data."""
    script = ROOT / "tests" / "benchmarks" / "large_data.py"
    run = partial(subprocess.run, stdout=subprocess.PIPE, text=True, check=True)
    done = run([sys.executable, str(script)])
    lines = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    again = run([sys.executable, str(script), "--growth"])
    lines += ["", *(line.rstrip() for line in again.stdout.splitlines() if line.strip())]
    page = LARGE_PAGE.read_text(encoding="utf-8")
    shown = "\n".join(["", *lines, "", ""])
    LARGE_PAGE.write_text(MEASURED.sub(lambda _: shown, page), encoding="utf-8")
    return {
        "table": lines,
        "models": len(_column(lines, "ratio")),
        RATIO: max(_column(lines, "ratio")),
        "largest memory of a model, GiB": max(_column(lines, "peak GiB")),
        "longest compilation, s": max(_column(lines, "compile s")),
        "load": [round(part, 1) for part in os.getloadavg()],
    }


def _column(lines: list[str], name: str) -> list[float]:
    """The numbers of a column of the first table."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[: lines.index("")]]
    return [float(row[cells[0].index(name)]) for row in cells[2:]]


def memmap(given: argparse.Namespace) -> dict[str, Any]:
    """Files of data larger than memory."""
    script = ROOT / "tests" / "benchmarks" / "larger_than_memory.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["without a word"])[-1]}
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {f"{run['columns']:,} columns: {key}": run[key] for run in runs for key in run}


def speedup(given: argparse.Namespace) -> dict[str, Any]:
    """Eight starts on two processes."""
    script = ROOT / "tests" / "benchmarks" / "parallel.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def workers(given: argparse.Namespace) -> dict[str, Any]:
    """Processes that are killed at work."""
    tests = str(ROOT / "tests" / "unit" / "methods" / "run" / "test_elsewhere.py")
    call = [sys.executable, "-m", "pytest", "-q", "-m", "slow", "-k", "die or dask or kill", tests]
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT)
    counts = dict((word, int(n)) for n, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout))
    return {
        "cases (local processes and a Dask cluster)": sum(counts.values()),
        "all pieces done in the end, or a clear error": counts.get("passed", 0),
    }


SECTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "models": models,
    "interrupts": interrupts,
    "resumes": resumes,
    "faults": faults,
    "workers": workers,
    "large": large,
    "memmap": memmap,
    "speedup": speedup,
}


def table(record: dict[str, Any]) -> str:
    """What was recorded, in Markdown."""
    lines = []
    for name, work in SECTIONS.items():
        if name not in record:
            continue
        own = record[name]
        lines += [f"**{work.__doc__}** Measured {own['on']}.", ""]
        figures = {key: value for key, value in own["figures"].items() if value not in ([], {})}
        if "table" in figures:
            lines += ["```text", *figures.pop("table"), "```", ""]
        if figures:
            lines += ["| figure | |", "|---|---|"]
            lines += [f"| {key} | {_shown(value)} |" for key, value in figures.items()]
            lines += [""]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(SECTIONS), action="append", help="may be given twice")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--first", type=int, default=100_000, help="number of the first model")
    parser.add_argument("--seconds", type=float, help="for models; the next run goes on")
    parser.add_argument("--kept", type=Path, default=KEPT, help="a line for each model so far")
    parser.add_argument("--interrupts", type=int, default=200)
    parser.add_argument("--cold", type=int, default=4, help="of them while kernels are compiled")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of interrupts")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given = parser.parse_args()
    sys.path.append(str(HERE))
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name in [] if given.table else given.only or SECTIONS:
        print(f"{name}: {SECTIONS[name].__doc__}", flush=True)
        figures = SECTIONS[name](given)
        if not figures:
            print("  not there")
            continue
        record[name] = {"on": _when_and_where(), "figures": figures}
        for key, value in figures.items():
            print(f"  {key}: {_shown(value)}", flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(record), page), encoding="utf-8")
    if given.table:
        print(table(record))


def _when_and_where() -> str:
    day = time.strftime("%Y-%m-%d")
    return f"{day}, Python {platform.python_version()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
