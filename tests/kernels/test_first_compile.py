"""What the first run on a machine costs: compiling all that one method needs, into an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiled_methods import compiled_methods

from blomodel.methods.run.capabilities import Assumption, Capability

SCRIPT = """
import sys, time
import cvxpy as cp
import blomodel as bm
method, kind = sys.argv[1:]
x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
g = 0.5 * cp.sum_squares(y - x) + (0.1 * cp.norm1(y) if kind == "nonsmooth" else 0)
lower = bm.Lower(cp.Minimize(g), [y <= x + 1] if kind == "constrained" else [], variables=[y])
upper = cp.Minimize(cp.sum_squares(y - 1) + cp.sum_squares(x))
problem = bm.BilevelProblem(upper, [x >= -1, x <= 1], lower)
began = time.process_time()
problem.solve(method=method)
print(time.process_time() - began)
"""
METHODS = compiled_methods(with_own_loop=True)
MOST = 20.0  # seconds of processor time


def seconds_of_a_solve(method: str, kind: str, cache: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, method, kind], env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def hardest_kind(method: str) -> str:
    """The kind of problem that asks most of what a method was made for."""
    taken, assumed = METHODS[method].capabilities, METHODS[method].assumptions
    if Capability.PROX_TERMS in taken and Assumption.SMOOTH_LOWER not in assumed:
        return "nonsmooth"
    return "constrained" if Capability.COUPLED_LOWER in taken else "smooth"


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_first_compile_is_short_and_happens_once(method: str, tmp_path: Path) -> None:
    kind = hardest_kind(method)
    first, second = (seconds_of_a_solve(method, kind, tmp_path) for _ in range(2))
    print(f"{method}: {first:.1f} s with an empty cache, {second:.1f} s later")
    assert first - second <= MOST
    assert second <= 0.2 * first  # nothing is compiled again
