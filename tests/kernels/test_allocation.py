"""No iteration of a compiled loop allocates: a hundred times the iterations, the same allocations."""

from __future__ import annotations

import sys

import cvxpy as cp
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import blomodel as bm
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run

CONSTRAINED = ("gam", "bic-gaffa", "lv-hba")
FREE = (
    *("meha", "alt-pbgd", "f2sa", "jnt-pbgd", "pbgd", "pbgd-free", "bome", "galet", "perturbed-gd"),
    *("implicit-cg", "implicit-neumann", "unrolled", "bda", "iaptt"),
)


def toy(is_constrained: bool) -> bm.BilevelProblem:
    """Smooth and strongly convex below, a box above."""
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    constraints = [y <= 0.7] if is_constrained else []
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(y - x)), constraints, variables=[y])
    upper = cp.sum_squares(y - 1) + 0.1 * cp.sum_squares(x)
    return bm.BilevelProblem(cp.Minimize(upper), [-1 <= x, x <= 2], lower)


QUICK = ("meha", "alt-pbgd", "gam")  # one of each kind of loop; the others take a minute together
SLOW = [name for name in (*FREE, *CONSTRAINED) if name not in QUICK]
REST = [pytest.param(name, marks=pytest.mark.slow) for name in SLOW]


@pytest.mark.parametrize("name", [*QUICK, *REST])
def test_iterations_do_not_allocate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = toy(name in CONSTRAINED)
    allocations: list[tuple[int, int]] = []

    def measured(run, loop, **_) -> float:
        """Takes the place of the driver: few iterations at once, then many."""
        loop(1)  # compiles
        counts, residual = [], 0.0
        for n in (2, 200):
            before = rtsys.get_allocation_stats().alloc
            residual = loop(n)
            counts.append(rtsys.get_allocation_stats().alloc - before)
        allocations.append((counts[0], counts[1]))
        return residual

    method = create_method(name, {})  # loads the modules of all methods
    for module in [m for key, m in sys.modules.items() if key.startswith("blomodel.methods.")]:
        if hasattr(module, "run_in_slices"):
            monkeypatch.setattr(module, "run_in_slices", measured)
    run = Run(
        model=problem.model, p=problem.parameter_values(), start=(np.zeros(3), np.zeros(3)),
        tolerance=1e-8, seed=0,
    )  # fmt: skip
    enabled = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        method.run(run)
    finally:
        if not enabled:
            _nrt_python.memsys_disable_stats()
    assert allocations  # the loop was run
    assert all(many == few for few, many in allocations), allocations
