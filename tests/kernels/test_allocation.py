"""No iteration of a compiled loop allocates: a hundred times the iterations, the same allocations."""

from __future__ import annotations

import sys

import cvxpy as cp
import numpy as np
import pytest
from compiled_methods import choices_of_settings, compiled_methods
from numba.core.runtime import _nrt_python, rtsys

import blomodel as bm
from blomodel.methods.run.capabilities import Capability
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run

METHODS = compiled_methods()
QUICK = ("meha", "alt-pbgd", "gam")  # one of each kind of loop; the others take a minute together


def toy(is_constrained: bool) -> bm.BilevelProblem:
    """Smooth and strongly convex below, a box above."""
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    constraints = [y <= 0.7] if is_constrained else []
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(y - x)), constraints, variables=[y])
    upper = cp.sum_squares(y - 1) + 0.1 * cp.sum_squares(x)
    return bm.BilevelProblem(cp.Minimize(upper), [-1 <= x, x <= 2], lower)


REST = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *REST])
def test_iterations_do_not_allocate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = toy(is_constrained=Capability.COUPLED_LOWER in METHODS[name].capabilities)
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

    for module in [m for key, m in sys.modules.items() if key.startswith("blomodel.methods.")]:
        if hasattr(module, "run_in_slices"):
            monkeypatch.setattr(module, "run_in_slices", measured)
    enabled = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        for settings in choices_of_settings(METHODS[name]):
            run = Run(
                model=problem.model, p=problem.parameter_values(), start=(np.zeros(3), np.zeros(3)),
                tolerance=1e-8, seed=0,
            )  # fmt: skip
            create_method(name, settings).run(run)
            if allocations:
                break
    finally:
        if not enabled:
            _nrt_python.memsys_disable_stats()
    assert allocations  # the loop was run, with some choice of the settings at least
    assert all(many == few for few, many in allocations), allocations
