"""Data in a file that is larger than the memory that the process may have, a few rows at a time.

    python tests/benchmarks/larger_than_memory.py                 # both shapes of a file, 120 s for each
    python tests/benchmarks/larger_than_memory.py --only tall --gib 1 --memory 0.6 --limit 40

One file has many columns; the other has few, so that a vector with an entry for each row is a large
part of it: the labels lie in a file too, and the process may have less than three such vectors. Files
are written piece by piece and removed at the end. What the process may have beside them is limited by
the operating system (RLIMIT_DATA), so that a copy of the data would end it.
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

SHAPES = {"wide": (1024, 6.0, 2.0), "tall": (8, 3.0, 1.0)}  # columns, GiB of the file and of memory
PIECE = 1 << 23  # numbers that are written at once


def true_weights(features: int) -> Any:
    """What the labels are made of."""
    import numpy as np

    return np.random.default_rng(1).standard_normal(features)


def write(folder: Path, rows: int, features: int) -> None:
    """Random numbers, row by row, and a label for each."""
    import numpy as np

    random, true = np.random.default_rng(0), true_weights(features)
    with (folder / "rows.bin").open("wb") as file, (folder / "labels.bin").open("wb") as labels:
        for begin in range(0, rows, PIECE // features):
            part = random.standard_normal((min(PIECE // features, rows - begin), features))
            part.tofile(file)
            (part @ true + random.standard_normal(len(part))).tofile(labels)


def solve(folder: Path, rows: int, features: int, memory: float, limit: float) -> dict[str, Any]:
    """Ridge regression on the file, whose weight is chosen by validation."""
    import cvxpy as cp
    import numpy as np

    import blomodel as bm

    resource.setrlimit(resource.RLIMIT_DATA, (int(memory * 2**30),) * 2)
    path = folder / "rows.bin"
    data = np.memmap(path, dtype=float, mode="r", shape=(rows, features))
    b = np.memmap(folder / "labels.bin", dtype=float, mode="r", shape=(rows,))
    true, V = true_weights(features), np.random.default_rng(2).standard_normal((5000, features))
    x, y = cp.Variable(name="x"), cp.Variable(features, name="y")
    training = cp.sum_squares(bm.data(data) @ y - bm.data(b)) / rows + cp.exp(x) * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(training), [], variables=[y])
    upper = cp.Minimize(cp.sum_squares(V @ y - V @ true) / len(V))
    problem = bm.BilevelProblem(upper, [x >= -8, x <= 1], lower)
    began = time.perf_counter()
    problem.solve(method="f2sa", batch_size=1000, max_steps=300, time_limit=limit)
    used = time.perf_counter() - began
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    own = [int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")]
    return {
        "columns": features,
        "rows": rows,
        "GiB in the file": round(path.stat().st_size / 2**30, 2),
        "GiB that the process may have": memory,
        "GiB used beside the file": round(own[0] / 2**20, 2) if own else None,
        "iterations": problem.solution.iterations,
        "status": str(problem.status),
        "limit s": limit,
        "used s": round(used, 1),
    }


def main() -> None:
    """Write each file, solve in a process of its own, remove the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(SHAPES))
    parser.add_argument("--gib", type=float, help="in the file")
    parser.add_argument("--memory", type=float, help="GiB")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--written", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for shape in (given.only,) if given.only else SHAPES:
        features, gib, memory = SHAPES[shape]
        gib, memory = given.gib or gib, given.memory or memory
        rows = int(gib * 2**30 / 8 / features)
        if given.written:
            print(json.dumps(solve(given.written, rows, features, memory, given.limit)))
            return
        folder = Path(tempfile.mkdtemp(dir=given.folder))
        try:
            if shutil.disk_usage(folder).free < 1.4 * gib * 2**30:
                sys.exit(f"{folder} has no room for {gib} GiB")
            write(folder, rows, features)
            call = [sys.executable, __file__, "--only", shape, "--written", str(folder)]
            call += ["--gib", str(gib), "--memory", str(memory), "--limit", str(given.limit)]
            done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
            print(done.stdout.splitlines()[-1], flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
