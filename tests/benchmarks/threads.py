"""Gradients of three models with one and with two threads, in one run, the best of many calls.

    python tests/benchmarks/threads.py            # about a minute and a half; cores should be free

The first ratio is that of the time that passes. The second is that of the processor time of the thread
that asks, which other programs on the machine disturb less: more than that cannot be gained. All calls
with one number of threads must give the same bits.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.team import team_of

SECONDS = 25.0  # for each model


def measure(name: str, expression: cp.Expression, variable: cp.Variable, threads: int) -> None:
    """Print both ratios; an error if two calls with one number of threads differ."""
    tape = gradient(lower([expression], [Block("y", (variable,))]), "y")
    at = np.random.default_rng(1).standard_normal(variable.size)
    results: dict[int, bytes] = {}
    best = {1: [np.inf, np.inf], threads: [np.inf, np.inf]}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for count, found in best.items():
            with team_of(count):
                results.setdefault(count, tape(at).tobytes())  # helpers are started
                for _ in range(4):
                    began = time.perf_counter(), time.thread_time()
                    slope = tape(at)
                    found[0] = min(found[0], time.perf_counter() - began[0])
                    found[1] = min(found[1], time.thread_time() - began[1])
                    if slope.tobytes() != results[count]:
                        sys.exit(f"{name}: two calls with {count} threads differ")
    passed, used = (best[1][k] / best[threads][k] for k in range(2))
    print(f"{name}: {1e3 * best[1][0]:.1f} ms with one thread; {passed:.2f}, {used:.2f}", flush=True)


def main() -> None:
    """Measure three models."""
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    random = np.random.default_rng(0)
    A, y = random.standard_normal((500_000, 20)), cp.Variable(20)
    measure("logistic regression", cp.sum(cp.logistic(-(A @ y))) / len(A), y, threads)
    S = sp.random_array((10_000, 100_000), density=1e-3, format="csr", rng=random)
    z = cp.Variable(100_000)
    measure("sparse least squares", cp.sum_squares(S @ z - 1), z, threads)
    B, Y = random.standard_normal((20_000, 784)), cp.Variable((784, 10))
    measure("softmax", cp.sum(cp.log_sum_exp(B @ Y, axis=1)), Y, threads)


if __name__ == "__main__":
    main()
