"""Python's collector of unused objects, while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def resting_collector() -> Iterator[None]:
    """Do not look for unused objects inside, as while modules are imported or a model is compiled.

    What is made there stays, but a number of new objects is what starts the collector, and it then looks
    at all that cvxpy and SciPy have made before: a tenth of a second each time.
    """
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            gc.enable()
