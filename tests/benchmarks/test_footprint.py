"""What a fresh process pays: start-up time after the kernels are cached, and memory at 2,000 variables.

Run alone:  pytest -m benchmark -s tests/benchmarks
"""

import json
import subprocess
import sys

import pytest

FIRST_SOLVE = """
import json, time
began = time.perf_counter()
import cvxpy as cp
imported = time.perf_counter()
import blomodel as bm
x, y = cp.Variable(name="x"), cp.Variable(name="y")
lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])
problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + x), [0 <= x, x <= 3], lower)
problem.solve()
print(json.dumps([imported - began, time.perf_counter() - imported, str(problem.status)]))
"""

LARGE_SPARSE = """
import json, resource, time
import cvxpy as cp
import numpy as np
import scipy.sparse as sp
import blomodel as bm

n, draw = 2000, np.random.default_rng(0)
A = sp.random_array((n, n), density=5 / n, rng=draw, format="csr") + sp.eye_array(n)
B = sp.random_array((n, n), density=3 / n, rng=draw, format="csr")
root = sp.random_array((n, n), density=2 / n, rng=draw, format="csr")
Q = root @ root.T + sp.eye_array(n)
x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
lower = bm.Lower(
    cp.Minimize(cp.quad_form(y, cp.psd_wrap(Q)) / 2 - x @ y), [A @ y <= 1 + B @ x], variables=[y]
)
target_x, target_y = draw.standard_normal(n), draw.standard_normal(n)
upper = cp.Minimize(cp.sum_squares(x - target_x) + cp.sum_squares(y - target_y))
problem = bm.BilevelProblem(upper, [x >= -1, x <= 1], lower)
began = time.perf_counter()
problem.model.lower_program
compiled = time.perf_counter() - began
gib = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
after_compiling = gib()
problem.solve()
print(json.dumps([compiled, after_compiling, time.perf_counter() - began, gib(), str(problem.status),
                  problem.certificate.lower_gap]))
"""


def fill_cache():
    subprocess.run([sys.executable, "-c", FIRST_SOLVE], check=True, capture_output=True)


def run(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "compiling" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.benchmark
def test_a_later_process_starts_quickly():
    fill_cache()
    runs = [run(FIRST_SOLVE) for _ in range(3)]
    cvxpy_alone, extra, status = min(runs, key=lambda r: r[1])
    print(f"\nimport cvxpy {cvxpy_alone:.2f} s; import blomodel and first solve {extra:.2f} s more")
    assert status == "optimal"
    assert extra <= 1.0


@pytest.mark.benchmark
def test_memory_of_a_large_sparse_lower_level():
    fill_cache()
    compiled, gib_compiled, total, gib_solved, status, gap = run(LARGE_SPARSE)
    print(
        f"\n2,000 variables and coupled rows: compiled in {compiled:.1f} s at {gib_compiled:.2f} GiB, "
        f"solved in {total:.0f} s at {gib_solved:.2f} GiB: {status}, lower gap {gap:.1e}"
    )
    assert gib_compiled < 1.5
    assert gap <= 1e-6
