"""Algorithms over compiled functions, one file each.

The package can be called: ``bm.methods()`` describes every method that ``solve(method=...)`` takes, and
``bm.methods("blocc")`` one of them.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blomodel.methods.run.registry import MethodInfo, MethodList


class _CallablePackage(ModuleType):
    """Lets the package's name, which users meet as ``bm.methods``, also be the public function."""

    def __call__(self, name: str | None = None) -> MethodList | MethodInfo:
        """Describe every method that ``solve(method=...)`` accepts, or the one of this name."""
        from blomodel.methods.run.registry import methods

        return methods(name)


sys.modules[__name__].__class__ = _CallablePackage
