"""Speed-up of independent pieces on several processes: ``python tests/benchmarks/parallel.py``.

Eight searches from eight starts on one process, then on two, each pair of runs in turn. The processes
are warm: they have been started and have loaded what is compiled. Where other programs use the machine,
the ratio of times says little; so the share of the processor that was really had is printed beside it,
and the ratio that follows from the work itself: the sum of all pieces' processor time over that of the
busier process, which is what an idle machine would show at best.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import cvxpy as cp  # noqa: E402
import numpy as np  # noqa: E402

import blomodel as bm  # noqa: E402

STARTS = 8


def stated(size: int, seed: int) -> bm.BilevelProblem:
    """A wavy upper objective over a quadratic lower level."""
    random = np.random.default_rng(0)
    x, y = cp.Variable(size, name="x"), cp.Variable(size, name="y")
    A = random.normal(size=(size, size)) / np.sqrt(size)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ x)), [y >= -1, cp.sum(y) <= 1], variables=[y])
    wave = cp.sum(cp.nlp.sin(3 * x)) + cp.sum_squares(y - random.normal(size=size))
    problem = bm.BilevelProblem(cp.Minimize(wave), [x >= -2, x <= 2], lower)
    start = np.random.default_rng(seed).uniform(-2, 2, size)
    x.value = start
    return problem


def search(task: tuple[int, int, int]) -> tuple[float, float, int]:
    """One start: value, seconds of the processor, and who did it."""
    size, seed, steps = task
    before = time.process_time()
    problem = stated(size, seed)
    value = problem.solve("reduced-penalty", max_iterations=steps)
    return float(value), time.process_time() - before, os.getpid()


def measure(size: int = 80, steps: int = 2000, rounds: int = 2, n_jobs: int = 2) -> dict[str, Any]:
    """Times of both, and whether the values are the same."""
    from blomodel.methods.run.parallel import call_each

    tasks = [(size, seed, steps) for seed in range(STARTS)]
    call_each(search, [(4, 0, 5)] * (2 * n_jobs), n_jobs)  # starts the processes
    search((4, 0, 5))
    times: dict[int, list[float]] = {1: [], n_jobs: []}
    had: dict[int, list[float]] = {1: [], n_jobs: []}
    possible = []
    values: dict[int, list[float]] = {}
    for _ in range(rounds):
        for jobs in (1, n_jobs):
            began = time.perf_counter()
            found = call_each(search, tasks, jobs)
            times[jobs].append(time.perf_counter() - began)
            values[jobs] = [value for value, _, _ in found]
            work = sum(seconds for _, seconds, _ in found)
            had[jobs].append(work / times[jobs][-1] / jobs)
            if jobs > 1:
                by_process: dict[int, float] = {}
                for _, seconds, who in found:
                    by_process[who] = by_process.get(who, 0.0) + seconds
                busiest = max(by_process.values())
                possible.append(work / busiest)
    return {
        "starts": STARTS,
        "processes": n_jobs,
        "seconds on one": round(min(times[1]), 2),
        f"seconds on {n_jobs}": round(min(times[n_jobs]), 2),
        "speed-up": round(min(times[1]) / min(times[n_jobs]), 2),
        "speed-up by processor time": round(float(np.median(possible)), 2),
        "share of the processor that was had": [round(max(had[1]), 2), round(max(had[n_jobs]), 2)],
        "largest difference of values": float(np.abs(np.subtract(values[1], values[n_jobs])).max()),
        "load": [round(part, 1) for part in os.getloadavg()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=80)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    print(json.dumps(measure(given.size, given.steps, given.rounds, given.jobs), indent=1))


if __name__ == "__main__":
    main()
