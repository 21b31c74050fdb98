r"""The lower level's KKT conditions with relaxed complementarity, as one smooth nonlinear program.

.. math:: \min_{x,y,\lambda,\mu,s} f(x,y) \quad \text{s.t.} \quad
          \nabla_y g + \lambda\cdot\nabla_y c + \mu\cdot\nabla_y h = 0, \quad
          c(x,y) + s = 0, \quad h(x,y) = 0, \quad \lambda, s \ge 0, \quad \lambda_i s_i \le t,

and the upper constraints (Scholtes' relaxation). Its functions are the model's own tapes, put together
in one, so that no cvxpy problem is built and the derivatives are exact and sparse. Rows that are bounds
on a single variable become bounds of the program, and need no slack of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.inlining import inline
from blomodel.kernels import machine as op
from blomodel.model.bounds import SingleBounds, single_bounds
from blomodel.model.model import Model
from blomodel.model.rows import Rows
from blomodel.solvers.direct import UNKNOWNS, End, TapeProgram

Array = np.ndarray


class RelaxedKKT:
    """The program of a model, and how its points are read.

    Parameters
    ----------
    model : Model
        Without matrix inequalities in either level.
    p : array
        Values of the parameters.

    Raises
    ------
    TooLargeError
        Where the derivatives would not fit into memory.
    """

    model: Model
    p: Array
    n_multipliers: int
    pairs: Array
    partners: Array
    is_bound: Array
    slack_rows: np.ndarray
    n_slacks: int
    n_plain_rows: int
    program: TapeProgram

    def __init__(self, model: Model, p: Array) -> None:
        self.model, self.p = model, p
        conditions = model.conditions
        n_x, n_y = model.x.size, model.y.size
        self.n_multipliers = conditions.n_multipliers
        self.pairs, self.partners = conditions.rows, conditions.columns
        upper = _Simple.of(model, model.upper_in, p)
        lower = _Simple.of(model, model.lower_in, p)
        self.is_bound = lower.is_bound
        self._bound_columns, self._bound_limits = lower.by_row()
        is_paired = np.zeros(len(model.lower_in), dtype=bool)
        is_paired[self.pairs] = True
        self.slack_rows = np.flatnonzero(is_paired & ~lower.is_bound)
        self.n_slacks = len(self.slack_rows)
        n = conditions.n_unknowns + self.n_slacks
        self.size = n
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        for simple in (upper, lower):
            simple.tighten(low, high)
        low[self.partners] = np.maximum(low[self.partners], 0.0)
        low[conditions.n_unknowns :] = 0.0
        fixed = low > high  # rows that contradict each other by a rounding error
        low[fixed] = high[fixed] = (low[fixed] + high[fixed]) / 2

        b = TapeBuilder((UNKNOWNS, "p"), (n, p.size))
        z = b.input(UNKNOWNS)
        x, y = b.gather(z, np.arange(n_x)), b.gather(z, n_x + np.arange(n_y))
        point = {"x": x, "y": y, "p": b.input("p")}
        weights = b.gather(z, n_x + n_y + np.arange(self.n_multipliers))
        slack = b.gather(z, conditions.n_unknowns + np.arange(self.n_slacks))
        parts = [inline(b, model.f, point)]
        lows, highs = [], []

        def add(node: int, least: float, most: float) -> None:
            parts.append(node)
            lows.append(np.full(b.size(node), least))
            highs.append(np.full(b.size(node), most))

        if model.upper_in.tape is not None:
            values = inline(b, model.upper_in.tape, point)
            add(b.gather(values, np.flatnonzero(~upper.is_bound)), -np.inf, 0.0)
        if model.upper_eq.tape is not None:
            add(inline(b, model.upper_eq.tape, point), 0.0, 0.0)
        if model.lower_eq.tape is not None:
            add(inline(b, model.lower_eq.tape, point), 0.0, 0.0)
        products = b.zeros(0)
        if model.lower_in.tape is not None:
            values = inline(b, model.lower_in.tape, point)
            add(b.add(b.gather(values, self.slack_rows), slack, self.n_slacks), 0.0, 0.0)
            plain = np.flatnonzero(~is_paired & ~lower.is_bound)
            add(b.gather(values, plain), -np.inf, 0.0)
            # Distances of all lower rows: slacks where there are some, else the bounds themselves.
            simple_rows = np.flatnonzero(lower.is_bound)
            distance = b.select(
                len(model.lower_in),
                [
                    (slack, np.arange(self.n_slacks), self.slack_rows),
                    (b.unary(op.NEG, values), simple_rows, simple_rows),
                ],
            )
            products = b.mul(b.gather(z, self.partners), b.gather(distance, self.pairs), len(self.pairs))
        if self.n_multipliers or conditions.n_equations:
            cotangent = b.concatenate([b.constant(1.0), weights])
            slope = model.lagrangian_gradient
            known = {**point, slope.input_names[-1]: cotangent}
            add(inline(b, slope, known), 0.0, 0.0)
        self.n_plain_rows = sum(map(len, lows))
        add(products, -np.inf, 0.0)
        functions = b.finish(b.concatenate(parts))
        self.program = TapeProgram(
            functions,
            (low, high),
            np.concatenate([np.empty(0), *lows]),
            np.concatenate([np.empty(0), *highs]),
        )

    @property
    def has_complementarity(self) -> bool:
        """Whether there are products to relax."""
        return len(self.pairs) > 0

    def join(self, x: Array, y: Array, multipliers: Array) -> Array:
        """The unknowns at a point, slacks included."""
        gap = -self.model.lower_in.values(x, y, self.p)[self.slack_rows]
        return np.concatenate([x, y, multipliers[: self.n_multipliers], np.maximum(gap, 0.0)])

    def split(self, z: Array) -> tuple[Array, Array, Array]:
        """x, y and the multipliers among the unknowns."""
        end = self.model.x.size + self.model.y.size
        return z[: self.model.x.size], z[self.model.x.size : end], z[end : end + self.n_multipliers]

    def search(self, start: Array, relaxation: float, deadline: Deadline = NEVER, **further: Any) -> End:
        """A local search with products of at most ``relaxation``."""
        high = self.program.high.copy()
        high[self.n_plain_rows :] = relaxation
        return self.program.search(start, (self.p,), high=high, deadline=deadline, **further)

    def search_on_piece(self, start: Array, deadline: Deadline = NEVER, **further: Any) -> End:
        """A local search in which every pair stays on the side where the start lies.

        Of each pair the smaller one is zero there, so that no product remains.
        """
        low, high = (bound.copy() for bound in self.program.bounds)
        multipliers = start[self.partners]
        distance = np.empty(len(self.is_bound))
        distance[self.slack_rows] = start[self.model.conditions.n_unknowns :]
        column, limit = self._bound_columns, self._bound_limits
        simple = np.flatnonzero(self.is_bound)
        distance[simple] = np.abs(start[column[simple]] - limit[simple])
        is_tight = distance[self.pairs] <= multipliers
        high[self.partners[~is_tight]] = 0.0
        tight = np.zeros(len(self.is_bound), dtype=bool)
        tight[self.pairs[is_tight]] = True
        high[self.model.conditions.n_unknowns + np.flatnonzero(tight[self.slack_rows])] = 0.0
        held = simple[tight[simple]]
        low[column[held]] = high[column[held]] = limit[held]
        rows = self.program.high.copy()
        rows[self.n_plain_rows :] = np.inf
        return self.program.search(
            np.clip(start, low, high),
            (self.p,),
            bounds=(low, high),
            high=rows,
            deadline=deadline,
            **further,
        )


@dataclass(frozen=True)
class _Simple:
    """Rows of one level that are bounds on single entries of z."""

    is_bound: Array
    rows: Array
    columns: Array
    slopes: Array
    constants: Array

    @classmethod
    def of(cls, model: Model, rows: Rows, p: Array) -> _Simple:
        found: list[SingleBounds] = [
            single_bounds(rows, model.blocks, variable, p) for variable in ("x", "y")
        ]
        is_bound = np.zeros(len(rows), dtype=bool)
        for part in found:
            is_bound[part.rows] = True
        columns = np.concatenate([found[0].columns, model.x.size + found[1].columns])
        slopes = np.concatenate([part.slopes for part in found])
        numbers = np.concatenate([part.rows for part in found])
        constants = np.concatenate([part.constants for part in found])
        return cls(is_bound, numbers, columns, slopes, constants)

    def by_row(self) -> tuple[Array, Array]:
        """For each row the entry of z that it bounds, and where; meaningless for other rows."""
        columns, limits = np.zeros(len(self.is_bound), int), np.zeros(len(self.is_bound))
        columns[self.rows], limits[self.rows] = self.columns, -self.constants / self.slopes
        return columns, limits

    def tighten(self, low: Array, high: Array) -> None:
        """Take the bounds over."""
        bound, rises = -self.constants / self.slopes, self.slopes > 0
        np.minimum.at(high, self.columns[rises], bound[rises])
        np.maximum.at(low, self.columns[~rises], bound[~rises])
