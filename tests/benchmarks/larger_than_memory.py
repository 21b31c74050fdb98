"""Data in a file that is larger than the memory that the process may have, a few rows at a time.

    python tests/benchmarks/larger_than_memory.py                 # 6 GiB, 2 GiB of memory, 120 s
    python tests/benchmarks/larger_than_memory.py --gib 0.5 --memory 1 --limit 20

The file is written piece by piece and removed at the end. What the process may have beside the file
itself is limited by the operating system (RLIMIT_DATA), so that a copy of the data would end it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

FEATURES, PIECE = 1024, 10_000  # columns, and rows that are written at once


def write(path: Path, rows: int) -> None:
    """Random numbers, row by row."""
    import numpy as np

    random = np.random.default_rng(0)
    with path.open("wb") as file:
        for begin in range(0, rows, PIECE):
            random.standard_normal((min(PIECE, rows - begin), FEATURES)).tofile(file)


def solve(path: Path, rows: int, memory: float, limit: float) -> dict[str, Any]:
    """Ridge regression on the file, whose weight is chosen by validation."""
    import cvxpy as cp
    import numpy as np

    import blomodel as bm

    resource.setrlimit(resource.RLIMIT_DATA, (int(memory * 2**30),) * 2)
    data = np.memmap(path, dtype=float, mode="r", shape=(rows, FEATURES))
    random = np.random.default_rng(1)
    true, V = random.standard_normal(FEATURES), random.standard_normal((5000, FEATURES))
    b = np.concatenate([data[k : k + PIECE] @ true for k in range(0, rows, PIECE)])
    b += random.standard_normal(rows)
    x, y = cp.Variable(name="x"), cp.Variable(FEATURES, name="y")
    training = cp.sum_squares(bm.data(data) @ y - b) / rows + cp.exp(x) * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(training), [], variables=[y])
    upper = cp.Minimize(cp.sum_squares(V @ y - V @ true) / len(V))
    problem = bm.BilevelProblem(upper, [x >= -8, x <= 1], lower)
    began = time.perf_counter()
    problem.solve(method="f2sa", batch_size=1000, max_steps=300, time_limit=limit)
    used = time.perf_counter() - began
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    own = [int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")]
    return {
        "GiB in the file": round(path.stat().st_size / 2**30, 2),
        "GiB that the process may have": memory,
        "GiB used beside the file": round(own[0] / 2**20, 2) if own else None,
        "iterations": problem.solution.iterations,
        "status": str(problem.status),
        "limit s": limit,
        "used s": round(used, 1),
    }


def main() -> None:
    """Write the file, solve in a process of its own, remove the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=6.0)
    parser.add_argument("--memory", type=float, default=2.0, help="GiB")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    rows = int(given.gib * 2**30 / 8 / FEATURES)
    if given.file:
        print(json.dumps(solve(given.file, rows, given.memory, given.limit)))
        return
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        if shutil.disk_usage(folder).free < 1.2 * given.gib * 2**30:
            sys.exit(f"{folder} has no room for {given.gib} GiB")
        write(folder / "rows.bin", rows)
        call = [sys.executable, __file__, "--file", str(folder / "rows.bin"), "--gib", str(given.gib)]
        call += ["--memory", str(given.memory), "--limit", str(given.limit)]
        done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
        print(done.stdout.splitlines()[-1])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
