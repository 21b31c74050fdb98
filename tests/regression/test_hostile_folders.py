"""A package that cannot be written to, and no home folder: kernels are compiled in memory, said once."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NOBODY = 65534
SCRIPT = """
import sys
sys.path.insert(0, {site!r})
import cvxpy as cp, blomodel as bm
assert bm.__file__.startswith({site!r})
x, y = cp.Variable(), cp.Variable()
lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)
print(problem.solve(), problem.status)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become nobody")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_a_read_only_package_and_no_home(tmp_path):
    site = tmp_path / "site"
    nothing = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "blomodel", site / "blomodel", ignore=nothing)
    shutil.copytree(ROOT / "kernels", site / "blomodel" / "kernels", ignore=nothing, dirs_exist_ok=True)
    for path in [site, *site.rglob("*")]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        if not folder.stat().st_mode & stat.S_IXOTH:
            if not folder.is_relative_to(tmp_path.parents[2]):
                pytest.skip("nobody cannot come here")
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    free = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG"))}
    drop = ["--inh-caps=-all", "--bounding-set=-all", "--clear-groups"]
    done = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", *drop, sys.executable, "-c"]
        + [SCRIPT.format(site=str(site))],
        env={**free, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    value, status = done.stdout.split()
    assert abs(float(value) - 1) < 1e-6 and status == "optimal"
    assert done.stderr.count("compiling numerical kernels, in memory") == 1
