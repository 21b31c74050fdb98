"""First- and second-order oracles of a model, as tapes that compiled loops can run."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from blomodel.compiler.large_constants import attached
from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.tape import Tape
from blomodel.model.model import Model

LoopTape = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def loop_tape(tape: Tape, p: np.ndarray) -> LoopTape:
    """A tape as compiled loops take it, with a workspace of its own and the parameters put in."""
    m = tape.machinery
    workspace = m.workspace.copy()
    layout = [m.start, len(m.code), m.output, tape.n_outputs]
    for name, offset, size in zip(tape.input_names, m.inputs, tape.input_sizes, strict=True):
        layout += [offset, size]
        if name == "p":
            workspace[offset : offset + size] = p
    layout += [m.prefix, 0]  # and how often the tape has been run
    code, integers = attached(*m.portable, workspace, m.kept)
    return code, integers, workspace, np.array(layout, dtype=np.int64)


class Oracle:
    """The derivative tapes of f and of the smooth part of g, ready for loops.

    Parameters
    ----------
    model : Model
    p : array
        Values of the parameters.
    smooth_g : Tape, optional
        g without the part that a prox handles; g itself by default.
    """

    model: Model
    p: np.ndarray
    g_tape: Tape
    n_x: int
    n_y: int

    def __init__(self, model: Model, p: np.ndarray, smooth_g: Tape | None = None) -> None:
        self.model, self.p = model, p
        self.g_tape = model.g if smooth_g is None else smooth_g
        self.n_x, self.n_y = model.x.size, model.y.size
        self._derivatives: list[LoopTape] = []

    def derivative(self, tape: Tape) -> LoopTape:
        """A derivative as loops take it, whose runs are counted."""
        self._derivatives.append(loop_tape(tape, self.p))
        return self._derivatives[-1]

    @property
    def n_evaluations(self) -> int:
        """How often loops have run the derivatives: gradients and Hessians times vectors."""
        return sum(int(layout[-1]) for *_, layout in self._derivatives)

    @cached_property
    def f(self) -> LoopTape:
        """f(x, y)."""
        return loop_tape(self.model.f, self.p)

    @cached_property
    def f_grad_x(self) -> LoopTape:
        """Gradient of f in x."""
        return self.derivative(gradient(self.model.f, ("x",)))

    @cached_property
    def f_grad_y(self) -> LoopTape:
        """Gradient of f in y."""
        return self.derivative(gradient(self.model.f, ("y",)))

    @cached_property
    def g(self) -> LoopTape:
        """The smooth part of g."""
        return loop_tape(self.g_tape, self.p)

    @cached_property
    def g_grad_x(self) -> LoopTape:
        """Gradient of g in x."""
        return self.derivative(gradient(self.g_tape, ("x",)))

    @cached_property
    def g_grad_y(self) -> LoopTape:
        """Gradient of g in y."""
        return self.derivative(gradient(self.g_tape, ("y",)))

    @cached_property
    def g_hessian_y(self) -> LoopTape:
        """Second derivative of g in (y, y) times a direction in y (the last input)."""
        return self.derivative(jvp(gradient(self.g_tape, ("y",)), ("y",)))

    @cached_property
    def g_cross(self) -> LoopTape:
        """Second derivative of g in (x, y) times a direction in y (the last input)."""
        return self.derivative(jvp(gradient(self.g_tape, ("x",)), ("y",)))
