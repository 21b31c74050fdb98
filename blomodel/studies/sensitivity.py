r"""How the optimal value moves with the data: its derivative in every ``cp.Parameter``.

At the answer the lower level is replaced by its KKT conditions, with the pieces that meet there:
a system :math:`h_i(z, p) = 0` or :math:`\le 0` in z = (x, y, multipliers). Where its own
multipliers :math:`m` are determined and the answer is isolated,

.. math:: \frac{d\,\text{value}}{dp} = \nabla_p f + \sum_i m_i \nabla_p h_i .

This is the derivative along the answer that was found; a parameter change that makes another,
distant answer better is not seen. Where the derivative does not exist there is no number, but a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy.optimize import lsq_linear

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import gradient, jacobian
from blomodel.declare.point import Point
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.model.model import Model
    from blomodel.problem import BilevelProblem

ACTIVE = 1e-6  # rows and multipliers below this, relative to the point, count as zero
SOLVED = (Status.OPTIMAL, Status.LOCALLY_OPTIMAL, Status.STATIONARY)


class Sensitivity(Mapping[cp.Parameter, "np.ndarray | None"]):
    """Derivative of the optimal value in each parameter; None where there is none.

    Attributes
    ----------
    reasons : dict
        Why there is no derivative, for the parameters without one.
    """

    def __init__(
        self,
        derivatives: dict[cp.Parameter, np.ndarray | None],
        reasons: dict[cp.Parameter, str],
    ) -> None:
        self._derivatives = derivatives
        self.reasons = reasons

    def __getitem__(self, parameter: cp.Parameter) -> np.ndarray | None:
        return self._derivatives[parameter]

    def __iter__(self) -> Iterator[cp.Parameter]:
        return iter(self._derivatives)

    def __len__(self) -> int:
        return len(self._derivatives)

    def __str__(self) -> str:
        lines = []
        for parameter, derivative in self._derivatives.items():
            said = self.reasons.get(parameter, "")
            if derivative is not None:
                said = np.array2string(derivative, precision=6, threshold=12)
            lines.append(f"d value / d {parameter.name()}: {said}")
        return "\n".join(lines) or "the problem has no parameters"

    __repr__ = __str__  # a prompt shows the derivatives, not an address


class NoDerivativeError(Exception):
    """Why the optimal value has no derivative that is known."""


def find_sensitivity(problem: BilevelProblem) -> Sensitivity:
    """The derivatives at the answer of the last solve."""
    parameters = problem.levels.parameters
    if problem.plain_model.has_integers:
        reason = "with integer variables the value may jump with a parameter"
        return Sensitivity(dict.fromkeys(parameters), dict.fromkeys(parameters, reason))
    found: dict[cp.Parameter, np.ndarray | None] = dict.fromkeys(parameters)
    try:
        derivative, undetermined = _differentiate(problem)
    except NoDerivativeError as reason:
        return Sensitivity(found, dict.fromkeys(parameters, str(reason)))
    reasons: dict[cp.Parameter, str] = {}
    for parameter in parameters:
        where = problem.levels.p.slice_of(parameter)
        if np.any(undetermined[where]):
            reasons[parameter] = (
                "the multipliers of the KKT reformulation are not unique, and they give different "
                "derivatives: the value has a kink here"
            )
            continue
        values = problem.sign * derivative[where]
        found[parameter] = values.reshape(parameter.shape, order="F")
    return Sensitivity(found, reasons)


def _differentiate(problem: BilevelProblem) -> tuple[np.ndarray, np.ndarray]:
    """Derivative of the minimised value in all parameters, and which entries are not determined."""
    model, p = problem.plain_model, problem.parameter_values()
    if not model.has_smooth_kkt or model.upper_in.spectral:
        raise NoDerivativeError("a matrix constraint leaves no KKT conditions by rows")
    if problem.status not in SOLVED:
        raise NoDerivativeError(f"the answer is not known to be stationary (status {problem.status})")
    here = Point.present(problem.levels)
    x, y = here.x, here.y
    system = KktSystem.at(model, x, y, p)
    slope = system.slope(system.z)
    multipliers = system.find_multipliers(slope)
    if multipliers is None:
        raise NoDerivativeError(
            "no multipliers of the KKT reformulation fit the answer, so the value is not "
            "differentiable here (or the answer is not accurate enough)"
        )
    if not system.is_isolated(multipliers):
        raise NoDerivativeError(
            "the answer is not isolated: nearby points are as good to second order, and which of them "
            "is best may depend on the direction of the change"
        )
    in_p = system.rows_in_parameters()
    derivative = gradient(model.f, ("p",))(x, y, p) + in_p.T @ multipliers
    change = in_p.T @ system.freedom_of_multipliers
    large = 1e-6 * (1 + np.abs(in_p).max(axis=0, initial=0))
    undetermined = np.abs(change).max(axis=1, initial=0) > large
    return derivative, undetermined


@dataclass(frozen=True)
class KktSystem:
    """The rows of the KKT reformulation that hold with equality at a point.

    z holds the unknowns of the lower level's KKT conditions: x, y and multipliers beside y.
    Rows come in this order: stationarity, lower equalities, active lower rows, zero multipliers,
    upper equalities, tight upper rows.
    """

    model: Model
    p: np.ndarray
    z: np.ndarray
    active: np.ndarray  # lower inequality rows
    zero: np.ndarray  # entries of z: multipliers that are zero
    tight: np.ndarray  # upper inequality rows
    is_weak_row: np.ndarray  # of the active rows: its multiplier is zero too
    is_weak_zero: np.ndarray  # of the zero multipliers: its row is active too

    @classmethod
    def at(cls, model: Model, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> KktSystem:
        """The system at a point of the problem."""
        conditions = model.conditions
        scale = ACTIVE * (1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)))
        values = model.lower_in.values(x, y, p)
        rows, columns = conditions.rows, conditions.columns
        multipliers = conditions.fit(x, y, p)
        remainder = conditions.stationarity(x, y, p, multipliers)
        without = conditions.stationarity(x, y, p, np.zeros(multipliers.size))
        if not np.abs(remainder).max(initial=0) <= 1e-4 * (1 + np.abs(without).max(initial=0)):
            raise NoDerivativeError(
                "the lower level's KKT conditions do not hold at the answer (a kink?)"
            )
        z = np.concatenate([x, y, multipliers])
        if not limits.SENSITIVITY_UNKNOWNS.allows(z.size):
            raise NoDerivativeError(f"not computed for more than {limits.SENSITIVITY_UNKNOWNS}")
        is_active = values[rows] >= -scale
        pressure = z[columns]
        is_zero = pressure <= 10 * ACTIVE * (1 + np.abs(pressure).max(initial=0))
        if np.any(~is_active & ~is_zero):
            raise NoDerivativeError(
                "a lower row and its multiplier are both away from zero at the answer"
            )
        system = cls(
            model=model,
            p=p,
            z=z,
            active=rows[is_active],
            zero=columns[is_zero],
            tight=np.flatnonzero(model.upper_in.values(x, y, p) >= -scale),
            is_weak_row=is_zero[is_active],
            is_weak_zero=is_active[is_zero],
        )
        if conditions.multipliers_are_unknowns and not system.has_unique_lower_multipliers():
            raise NoDerivativeError("the lower level's multipliers are not unique at the answer")
        if not np.all(np.isfinite(system.rows(z))):
            raise NoDerivativeError("a function of the model is not differentiable at the answer")
        return system

    def _split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n_x, n_y = self.model.x.size, self.model.y.size
        return z[:n_x], z[n_x : n_x + n_y], z[n_x + n_y :]

    def has_unique_lower_multipliers(self) -> bool:
        """Whether the gradients of the active lower rows are independent."""
        x, y, _ = self._split(self.z)
        gradients = np.vstack(
            [
                self.model.lower_in.linearise(x, y, self.p).in_y.toarray()[self.active],
                self.model.lower_eq.linearise(x, y, self.p).in_y.toarray(),
            ]
        )
        return not len(gradients) or np.linalg.matrix_rank(gradients, tol=1e-7) == len(gradients)

    def slope(self, z: np.ndarray) -> np.ndarray:
        """Gradient of f in z."""
        x, y, multipliers = self._split(z)
        return np.concatenate([self.model.f_grad(x, y, self.p), np.zeros(multipliers.size)])

    def rows(self, z: np.ndarray) -> np.ndarray:
        """Jacobian of the rows in z."""
        model, p = self.model, self.p
        x, y, multipliers = self._split(z)
        lower_in, lower_eq = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
        upper_in, upper_eq = model.upper_in.linearise(x, y, p), model.upper_eq.linearise(x, y, p)

        def padded(rows, chosen=slice(None)) -> np.ndarray:  # type: ignore[no-untyped-def]
            both = np.hstack([rows.in_x.toarray(), rows.in_y.toarray()])[chosen]
            return np.hstack([both, np.zeros((len(both), multipliers.size))])

        slopes = (lower_in.in_y, lower_eq.in_y)
        parts = [
            model.conditions.jacobian(x, y, p, multipliers, slopes).toarray(),
            padded(lower_eq),
            padded(lower_in, self.active),
            -np.eye(z.size)[self.zero],
            padded(upper_eq),
            padded(upper_in, self.tight),
        ]
        return np.vstack(parts)

    @cached_property
    def is_one_sided(self) -> np.ndarray:
        """Which rows are inequalities here, so that their multipliers have a sign."""
        n_first = self.model.conditions.n_equations + len(self.model.lower_eq)
        return np.concatenate(
            [
                np.zeros(n_first, dtype=bool),
                self.is_weak_row,
                self.is_weak_zero,
                np.zeros(len(self.model.upper_eq), dtype=bool),
                np.ones(len(self.tight), dtype=bool),
            ]
        )

    def find_multipliers(self, slope: np.ndarray) -> np.ndarray | None:
        """Multipliers m with slope + rows'm = 0, nonnegative for inequalities; None without any."""
        matrix = self.rows(self.z)
        steepness = 1 + np.abs(slope).max(initial=0)
        if not len(matrix):
            return np.empty(0) if np.abs(slope).max(initial=0) <= 1e-4 * steepness else None
        found = np.linalg.lstsq(matrix.T, -slope, rcond=1e-9)[0]
        if np.any(found[self.is_one_sided] < -1e-6 * steepness):
            low = np.where(self.is_one_sided, 0.0, -np.inf)
            # In units of the rows: a search among multipliers of very different sizes may break off.
            sizes = np.abs(matrix).max(axis=1)
            units = np.where(sizes > 0, sizes, 1.0)
            try:
                with np.errstate(all="ignore"):
                    scaled = lsq_linear((matrix / units[:, None]).T, -slope, (low, np.inf), tol=1e-12)
            except np.linalg.LinAlgError:
                return None
            found = scaled.x / units
        misfit = np.abs(matrix.T @ found + slope).max(initial=0)
        return found if misfit <= 1e-4 * steepness else None

    @cached_property
    def freedom_of_multipliers(self) -> np.ndarray:
        """A basis of what can be added to the multipliers; no columns when they are unique."""
        matrix = self.rows(self.z)
        if not len(matrix):
            return np.empty((0, 0))
        left, singular, _ = np.linalg.svd(matrix)
        rank = int((singular > 1e-8 * singular.max(initial=1)).sum())
        return left[:, rank:]

    def is_isolated(self, multipliers: np.ndarray) -> bool:
        """Second-order test: the Lagrangian curves upwards along all that pressing rows leave free."""
        presses = ~self.is_one_sided | (multipliers > 1e-6 * (1 + np.abs(multipliers).max(initial=0)))
        held = self.rows(self.z)[presses]
        free = np.eye(self.z.size)
        if len(held):
            _, singular, basis = np.linalg.svd(held)
            free = basis[int((singular > 1e-8 * singular.max(initial=1)).sum()) :]
        if not len(free):
            return True
        step = 1e-5 * (1 + np.abs(self.z).max(initial=0))

        def lagrangian_slope(z: np.ndarray) -> np.ndarray:
            return self.slope(z) + self.rows(z).T @ multipliers

        curvature = np.array(
            [
                free
                @ (lagrangian_slope(self.z + step * d) - lagrangian_slope(self.z - step * d))
                / (2 * step)
                for d in free
            ]
        )
        lowest = np.linalg.eigvalsh((curvature + curvature.T) / 2).min()
        return bool(lowest > 1e-6 * (1 + np.abs(curvature).max()))

    def rows_in_parameters(self) -> np.ndarray:
        """Jacobian of the rows in the parameters."""
        model, p = self.model, self.p
        x, y, multipliers = self._split(self.z)

        def of(rows, chosen=slice(None)) -> np.ndarray:  # type: ignore[no-untyped-def]
            if rows.tape is None:
                return np.zeros((0, p.size))
            return jacobian(rows.tape, ("p",), (x, y, p)).toarray()[chosen]

        parts = [
            model.conditions.parameter_jacobian(x, y, p, multipliers),
            of(model.lower_eq),
            of(model.lower_in, self.active),
            np.zeros((len(self.zero), p.size)),
            of(model.upper_eq),
            of(model.upper_in, self.tight),
        ]
        return np.vstack(parts)
