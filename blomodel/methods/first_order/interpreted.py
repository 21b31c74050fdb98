"""Compiled loops run as plain Python, for sets that only a solver projects onto.

A compiled loop can call compiled projections only, and a set given by general rows has none: its
projection is a quadratic program, which a solver in Python answers. Rather than writing every loop a
second time, the Python function that Numba compiles is taken and run as it is, with other globals: the
name ``project`` stands for a function that asks the solver, and so does every kernel that projects
itself. Kernels that do not project stay compiled. The loop is then slower by the time of its solves,
which would cost most of it anyway, and it is certain to do the same steps.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from blomodel.compiler.passes.directions import Direction
from blomodel.kernels import moves
from blomodel.kernels.projection import build_set
from blomodel.kernels.projection import project as compiled_project
from blomodel.structure.sets import SimpleSet

BY_SOLVER = -1  # in the place of a set's kind: projected onto by a QP solver


def stand_in(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What loops carry around for a set without a formula: its number, where others have a kind."""
    return np.array([[BY_SOLVER, 0, 0, number]]), np.zeros(0), np.zeros(0)


def interpreted(loop: Any, sets: tuple[SimpleSet, SimpleSet]) -> Callable[..., float]:
    """The same loop in plain Python: only its projections differ, and any SimpleSet will do.

    The copy of a function shares its code and has its own globals, in which ``project``, ``descend``
    and all kernels that call one of them are exchanged; so those kernels are copied too, and theirs.
    """

    def project(spec: Any, point: np.ndarray) -> None:
        if len(spec[0]) and spec[0][0, 0] == BY_SOLVER:
            point[:] = sets[spec[0][0, 3]].project(point)
        else:
            compiled_project(spec, point)

    own = {compiled_project: project, moves.descend: partial(_descend, project)}

    def plain(function: Any) -> Callable[..., float]:
        names = dict(function.__globals__)
        for used in function.__code__.co_names:
            kernel: Any = names.get(used)
            if not hasattr(kernel, "py_func"):
                continue
            if kernel in own:
                names[used] = own[kernel]
            elif _calls(kernel.py_func, own):
                names[used] = plain(kernel.py_func)
        copy: Callable[..., float] = types.FunctionType(function.__code__, names, function.__name__)
        return copy

    return plain(loop.py_func)


def _calls(function: Any, wanted: Collection[Any]) -> bool:
    """Whether a kernel calls one of the wanted ones, itself or through a kernel that it calls."""
    used = [function.__globals__.get(name) for name in function.__code__.co_names]
    kernels = [kernel for kernel in used if hasattr(kernel, "py_func")]
    return any(kernel in wanted or _calls(kernel.py_func, wanted) for kernel in kernels)


def _descend(
    project: Callable[[Any, np.ndarray], None],
    direction: Direction,
    step: float,
    penalty: Any,
    amounts: np.ndarray,
    point_set: Any,
    steps: int,
    tolerance: float,
    before: np.ndarray,
) -> float:
    """The descent of kernels/moves.py with any projection."""
    layout = direction[3]
    point = direction[2][layout[moves.POINT] :][: layout[moves.OUTPUT_SIZE]]
    moved = 0.0
    for _ in range(steps):
        start = point.copy()
        moves.descend(direction, step, penalty, amounts, build_set(()), 1, 0.0, before)
        project(point_set, point)
        moved = float(np.abs(point - start).max()) / step
        if tolerance > 0.0 and not moved > tolerance:
            break
    return moved
