"""The one place that compiles: flags, the cache on disk, and word when a compilation starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

# Raise this when kernels change in a way that file dates do not show, such as a new flag below.
KERNEL_VERSION = "1"

_FLAGS: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": False,
    "no_cfunc_wrapper": True,  # nobody calls kernels from C
}


_kept_in_memory: list[str] = []  # kernels for which no folder can be written
_READ_BY = ("_load_overload", "_guard_against_spurious_io_errors")  # parts of Numba's cache


class _Cache(FunctionCache):
    """Numba's cache on disk, read without what only a compilation needs.

    Numba makes all that it knows of Python and NumPy ready before it looks whether the code is there,
    which takes half a second in a new process. Compiled code needs the runtime alone, and a compilation
    makes the rest ready by itself.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for a signature; None where it has to be compiled."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
        return None  # of a file that another process holds


def _kept(kernel: Any) -> Any:
    """Keep the machine code on disk where a folder for it can be written, else in memory."""
    if not numba.config.DISABLE_JIT:
        try:
            if all(hasattr(FunctionCache, name) for name in _READ_BY):
                kernel._cache = _Cache(kernel.py_func)
            else:
                kernel.enable_caching()
        except RuntimeError:  # neither beside the source nor in the home folder
            _kept_in_memory.append(kernel.py_func.__name__)
    return kernel


def is_kept_on_disk() -> bool:
    """Whether machine code is there again at the next start; set NUMBA_CACHE_DIR where it is not."""
    return not _kept_in_memory


def compiled(function: Callable) -> Any:
    """Compile on first call, keep the machine code on disk; a division by zero gives infinity."""
    return _kept(numba.njit(**_FLAGS)(function))


def unlocked(function: Callable) -> Any:
    """The same, called without Python's lock, so that several threads run at once."""
    return _kept(numba.njit(nogil=True, **_FLAGS)(function))


def helper(function: Callable) -> Any:
    """Compile for other kernels only: no entry from Python, no file of its own."""
    return numba.njit(no_cpython_wrapper=True, **_FLAGS)(function)


def inlined(function: Callable) -> Any:
    """Make it a part of its caller: saves a call, but takes long to compile where there are many."""
    return _kept(numba.njit(inline="always", **_FLAGS)(function))


def _discard_stale_cache() -> None:
    """Drop all cached kernels when a file of shared kernels has changed.

    Numba looks only at the file of the function it loads: a loop compiled around a kernel of
    another file would keep the old kernel.
    """
    folder = Path(__file__).parent
    dates = sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*.py"))
    stamp = f"{KERNEL_VERSION} {numba.__version__} {dates}"
    record = folder / "__pycache__" / "kernels.stamp"
    try:
        if record.exists() and record.read_text() == stamp:
            return
        for cached in [*folder.glob("**/__pycache__/*.nb[ic]")]:
            cached.unlink(missing_ok=True)
        record.parent.mkdir(exist_ok=True)
        record.write_text(stamp)
    except OSError:
        # An installation that cannot be written to cannot have been edited either.
        return


class _Listener(event.Listener):
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if self.callback is not None and module.startswith(__package__):
            callback, self.callback = self.callback, None
            callback()

    def on_end(self, event: Any) -> None:
        pass


def announce_compilation(callback: Callable[[], None]) -> None:
    """Call back, once, before the first kernel that is not in the cache on disk is compiled."""
    event.register("numba:compile", _Listener(callback))


class _Surroundings(event.Listener):
    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self.begin, self.end = begin, end

    def on_start(self, event: Any) -> None:
        self.begin()

    def on_end(self, event: Any) -> None:
        self.end()


def surround_compilations(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Call back before and after every compilation, and whenever code comes from the cache on disk."""
    event.register("numba:compiler_lock", _Surroundings(begin, end))


_discard_stale_cache()
