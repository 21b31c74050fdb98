"""Time against size, beside the plain alternative, in one run on an idle machine.

    python tests/benchmarks/growth.py --output docs/growth.json      # all families, some minutes
    python tests/benchmarks/growth.py --only ridge --largest 400

The performance page draws and tabulates what the file holds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parent))

import numpy as np  # noqa: E402
from growth_models import FAMILIES, make  # noqa: E402

LIMIT = 120.0  # seconds for one solve


def entries(size: int | tuple[int, ...]) -> int:
    """A size as one number."""
    return int(np.prod(size))


def measure(name: str, size: int | tuple[int, int]) -> dict[str, Any]:
    """Time and value of both ways."""
    instance = make(name, size)
    began = time.perf_counter()
    plain = instance.by_hand()
    by_hand = time.perf_counter() - began
    problem = instance.problem()
    began = time.perf_counter()
    value = problem.solve(time_limit=LIMIT)
    return {
        "family": name,
        "size": size,
        "seconds": time.perf_counter() - began,
        "status": str(problem.status),
        "plain_seconds": by_hand,
        "better": (plain - value) * problem.sign / abs(plain),  # relative, than by hand
    }


def slope(rows: list[dict[str, Any]], key: str) -> float:
    """Exponent of the growth: the slope of log time over log size, by least squares."""
    sizes, times = ([f(row) for row in rows] for f in (lambda r: entries(r["size"]), lambda r: r[key]))
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=FAMILIES)
    parser.add_argument("--largest", type=int, default=10**9)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    make("pricing", 3).problem().solve()  # loads what every first solve loads
    kept = []
    for name, family in FAMILIES.items():
        if arguments.only not in (None, name):
            continue
        rows = [measure(name, size) for size in family.sizes if entries(size) <= arguments.largest]
        for row in rows:
            print(
                f"{name:11s} {row['size']!s:>10s}  {row['seconds']:8.2f} s  "
                f"by hand {row['plain_seconds']:8.2f} s  {row['status']:16s} "
                f"better by {row['better']:+.1e}",
                flush=True,
            )
        if len(rows) > 1:
            own, plain = slope(rows, "seconds"), slope(rows, "plain_seconds")
            print(f"{name:11s}   exponent {own:.2f}, by hand {plain:.2f}")
        kept += rows
    if arguments.output:
        arguments.output.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
