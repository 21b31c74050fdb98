"""Algorithms over compiled functions, one file each.

The package can be called: ``bm.methods()`` describes every method that ``solve(method=...)`` takes.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blomodel.methods.run.registry import MethodList


class _CallablePackage(ModuleType):
    """Lets the package's name, which users meet as ``bm.methods``, also be the public function."""

    def __call__(self) -> MethodList:
        """Describe every method that ``solve(method=...)`` accepts."""
        from blomodel.methods.run.registry import methods

        return methods()


sys.modules[__name__].__class__ = _CallablePackage
