"""Large data: compile time, seconds for an iteration beside one by hand, memory, the time limit kept.

    python tests/benchmarks/large_data.py                    # the four models, some minutes
    python tests/benchmarks/large_data.py --only lasso --scale 0.1
    python tests/benchmarks/large_data.py --growth           # an iteration at four sizes, two models

Every model has a process of its own. An iteration is one of f2sa with one inner step and given steps,
ours and by hand in one run; the last columns are those of ``solve(time_limit=...)``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parent))

COLUMNS = {
    "model": "{}",
    "size": "{:,}",
    "nonzeros": "{:,}",
    "compile s": "{:.2f}",
    "s / iteration": "{:.2g}",
    "by hand": "{:.2g}",
    "ratio": "{:.2f}",
    "peak GiB": "{:.2f}",
    "status": "{}",
    "points tried": "{}",
    "value": "{:.4g}",
    "limit s": "{:.0f}",
    "used s": "{:.1f}",
}
SHARES = (0.25, 0.5, 1.0, 2.0)  # of the rows, for the growth of the cost of an iteration
GROWING = ("lasso, sparse features", "logistic regression, rows")
REPEATS = 3  # of a measurement, of which the shortest counts


def seconds(work: Any, least: float = 0.3) -> float:
    """Processor seconds for one of n iterations, with n large enough to be measured."""
    work(1)
    count = 1
    while True:
        began = time.process_time()
        work(count)
        used = time.process_time() - began
        if used >= least:
            return used / count
        count = max(2 * count, int(1.2 * least / max(used, 1e-6) * count))


def iterations(problem: Any) -> Any:
    """A function that does n iterations of f2sa in the compiled loop, without its set-up."""
    import numpy as np
    from blomodel.kernels.loops import alt_pbgd as kernel
    from large_data_models import GAMMA, STEP_X, STEP_Y

    from blomodel.methods.first_order import stages
    from blomodel.methods.run.registry import create_method
    from blomodel.methods.run.run import Run

    run = Run(model=problem.model, p=problem.parameter_values(), start=None, tolerance=1e-6, seed=0)
    settings = {"penalty": GAMMA, "step_x": STEP_X, "step_y": STEP_Y, "inner_steps": 1}
    found: list[Any] = []

    class Found(Exception):
        """Leaves the method with its loop."""

    def catch(run: Run, loop: Any, *, begin: Any, stages: Any, **_: Any) -> None:
        begin(stages[0], True)
        found.append(loop)
        run.diverged_at = 0  # so that no lower level is solved at the point that is left
        raise Found

    whole, stages.run_stages = stages.run_stages, catch
    try:
        create_method("f2sa", settings).run(run)
    except Found:
        pass
    finally:
        stages.run_stages = whole
    assert found and np.isfinite(kernel.N_SETTINGS)
    return found[0]


def measure(name: str, scale: float) -> dict[str, Any]:
    """All figures of one model."""
    from large_data_models import MODELS

    from blomodel.methods.run.registry import create_method

    make, size = MODELS[name]
    size = max(int(size * scale), 60)
    instance = make(size)
    problem = instance.problem
    create_method("f2sa", {})  # what is imported with the first method
    began = time.process_time()
    problem.model.compile_lower()
    compiled = time.process_time() - began
    ours, by_hand = seconds(iterations(problem)), seconds(instance.by_hand)
    own = make(size).problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        own.solve(time_limit=instance.limit)
        used = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row = [name, size, instance.nonzeros, compiled, ours, by_hand, ours / by_hand, peak]
    row += [str(own.status), own.solution.evaluations, own.value, instance.limit, used]
    return dict(zip(COLUMNS, row, strict=True))


def _lasso_with_rows(n: int, share: float) -> Any:
    from large_data_models import lasso

    return lasso(n, rows=int(share * n / 10))


def _logistic_with_rows(n: int, share: float) -> Any:
    from large_data_models import logistic

    return logistic(int(share * n))


def growth(name: str, scale: float) -> dict[str, Any]:
    """Seconds for an iteration with more and more rows, and the power with which they grow."""
    import numpy as np
    from large_data_models import MODELS

    make = _lasso_with_rows if name.startswith("lasso") else _logistic_with_rows
    size = MODELS[name][1]
    counts, ours, by_hand = [], [], []
    for share in SHARES:
        instance = make(max(int(size * scale), 60), share)
        loop = iterations(instance.problem)
        counts.append(instance.nonzeros)
        ours.append(min(seconds(loop, 0.15) for _ in range(REPEATS)))
        by_hand.append(min(seconds(instance.by_hand, 0.15) for _ in range(REPEATS)))
    powers = [float(np.polyfit(np.log(counts), np.log(used), 1)[0]) for used in (ours, by_hand)]
    return {"model": name, "nonzeros": counts, "seconds": ours, "power": powers[0], "by hand": powers[1]}


def growth_row(found: dict[str, Any]) -> str:
    """As a row of a table."""
    cells = [f"{n:,}: {s:.2g}" for n, s in zip(found["nonzeros"], found["seconds"], strict=True)]
    powers = [f"{found['power']:.2f}", f"{found['by hand']:.2f}"]
    return "| " + " | ".join([found["model"], *cells, *powers]) + " |"


def in_own_process(*arguments: str) -> Any:
    """What this script prints with these arguments, in its last line."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, and print the table."""
    from large_data_models import MODELS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the size")
    parser.add_argument("--growth", action="store_true", help="the cost of an iteration at four sizes")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps((growth if given.growth else measure)(given.one, given.scale)))
        return
    if given.growth:
        heads = ["model", *["nonzeros: s / iteration"] * len(SHARES), "power of the nonzeros", "by hand"]
        print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for name in GROWING:
            if given.only in name:
                found = in_own_process("--growth", "--one", name, "--scale", str(given.scale))
                print(growth_row(found), flush=True)
        return
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for name in MODELS:
        if given.only in name:
            row = in_own_process("--one", name, "--scale", str(given.scale))
            cells = (form.format(row[key]) for key, form in COLUMNS.items())
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
