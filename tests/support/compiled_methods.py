"""Which methods run compiled loops, read from the registry and what the methods declare."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from blomodel.methods.run.registry import method_classes

LOOPS = "blomodel.kernels.loops"


def compiled_methods(*, with_own_loop: bool = False) -> dict[str, Any]:
    """Classes by name whose file imports a compiled loop.

    Parameters
    ----------
    with_own_loop : bool
        Leave out those that run the loop of a method they derive from.
    """
    found = {name: cls for name, cls in method_classes().items() if _imports_a_loop(cls)}
    if with_own_loop:
        registered = set(found.values())
        found = {
            name: cls
            for name, cls in found.items()
            if "run" in vars(cls) or not registered.intersection(cls.__mro__[1:])
        }
    return found


def _imports_a_loop(cls: Any) -> bool:
    values = vars(sys.modules[cls.__module__]).values()
    homes = [v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", "") for v in values]
    return any(str(home).startswith(LOOPS) for home in homes)


def choices_of_settings(cls: Any) -> Iterator[dict[str, str]]:
    """No settings, then each word that a setting with choices allows, one at a time."""
    yield {}
    for field in dataclasses.fields(cls):
        for word in field.metadata.get("choices", ()):
            yield {field.name: word}
