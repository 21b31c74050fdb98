"""What was found of each model: a file with a line for each, which runs in pieces go on with."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

Record = dict[str, Any]
POINTS = ("optimal", "locally_optimal", "stationary", "feasible", "not_attained")
NO_POINT = ("infeasible", "unbounded", "lower_infeasible", "lower_unbounded")
HEADS = (
    *("class", "models", "optimal", "local", "stationary", "feasible", "no point", "failed", "refused"),
    *("false claims", "false bounds", "worse", "mean CPU s", "most"),
)


class Records:
    """The last line of a model counts: one whose fault was mended is solved again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commit = _commit()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.known: dict[str, Record] = {}
        for record in map(json.loads, lines):
            self.known[str(record["seed"])] = record

    def add(self, seed: int | str, record: Record) -> None:
        """Write a line at once."""
        earlier = self.known.get(str(seed), {})
        before = [*earlier.get("before", []), *earlier.get("faults", [])]
        line = record | {"seed": seed, "commit": self.commit, "on": date.today().isoformat()}
        if before:
            line["before"] = before
        self.known[str(seed)] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @property
    def faulty(self) -> list[str]:
        """Models with a fault when they were solved last."""
        return [seed for seed, record in self.known.items() if record["faults"]]


def _commit() -> str:
    call = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def figures(records: Sequence[Record]) -> dict[str, Any]:
    """What the page of reliability shows."""
    statuses = Counter(record["status"] for record in records)
    faults = [fault for record in records for fault in record["faults"]]
    hangs = sum(fault.startswith("hang") for fault in faults)
    crashes = sum(fault in ("exception", "died") for fault in faults)
    refusals = sum(fault.startswith("refused") for fault in faults)
    return {
        "models generated": len(records),
        "of them drawn by hypothesis": sum(isinstance(record["seed"], str) for record in records),
        "classes": len({record["kind"] for record in records}),
        "solved": sum(statuses[name] for name in POINTS),
        "shown to have no answer": sum(statuses[name] for name in NO_POINT),
        "refused properly": statuses["refused"] - refusals,
        "refused without need": refusals,
        "failed, and said so": statuses["failed"],
        "false claims": len(faults) - hangs - crashes - refusals,
        "crashes": crashes,
        "hangs": hangs,
        "had a fault that was mended, and were solved again": sum(
            "before" in record and not record["faults"] for record in records
        ),
        "commits": sorted({record.get("commit", "unknown") for record in records}),
        "days": sorted({record.get("on", "unknown") for record in records}),
    }


def table(records: Sequence[Record]) -> str:
    """A line for each class."""
    lines: list[Sequence[Any]] = [HEADS]
    for kind in [*dict.fromkeys(record["kind"] for record in records), "all"]:
        own = [record for record in records if kind in (record["kind"], "all")]
        statuses = Counter(record["status"] for record in own)
        faults = [fault for record in own for fault in record["faults"]]
        bounds = sum(fault.startswith("false bound") for fault in faults)
        cpu = [record.get("cpu", 0.0) for record in own] or [0.0]
        lines.append((
            kind, len(own), statuses["optimal"], statuses["locally_optimal"], statuses["stationary"],
            statuses["feasible"] + statuses["not_attained"], sum(statuses[name] for name in NO_POINT),
            sum(statuses[name] for name in ("failed", "exception", "interrupted")), statuses["refused"],
            len(faults) - bounds, bounds, sum("worse by" in record for record in own),
            f"{sum(cpu) / len(cpu):.2f}", f"{max(cpu):.1f}",
        ))  # fmt: skip
    widths = [max(len(str(line[k])) for line in lines) for k in range(len(HEADS))]
    return "\n".join(
        "  ".join(
            str(cell).rjust(width) if k else str(cell).ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
