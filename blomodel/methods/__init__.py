"""Algorithms over compiled functions, one file each.

The package can be called: ``bm.methods()`` describes every method that ``solve(method=...)`` takes.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blomodel.methods.registry import MethodList


class _CallablePackage(ModuleType):
    """Lets the package's name, which users meet as ``bm.methods``, also be the public function."""

    def __call__(self) -> MethodList:
        """Describe every method that ``solve(method=...)`` accepts."""
        import blomodel.solving  # noqa: F401 - registers them
        from blomodel.methods.registry import methods

        return methods()


sys.modules[__name__].__class__ = _CallablePackage
