"""Bilevel optimisation in cvxpy: state it, solve it without tuning, get a certified answer.

>>> import cvxpy as cp, blomodel as bm
>>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
>>> lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])
>>> problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + x), [0 <= x, x <= 3], lower)
>>> round(problem.solve(), 4)
0.75
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing
from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from blomodel import _source_tree as _source_tree  # makes the kernels importable from a source tree
from blomodel.errors import BlomodelError
from blomodel.status import Status

if _typing.TYPE_CHECKING:
    from blomodel import problems
    from blomodel.atoms import sigmoid
    from blomodel.certification.certificate import Certificate
    from blomodel.certification.certifying import certify
    from blomodel.comparison import Comparison, compare
    from blomodel.declare.data import data
    from blomodel.declare.nash import Nash
    from blomodel.experiments.benchmark import Benchmark, benchmark
    from blomodel.experiments.sweep import Sweep, sweep
    from blomodel.methods.run import schedules as schedules
    from blomodel.methods.run.registry import methods
    from blomodel.problem import BilevelProblem, Lower, read
    from blomodel.solution import Solution
    from blomodel.solve.saved import load_solution
    from blomodel.studies import diagnostics as diagnostics
else:
    from blomodel import methods  # a package that can be called

try:
    __version__ = _version("blomodel")
except _PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Benchmark",
    "BilevelProblem",
    "BlomodelError",
    "Certificate",
    "Comparison",
    "Lower",
    "Nash",
    "Solution",
    "Status",
    "Sweep",
    "benchmark",
    "certify",
    "compare",
    "data",
    "load_solution",
    "methods",
    "problems",
    "read",
    "sigmoid",
    "sweep",
]

# Loaded on first use: cvxpy takes a second or two, which "blomodel --version" can do without.
_HOMES = {
    "Benchmark": "experiments.benchmark",
    "BilevelProblem": "problem",
    "Certificate": "certification.certificate",
    "Comparison": "comparison",
    "Lower": "problem",
    "Nash": "declare.nash",
    "data": "declare.data",
    "Solution": "solution",
    "Sweep": "experiments.sweep",
    "benchmark": "experiments.benchmark",
    "certify": "certification.certifying",
    "compare": "comparison",
    "load_solution": "solve.saved",
    "read": "problem",
    "sigmoid": "atoms",
    "sweep": "experiments.sweep",
}

_PACKAGES = {
    "diagnostics": "studies.diagnostics",
    "problems": "problems",
    "schedules": "methods.run.schedules",
}


def __getattr__(name: str) -> _typing.Any:
    if name in _HOMES:
        return getattr(_importlib.import_module(f"blomodel.{_HOMES[name]}"), name)
    if name in _PACKAGES:
        return _importlib.import_module(f"blomodel.{_PACKAGES[name]}")
    raise AttributeError(f"module 'blomodel' has no attribute {name!r}")


def __dir__() -> list[str]:
    dunder = [name for name in globals() if name.startswith("__")]
    return sorted({*dunder, *__all__, *_PACKAGES, "errors"})
