"""Rows of one level's constraints that hold its own variables alone, with their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import EQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.rewriting import rewrite, squares_for_norms
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian, vjp
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.rules import run_order
from blomodel.compiler.tape import Tape
from blomodel.errors import ModelError
from blomodel.kernels.projection import BALL, L1_BALL
from blomodel.model.model import Model
from blomodel.text.shorten import shorten

NORMS = (abs_atom, norm1, norm_inf, Pnorm, PnormApprox)


class NotProjectable(ModelError):
    """A constraint that leaves the set without a projection."""


@dataclass(frozen=True, eq=False)
class AffineRow:
    """values'v[places] <= right, or == right."""

    places: np.ndarray
    values: np.ndarray
    right: float
    is_equality: bool
    label: str


@dataclass(frozen=True, eq=False)
class BoundRows:
    """values_k v[places_k] <= right_k for each k, or == right_k: rows that hold a single entry."""

    places: np.ndarray
    values: np.ndarray
    right: np.ndarray
    is_equality: bool
    label: str


@dataclass(frozen=True, eq=False)
class CurvedRow:
    """A ball; kind and numbers as in kernels/projection.py."""

    kind: int
    places: np.ndarray
    numbers: np.ndarray
    label: str


@dataclass(eq=False)
class OwnRows:
    """The rows of a level that hold its own variables alone."""

    size: int
    bounds: list[BoundRows] = field(default_factory=list)
    affine: list[AffineRow] = field(default_factory=list)
    curved: list[CurvedRow] = field(default_factory=list)
    coupling: str = ""  # names the first constraint that holds the other level's variables


def read_rows(model: Model, level: str, p: np.ndarray) -> OwnRows:
    """Sort the constraints of a level into affine rows, balls and coupling constraints."""
    if level not in ("x", "y"):
        raise ValueError(f"level is {level!r}; it is 'x' or 'y'")
    reader = _Reader(model, level, p)
    constraints = model.upper_constraints if level == "x" else model.lower_constraints
    for position, constraint in enumerate(constraints):
        reader.read(position, constraint)
    return reader.rows


