"""Bilevel optimisation in cvxpy: state it, solve it without tuning, get a certified answer.

>>> import cvxpy as cp, blomodel as bm
>>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
>>> lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])
>>> problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + x), [0 <= x, x <= 3], lower)
>>> round(problem.solve(), 4)
0.75
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from blomodel import _source_tree as _source_tree  # makes the kernels importable from a source tree
from blomodel import methods
from blomodel.errors import BlomodelError
from blomodel.problem import BilevelProblem, Lower
from blomodel.solution import Solution
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.atoms import sigmoid
    from blomodel.certificate import Certificate, certify
    from blomodel.comparison import Comparison, compare

try:
    __version__ = _version("blomodel")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "BilevelProblem",
    "BlomodelError",
    "Certificate",
    "Comparison",
    "Lower",
    "Solution",
    "Status",
    "certify",
    "compare",
    "methods",
    "sigmoid",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that "import blomodel" stays quick.
    if name in ("certify", "Certificate"):
        import blomodel.certificate as module
    elif name in ("compare", "Comparison"):
        import blomodel.comparison as module  # type: ignore[no-redef]
    elif name == "diagnostics":
        return importlib.import_module("blomodel.diagnostics")
    elif name == "sigmoid":
        import blomodel.atoms as module  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module 'blomodel' has no attribute {name!r}")
    return getattr(module, name)
