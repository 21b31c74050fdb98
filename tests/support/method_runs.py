"""Runs of single methods, without certificate."""

from __future__ import annotations

import numpy as np

from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run


def run_method(problem, name="meha", start=None, max_iterations=None, **settings):
    """The run of a method without certification, which nonconvex lower levels make long."""
    run = Run(
        model=problem.model,
        p=problem.parameter_values(),
        start=start,
        tolerance=1e-6,
        seed=0,
        max_iterations=max_iterations,
    )
    create_method(name, settings).run(run)
    return run


def error(point, solution):
    """Distance of a point from the solution, relative to the solution's size."""
    return np.linalg.norm(point - solution) / np.linalg.norm(solution)
