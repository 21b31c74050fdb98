"""Kernels that compiled code calls by their address.

Numba compiles a kernel anew into each function that calls it, and again into each function around that
one. A linked kernel is compiled once, however many loops call it. Its arguments are plain numbers: an
array goes in as the address of its first entry, which also saves counting references.

The address is read from a cell that all callers know by name, as programs call shared libraries. The
cell first holds a stub, which compiles the kernel or loads it from the cache when it is first needed.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .jit import compiled

_C_TYPES = {
    types.int64: ctypes.c_int64,
    types.uint64: ctypes.c_uint64,
    types.float64: ctypes.c_double,
}


ATTEMPTS = 3  # at binding a kernel, when exceptions come from outside meanwhile
BETWEEN_LOOKS = 0.005  # seconds, at a thread that compiled code has called back

_kept: dict[int, Any] = {}  # by thread, a lock that is free when its exception was raised


def _bind_and_call(bind: Callable[[], Any], values: tuple[Any, ...]) -> int:
    """What the stub does. Compiled callers know no exceptions: one that comes here is raised later.

    The kernel itself runs once in any case, since its caller goes on with what it gives.
    """
    run, status, kept = None, 0, None
    for _ in range(ATTEMPTS):
        try:
            run = bind()
            break
        except BaseException as error:  # noqa: BLE001 - an alarm, Ctrl-C or a failed compilation
            kept = type(error)
    try:
        if run is not None:
            status = int(run(*values))
    except BaseException as error:  # noqa: BLE001 - which came when the kernel had run
        kept = type(error)
    if kept is not None:
        _raise_later(kept)
    return status


def _raise_later(kept: type[BaseException]) -> None:
    """Raise an exception in this thread as soon as the compiled code that called back has returned."""
    thread, is_raised = _thread.get_ident(), _thread.allocate_lock()
    is_raised.acquire()
    _kept[thread] = is_raised

    def wait() -> None:
        try:
            while _is_called_back(sys._current_frames().get(thread)):
                time.sleep(BETWEEN_LOOKS)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kept))
        finally:
            is_raised.release()

    _thread.start_new_thread(wait, ())


def _is_called_back(frame: Any) -> bool:
    """Whether a thread is still in the stub; compiled code does not let go of Python."""
    while frame is not None:
        if frame.f_code is _bind_and_call.__code__:
            return True
        frame = frame.f_back
    return False


def raise_kept() -> None:
    """Have an exception that was kept for this thread raised by now, and not later."""
    is_raised = _kept.pop(_thread.get_ident(), None)
    if is_raised is not None:
        with is_raised:
            pass


def linked(result: Any, *arguments: Any) -> Callable[[Callable], Any]:
    """Make a function of int64 and float64 arguments one that compiled code calls by address."""

    def decorate(function: Callable) -> Any:
        if config.DISABLE_JIT:
            return function
        body = compiled(function)
        name = f"blomodel.linked.{function.__module__}.{function.__name__}"
        # Numba's own convention: places for the result and for an exception come first, and a status
        # is returned, which says nothing here because kernels do not raise.
        places = (ctypes.c_void_p, ctypes.c_void_p)
        kinds = (_C_TYPES[kind] for kind in arguments)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *places, *kinds)
        cell = ctypes.c_void_p()

        def bind() -> Any:
            body.compile(result(*arguments))
            found = body.overloads[arguments]
            cell.value = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
            return prototype(cell.value)

        stub = prototype(lambda *values: _bind_and_call(bind, values))
        cell.value = ctypes.cast(stub, ctypes.c_void_p).value
        llvmlite.binding.add_symbol(name, ctypes.addressof(cell))
        call = _caller(name, result, arguments)
        call.kept_alive = (cell, stub)
        return call

    return decorate


def _caller(name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
    """What compiled code sees: a call of the address in the named cell."""

    @intrinsic
    def call(typingctx: Any, *given: Any) -> Any:
        packed = types.StarArgTuple(given)
        if len(given) != len(arguments):
            raise TypingError(f"{name} takes {len(arguments)} arguments, not {len(given)}")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [
                context.cast(builder, builder.extract_value(args[0], i), have, want)
                for i, (have, want) in enumerate(zip(given, arguments, strict=True))
            ]
            kinds = [context.get_value_type(kind) for kind in arguments]
            answer = cgutils.alloca_once(builder, context.get_value_type(result))
            error = cgutils.alloca_once(builder, cgutils.voidptr_t)
            function = ir.FunctionType(ir.IntType(32), [answer.type, error.type, *kinds])
            module = builder.module
            cell = module.globals.get(name)
            if cell is None:
                cell = cgutils.add_global_variable(module, ir.IntType(64), name)
            target = builder.inttoptr(builder.load(cell), function.as_pointer())
            builder.call(target, [answer, error, *values])
            return builder.load(answer)

        return result(packed), codegen

    return call


@intrinsic
def _address(typingctx, array):
    if not isinstance(array, types.Array) or array.layout != "C":
        raise TypingError(f"only contiguous arrays have an address here, not {array}")

    def codegen(context, builder, signature, args):
        data = context.make_array(array)(context, builder, args[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.int64))

    return types.int64(array), codegen


def _pointer(kind):
    if config.DISABLE_JIT:
        return lambda at: ctypes.cast(at, ctypes.POINTER(_C_TYPES[kind]))

    @intrinsic
    def pointer(typingctx, at):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(types.int64), codegen

    return pointer


# Where the entries of a contiguous array begin.
address = (lambda array: array.ctypes.data) if config.DISABLE_JIT else _address
# An address as a pointer, for numba.carray.
doubles, signed, unsigned = _pointer(types.float64), _pointer(types.int64), _pointer(types.uint64)
ENDLESS = 2**50  # entries; a linked kernel does not know how long an array is
