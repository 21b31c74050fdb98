"""Linear algebra on one thread: the matrices here are small, and waking threads costs more."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    # Looking up the loaded libraries takes milliseconds, so it is done once.
    import scipy.linalg  # noqa: F401 - loads the last of the BLAS libraries
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses a single thread."""
    return _controller().limit(limits=1, user_api="blas")