class _Reader:
    def __init__(self, model: Model, level: str, p: np.ndarray) -> None:
        self.level, self.other = level, "y" if level == "x" else "x"
        self.own, other = (model.x, model.y) if level == "x" else (model.y, model.x)
        self.other_ids = {leaf.id for leaf in other.leaves}
        self.blocks = model.blocks
        self.origin = (np.zeros(model.x.size), np.zeros(model.y.size), np.asarray(p, float))
        self.rows = OwnRows(self.own.size)
        self._compiled = (
            (model.upper_in, model.upper_eq) if level == "x" else (model.lower_in, model.lower_eq)
        )
        self._seen: dict[bool, tuple[np.ndarray, np.ndarray, sp.csr_array]] = {}

    def read(self, position: int, constraint: Constraint) -> None:
        label = shorten(constraint, 60)
        held = {variable.id for variable in constraint.variables()}
        if held & self.other_ids:
            if not self.rows.coupling:
                who = "upper" if self.level == "x" else "lower"
                self.rows.coupling = f"the {who} constraint {label!r} contains {self.other} too"
            return
        kind, plain = as_row(constraint)
        expression = plain
        if kind == SPECTRAL:
            raise NotProjectable(
                f"Constraint {label!r} is a matrix inequality, onto which no method here projects; use "
                "a method that does not project, such as method='auto'."
            )
        expression = rewrite(expression, squares_for_norms)
        norms = self._norms(expression)
        if norms and kind != EQUALITY:
            self._read_norms(expression, norms, label)
            return
        if expression is plain:
            known = self._of_all(position, kind == EQUALITY)
            if known is not None:
                self._keep_affine(*known, kind == EQUALITY, label)
                return
        tape = lower([expression], self.blocks)
        facts = polynomial(tape, variable=self.level, coefficient=self.other)
        values, slopes = self._linearise(tape)
        is_bound = (facts.degree <= 1) & (np.diff(slopes.indptr) == 1)
        entries = slopes.indptr[:-1][is_bound]
        self.rows.bounds.append(
            BoundRows(
                slopes.indices[entries], slopes.data[entries], -values[is_bound], kind == EQUALITY, label
            )
        )
        for k in np.flatnonzero(~is_bound).tolist():
            if facts.degree[k] <= 1:
                self._add(slopes, k, -values[k], kind == EQUALITY, label)
            elif facts.degree[k] == 2 and kind != EQUALITY:
                self._read_quadratic(tape, k, values[k], slopes, label)
            else:
                raise _refusal(label)

    def _of_all(
        self, position: int, is_equality: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """Values and slopes of one affine constraint, taken from all rows of its kind, compiled once.

        The slopes are the lengths of their rows, the columns and the numbers. None where a row is
        not affine.
        """
        rows = self._compiled[is_equality]
        if rows.tape is None or position not in rows.slices:
            return None
        if is_equality not in self._seen:
            facts = polynomial(rows.tape, variable=self.level, coefficient=self.other)
            self._seen[is_equality] = (facts.degree, *self._linearise(rows.tape))
        degree, values, slopes = self._seen[is_equality]
        part = rows.slices[position]
        if np.any(degree[part] > 1):
            return None
        ends = slopes.indptr[part.start : part.stop + 1]
        inside = slice(ends[0], ends[-1])
        return values[part], np.diff(ends), slopes.indices[inside], slopes.data[inside]

    def _keep_affine(
        self,
        values: np.ndarray,
        lengths: np.ndarray,
        columns: np.ndarray,
        slopes: np.ndarray,
        is_equality: bool,
        label: str,
    ) -> None:
        is_bound, begins = lengths == 1, np.cumsum(lengths) - lengths
        entries = begins[is_bound]
        self.rows.bounds.append(
            BoundRows(columns[entries], slopes[entries], -values[is_bound], is_equality, label)
        )
        for k in np.flatnonzero(~is_bound).tolist():
            own = slice(begins[k], begins[k] + lengths[k])
            right = -float(values[k])
            places = columns[own].astype(np.int64)
            self.rows.affine.append(AffineRow(places, slopes[own], right, is_equality, label))

    def _norms(self, expression: cp.Expression) -> list[Any]:
        """The outermost norms of the level's own variables."""
        if isinstance(expression, NORMS):
            return [expression] if expression.variables() else []
        found: dict[int, Any] = {}
        for argument in expression.args:
            found |= {id(norm): norm for norm in self._norms(argument)}
        return list(found.values())

    def _linearise(self, tape: Tape) -> tuple[np.ndarray, sp.csr_array]:
        slopes = sp.csr_array(jacobian(tape, (self.level,), self.origin))
        slopes.sum_duplicates()
        slopes.eliminate_zeros()
        return tape(*self.origin), slopes

    def _add(
        self,
        slopes: sp.csr_array,
        k: int,
        right: float,
        is_equality: bool,
        label: str,
        sign: float = 1.0,
    ) -> None:
        places, values = _row(slopes, k)
        self.rows.affine.append(AffineRow(places, sign * values, float(right), is_equality, label))

    def _read_quadratic(
        self, tape: Tape, k: int, value: float, slopes: sp.csr_array, label: str
    ) -> None:
        """alpha |v|^2 / 2 + b'v + value <= 0 over the entries that the row holds."""
        unit = np.zeros(tape.n_outputs)
        unit[k] = 1.0
        curvature = sp.coo_array(jacobian(vjp(tape, (self.level,)), (self.level,), (*self.origin, unit)))
        curvature.eliminate_zeros()
        places = np.unique(curvature.row)
        held, linear = _row(slopes, k)
        if places.size == 0:
            self._add(slopes, k, -value, False, label)
            return
        alpha = float(curvature.data[0])
        is_round = (
            np.array_equal(curvature.row, curvature.col)
            and np.allclose(curvature.data, alpha, rtol=1e-12)
            and alpha > 0
            and np.isin(held, places).all()
        )
        if not is_round:
            raise _refusal(label)
        b = np.zeros(places.size)
        b[np.searchsorted(places, held)] = linear
        centre = -b / alpha
        self._add_ball(places, centre, float(centre @ centre - 2 * value / alpha), label)

    def _add_ball(self, places: np.ndarray, centre: np.ndarray, square: float, label: str) -> None:
        if square < 0:
            raise NotProjectable(f"Constraint {label!r} holds at no point: its radius is imaginary.")
        radius = np.sqrt(square)
        if places.size == 1:
            one = np.ones(1)
            self.rows.affine += [
                AffineRow(places, one, float(centre[0] + radius), False, label),
                AffineRow(places, -one, float(radius - centre[0]), False, label),
            ]
            return
        self.rows.curved.append(CurvedRow(BALL, places, np.append(centre, radius), label))

    def _read_norms(self, expression: cp.Expression, norms: list[Any], label: str) -> None:
        """Rows factor * norm <= bound, the norm put in for by a variable of its own."""
        stand_ins = {id(norm): cp.Variable(norm.shape) for norm in norms}
        outside = rewrite(expression, lambda part: stand_ins.get(id(part)))
        own_ids = {leaf.id for leaf in self.own.leaves}
        if any(variable.id in own_ids for variable in outside.variables()):
            raise _refusal(label)
        block = Block("norms", list(stand_ins.values()))
        tape = lower([outside], (*self.blocks, block))
        facts = polynomial(tape, variable="norms", coefficient=self.level)
        point = (*self.origin, np.zeros(block.size))
        bounds = -tape(*point)
        factors = sp.csr_array(jacobian(tape, ("norms",), point))
        factors.eliminate_zeros()
        if np.any(facts.degree > 1):
            raise _refusal(label)
        insides = [self._inside(norm, label) for norm in norms]
        for k in range(len(bounds)):
            places, values = _row(factors, k)
            if places.size != 1 or values[0] <= 0:
                raise _refusal(label)
            for norm, inside in zip(norms, insides, strict=True):
                where = block.slice_of(stand_ins[id(norm)])
                if where.start <= places[0] < where.stop:
                    element = int(places[0]) - where.start
                    self._read_norm(norm, inside, element, bounds[k] / values[0], label)

    def _inside(self, norm: Any, label: str) -> tuple[np.ndarray, sp.csr_array]:
        """Value at the origin and slopes of what the norm is taken of."""
        tape = lower([norm.args[0]], self.blocks)
        if np.any(polynomial(tape, variable=self.level, coefficient=self.other).degree > 1):
            raise _refusal(label)
        return self._linearise(tape)

    def _read_norm(
        self,
        norm: Any,
        inside: tuple[np.ndarray, sp.csr_array],
        element: int,
        bound: float,
        label: str,
    ) -> None:
        values, slopes = inside
        if isinstance(norm, abs_atom):
            members = np.array([element])
        else:
            order, length = run_order(norm.args[0].shape, norm.axis)
            members = order[element * length : (element + 1) * length]
        if isinstance(norm, abs_atom | norm_inf) or members.size == 1:
            for k in members:
                self._add(slopes, k, bound - values[k], False, label)
                self._add(slopes, k, bound + values[k], False, label, sign=-1.0)
            return
        if bound < 0:
            raise NotProjectable(f"Constraint {label!r} holds at no point: a norm is never negative.")
        if np.diff(slopes.indptr)[members].sum() == 0:
            raise _refusal(label)
        matrix = sp.csr_array(slopes[members])
        places = np.unique(matrix.indices)
        part = matrix[:, places].toarray()
        offset = values[members]
        if isinstance(norm, norm1):
            self._add_l1_ball(places, part, offset, bound, label)
            return
        gram = part.T @ part
        scale = gram[0, 0]
        skew = np.abs(gram - scale * np.eye(places.size)).max()
        if norm.p != 2 or skew > 1e-13 * scale:
            raise _refusal(label)
        centre = -(part.T @ offset) / scale
        rest = offset + part @ centre
        self._add_ball(places, centre, float((bound**2 - rest @ rest) / scale), label)

    def _add_l1_ball(
        self, places: np.ndarray, part: np.ndarray, offset: np.ndarray, bound: float, label: str
    ) -> None:
        sizes = np.abs(part)
        is_plain = (
            np.all((sizes != 0).sum(axis=1) == 1)
            and np.all((sizes != 0).sum(axis=0) == 1)
            and np.allclose(sizes.max(axis=1), sizes.max(), rtol=1e-12)
            and not offset.any()
        )
        if not is_plain:
            raise _refusal(label)
        self.rows.curved.append(CurvedRow(L1_BALL, places, np.array([bound / sizes.max()]), label))


def _row(matrix: sp.csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of one row, the places in rising order."""
    begin, end = matrix.indptr[k], matrix.indptr[k + 1]
    order = np.argsort(matrix.indices[begin:end])
    return matrix.indices[begin:end][order].astype(np.int64), matrix.data[begin:end][order]


def _refusal(label: str) -> NotProjectable:
    return NotProjectable(
        f"Constraint {label!r} has no simple projection; bounds, linear rows and balls such as "
        "cp.norm(v - c) <= r of variables of one level do. Restate it, or use a method that does not "
        "project, such as method='auto'."
    )
