"""Long instructions, divided among threads: what compiled code asks of Python, and how it is answered.

The machine marks nothing by itself: an instruction that is worth dividing carries ``machine.DIVISIBLE``
in its code. When it comes to such a one, and a division is on, it asks the function that was set by
``answer_with``, which has the parts done by several threads; each part is a short list of ordinary
instructions. Where the answer is no, the machine does the instruction itself.
"""

from __future__ import annotations

import _thread
import ctypes
import os
from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

Question = Callable[[int, int, int, int], bool]  # addresses of code, integers, workspace; the position

_STATE, _CELL = "blomodel.division.state", "blomodel.division.answer"
_state = ctypes.c_int64(0)  # how many threads have a division on; with none, nothing is asked
_answers: list[Question] = []
_lock = _thread.allocate_lock()


def _asked(code_at: int, integers_at: int, w_at: int, position: int) -> int:
    return int(bool(_answers) and _answers[0](code_at, integers_at, w_at, position))


_prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 4)
_stub = _prototype(_asked)  # an exception in it is a no
_cell = ctypes.c_int64(ctypes.cast(_stub, ctypes.c_void_p).value or 0)
llvmlite.binding.add_symbol(_STATE, ctypes.addressof(_state))
llvmlite.binding.add_symbol(_CELL, ctypes.addressof(_cell))


def answer_with(function: Question) -> None:
    """Set who answers, for all threads."""
    _answers[:] = [function]


def switch(by: int) -> None:
    """One more thread (1) has a division on, or one less (-1)."""
    with _lock:
        _state.value += by


def _begin_anew() -> None:
    """In a process that was forked, no other thread is at work."""
    global _lock
    _lock, _state.value = _thread.allocate_lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _loaded(builder: Any, name: str) -> Any:
    cell = builder.module.globals.get(name)
    if cell is None:
        cell = cgutils.add_global_variable(builder.module, ir.IntType(64), name)
    return builder.load(cell)


@intrinsic
def _is_on(typingctx):
    def codegen(context, builder, signature, args):
        return _loaded(builder, _STATE)

    return types.int64(), codegen


@intrinsic
def _is_done(typingctx, code_at, integers_at, w_at, position):
    def codegen(context, builder, signature, args):
        values = [
            context.cast(builder, value, kind, types.int64)
            for value, kind in zip(args, signature.args, strict=True)
        ]
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * 4).as_pointer()
        return builder.call(builder.inttoptr(_loaded(builder, _CELL), kind), values)

    return types.int64(code_at, integers_at, w_at, position), codegen


# Whether anybody wants instructions to be divided, and whether this one has been done so (1 or 0).
is_on = (lambda: 0) if config.DISABLE_JIT else _is_on
is_done_in_parts = (lambda *_: 0) if config.DISABLE_JIT else _is_done
