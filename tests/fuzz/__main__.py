"""Random problems against brute force: ``python tests/fuzz --first 0 --count 5000 --file fuzz.jsonl``.

The file keeps a line for each model, so that a run can be made in pieces: models that it holds are not
solved again. ``--seconds`` ends a piece early, ``--table`` only prints what the file holds.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import time
from collections import Counter
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

NO_POINT = ("infeasible", "unbounded", "lower_infeasible", "lower_unbounded")
HANG = 150.0  # seconds after which the process ends with a traceback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--file", type=Path, default=Path("fuzz.jsonl"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    kept = (
        [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    )
    known = {record["seed"] for record in kept}
    seeds = [seed for seed in range(given.first, given.first + given.count) if seed not in known]
    if not given.table:
        from fuzz_verdicts import verdict

        end = time.monotonic() + given.seconds
        with given.file.open("a") as file:
            for seed in seeds:
                if time.monotonic() > end:
                    break
                faulthandler.dump_traceback_later(HANG, exit=True)
                print(seed, end=" ", flush=True)
                record = verdict(seed, effort=given.effort, time_limit=given.time_limit)
                faulthandler.cancel_dump_traceback_later()
                if record["faults"]:
                    print(f"\n{record['kind']} {record['status']}: {record['faults']}", flush=True)
                file.write(json.dumps(record) + "\n")
                file.flush()
                kept.append(record)
    print("\n" + table(kept))


def table(records: list[dict]) -> str:
    """A line for each class."""
    heads = (
        "class",
        "models",
        "optimal",
        "local",
        "stationary",
        "feasible",
        "no point",
        "failed",
        "refused",
    )
    heads += "false claims", "false bounds", "worse", "mean CPU s", "most"
    lines = [heads]
    groups = [*dict.fromkeys(record["kind"] for record in records), "all"]
    for kind in groups:
        own = [record for record in records if kind in (record["kind"], "all")]
        statuses = Counter(record["status"] for record in own)
        faults = [fault for record in own for fault in record["faults"]]
        bounds = sum(fault.startswith("false bound") for fault in faults)
        cpu = [record["cpu"] for record in own]
        lines.append((
            kind, len(own), statuses["optimal"], statuses["locally_optimal"], statuses["stationary"],
            statuses["feasible"] + statuses["not_attained"], sum(statuses[name] for name in NO_POINT),
            sum(statuses[name] for name in ("failed", "exception", "interrupted")), statuses["refused"],
            len(faults) - bounds, bounds, sum("worse by" in record for record in own),
            f"{sum(cpu) / len(cpu):.2f}", f"{max(cpu):.1f}",
        ))  # fmt: skip
    widths = [max(len(str(line[k])) for line in lines) for k in range(len(heads))]
    return "\n".join(
        "  ".join(
            str(cell).rjust(width) if k else str(cell).ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


if __name__ == "__main__":
    main()
