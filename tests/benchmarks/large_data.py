"""Large data: compile time, seconds for an iteration beside one by hand, memory, the time limit kept.

    python tests/benchmarks/large_data.py                    # the four models, some minutes
    python tests/benchmarks/large_data.py --only lasso --scale 0.1
    python tests/benchmarks/large_data.py --growth           # an iteration at four sizes, in three ways

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
SHARES = (0.25, 0.5, 1.0, 2.0)  # of the data, for the growth of the cost of an iteration
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


def _lasso_with_rows(scale: float, share: float) -> Any:
    """More rows of the same features."""
    from large_data_models import lasso

    n = max(int(100_000 * scale), 60)
    return lasso(n, rows=int(share * n / 10))


def _lasso_with_features(scale: float, share: float) -> Any:
    """More rows and more features, of which each row has a hundred."""
    from large_data_models import lasso

    return lasso(max(int(100_000 * scale * share), 120))


def _logistic_with_rows(scale: float, share: float) -> Any:
    """More rows of the same features."""
    from large_data_models import logistic

    return logistic(max(int(500_000 * scale * share), 60))


GROWING = {
    "lasso, rows": _lasso_with_rows,
    "lasso, rows and features": _lasso_with_features,
    "logistic regression, rows": _logistic_with_rows,
}


def growth(name: str, scale: float) -> dict[str, Any]:
    """Seconds for an iteration with more and more data, and the power with which they grow.

    The same powers of iterations by hand, and of their products with the data alone, tell what is due to
    the memory: data that no longer fit into a cache take longer for each number.
    """
    import numpy as np

    counts, used = [], []
    for share in SHARES:
        instance = GROWING[name](scale, share)
        loop = iterations(instance.problem)
        counts.append(instance.nonzeros)
        work = (loop, instance.by_hand, instance.products)
        used.append([min(seconds(each, 0.15) for _ in range(REPEATS)) for each in work])
    times = np.array(used)
    powers = np.polyfit(np.log(counts), np.log(times), 1)[0]
    return {
        "model": name,
        "nonzeros": counts,
        "seconds": times[:, 0].tolist(),
        "ratios": (times[:, 0] / times[:, 1]).tolist(),
        "powers": powers.tolist(),
    }


def growth_row(found: dict[str, Any]) -> str:
    """As a row of a table."""
    measured = zip(found["nonzeros"], found["seconds"], found["ratios"], strict=True)
    cells = [f"{n:,}: {s:.2g} ({ratio:.2f})" for n, s, ratio in measured]
    return "| " + " | ".join([found["model"], *cells, *map("{:.2f}".format, found["powers"])]) + " |"


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
        heads = ["model", *["nonzeros: s / iteration (ratio to one by hand)"] * len(SHARES)]
        heads += ["power of the nonzeros", "by hand", "products alone, by hand"]
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
