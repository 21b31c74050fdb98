"""Measures of the paper on global optimality: PL constants of L_gamma, (eps1, eps2)-solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from blomodel.errors import LowerLevelError, ModelError
from blomodel.model.model import Model
from blomodel.structure.flatness import penalised_answer
from blomodel.studies.diagnostics.points import Place, lower_answer, needs_free_lower, upper_floor

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

REACHED = 1e-9  # relative; below this the excess over a minimum is rounding
SEARCHES = 5  # local searches for a minimum, from the best of the points
GAMMAS = (1.0, 10.0, 100.0, 1000.0)  # penalty weights of the searches for better points


@dataclass(frozen=True)
class PolyakConstants:
    """Joint and blockwise PL constants of L_gamma over some points (Definition 1).

    Each is the smallest ratio ||slope||^2 / (2 (L_gamma - minimum)) over the points at which L_gamma
    is above its minimum: no larger constant can hold in the inequality. inf: all points are minima.

    Attributes
    ----------
    joint : float
        mu_l of (2).
    upper, lower : float
        mu_u of (3a) and mu_v of (3b).
    joint_ratios, upper_ratios, lower_ratios : array
        The ratio at each point; nan where it is at the minimum.
    minimum : float
        The minimum of L_gamma over (x, y) that (2) was measured from.
    is_certified : bool
        Whether a lower bound on f shows that no smaller one exists. If not, it is the least that
        searches from the points found, and ``joint`` may be too large.
    gamma : float
        The penalty weight.
    """

    joint: float
    upper: float
    lower: float
    joint_ratios: np.ndarray
    upper_ratios: np.ndarray
    lower_ratios: np.ndarray
    minimum: float
    is_certified: bool
    gamma: float

    def __str__(self) -> str:
        shown = "proven" if self.is_certified else "the least that was found"
        return (
            f"Over {len(self.joint_ratios)} points L_gamma, gamma = {self.gamma:g}, has no larger PL "
            f"constants than {self.joint:.3g} jointly, {self.upper:.3g} in x, {self.lower:.3g} in y "
            f"(minimum {self.minimum:.6g}, {shown})."
        )


@dataclass(frozen=True)
class SolutionTest:
    """Whether a point is an (eps1, eps2)-solution (Definition 2).

    Attributes
    ----------
    verdict : bool or None
        None where neither a bound nor a better point decides.
    gap : float
        g(x, y) - v(x), which must not exceed eps2.
    value, bound : float
        f at the point, and a proven lower bound on f over all points whose gap is at most eps2.
    better : tuple of arrays or None
        A point (x, y) with a gap of at most eps2 and f smaller by more than eps1.
    """

    verdict: bool | None
    gap: float
    value: float
    bound: float
    better: tuple[np.ndarray, np.ndarray] | None

    def __str__(self) -> str:
        said = {True: "a solution", False: "no solution", None: "not decided"}[self.verdict]
        return (
            f"{said}: lower gap {self.gap:.3g}, f = {self.value:.6g}, proven bound {self.bound:.6g}"
            + ("" if self.better is None else "; a better point was found")
        )


class JointPenalty:
    """L_gamma(x, y) = f + gamma (g - v(x)) with its gradient, by one lower solve each."""

    model: Model
    p: np.ndarray
    gamma: float
    x_bounds: list[tuple[Any, Any]]

    def __init__(self, model: Model, p: np.ndarray, gamma: float) -> None:
        self.model, self.p, self.gamma = model, p, gamma
        low, high = model.bounds(p)
        self.x_bounds = list(zip(low, high, strict=True))

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value and slopes in x and y; grad v by the theorem of Danskin, as in section 3.2."""
        model, p, n_x = self.model, self.p, x.size
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        answer = lower_answer(model, x, y, p)
        slope, pull = model.f_grad(x, y, p), model.g_grad(x, y, p).copy()
        pull[:n_x] -= model.g_grad(x, answer.y, p)[:n_x]
        # A search that ended above y has not found the minimum: y itself is a better answer.
        gap = max(0.0, float(model.g(x, y, p)[0]) - answer.value)
        total = slope + self.gamma * pull
        return float(model.f(x, y, p)[0]) + self.gamma * gap, total[:n_x], total[n_x:]

    def least_in_y(self, x: np.ndarray, y: np.ndarray) -> float:
        """min over y of L_gamma(x, y), by a convex program where it is one, else by searches."""
        best = penalised_answer(self.model, self.p, x, y, self.gamma)
        return min(self(x, best)[0], self(x, y)[0])

    def least_in_x(self, starts: Sequence[np.ndarray], y: np.ndarray) -> float:
        """The least L_gamma(., y) that local searches within the bounds of x find."""

        def look(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, in_x, _ = self(x, y)
            return value, in_x

        return min(self._search(look, x, self.x_bounds).fun for x in starts)

    def search(self, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """A local minimum of L_gamma in (x, y): its value and place."""
        n_x = x.size

        def look(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, in_x, in_y = self(z[:n_x], z[n_x:])
            return value, np.concatenate([in_x, in_y])

        bounds = [*self.x_bounds, *[(-np.inf, np.inf)] * y.size]
        found = self._search(look, np.concatenate([x, y]), bounds)
        return float(found.fun), found.x[:n_x], found.x[n_x:]

    @staticmethod
    def _search(look, start, bounds):  # type: ignore[no-untyped-def]
        options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
        return minimize(look, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def polyak_constants(
    problem: BilevelProblem,
    points: Sequence[tuple[object, object]],
    gamma: float,
    *,
    minimum: float | None = None,
) -> PolyakConstants:
    r"""Joint and blockwise PL constants of the penalty objective over points (Definition 1).

    For :math:`L_\gamma(x, y) = f + \gamma(g - v(x))` the joint condition is

    .. math:: \|\nabla L_\gamma\|^2 \ge 2\mu_l\,(L_\gamma - \min_{x,y} L_\gamma), \tag{2}

    the blockwise one :math:`\|\nabla_x L_\gamma\|^2 \ge 2\mu_u(L_\gamma - \min_x L_\gamma)` (3a) and
    :math:`\|\nabla_y L_\gamma\|^2 \ge 2\mu_v(L_\gamma - \min_y L_\gamma)` (3b). Points give upper bounds
    on the constants: the landscape may be worse between them. Points along a run, its ``history``, tell
    the constants over its trajectory, as Lemma 1 states them.

    Parameters
    ----------
    points : sequence of (x, y)
        Where to look.
    gamma : float
        The penalty weight.
    minimum : float, optional
        The minimum of L_gamma over (x, y), where it is known. Without it, local searches from the best
        points look for it, and a lower bound on f by interval arithmetic says whether it is proven.
    """
    if not points:
        raise ModelError("polyak_constants needs at least one point.")
    places = [Place.read(problem, x, y) for x, y in points]
    model, p = places[0].model, places[0].p
    _check_landscape(model, "Definition 1")
    penalty = JointPenalty(model, p, gamma)
    seen = [penalty(at.x, at.y) for at in places]
    values = np.array([value for value, _, _ in seen])
    certified = minimum is not None
    if minimum is None:
        best = np.argsort(values)[:SEARCHES]
        found = [penalty.search(places[k].x, places[k].y)[0] for k in best]
        minimum = float(min(*found, values.min()))
        certified = minimum - upper_floor(model, p) <= REACHED * (1 + abs(minimum))
    near = [places[k].x for k in np.argsort(values)[: SEARCHES - 1]]
    joint, upper, lower = [], [], []
    for at, (value, in_x, in_y) in zip(places, seen, strict=True):
        square_x, square_y = float(in_x @ in_x), float(in_y @ in_y)
        joint.append(_ratio(square_x + square_y, value, minimum))
        upper.append(_ratio(square_x, value, min(value, penalty.least_in_x([at.x, *near], at.y))))
        lower.append(_ratio(square_y, value, min(value, penalty.least_in_y(at.x, at.y))))
    return PolyakConstants(
        joint=_least(joint),
        upper=_least(upper),
        lower=_least(lower),
        joint_ratios=np.array(joint),
        upper_ratios=np.array(upper),
        lower_ratios=np.array(lower),
        minimum=minimum,
        is_certified=bool(certified),
        gamma=gamma,
    )


def _check_landscape(model: Model, measure: str) -> None:
    needs_free_lower(model, measure)
    if model.coupling_constraints or model.upper_eq.size:
        raise ModelError(
            f"{measure} is measured over bounds on x alone; here an upper constraint is an equality or "
            "holds lower variables."
        )


def _ratio(square: float, value: float, minimum: float) -> float:
    excess = value - minimum
    return np.nan if excess <= REACHED * (1 + abs(value)) else square / (2 * excess)


def _least(ratios: Sequence[float]) -> float:
    known = [ratio for ratio in ratios if not np.isnan(ratio)]
    return float(min(known)) if known else np.inf


def solution_test(
    problem: BilevelProblem,
    x: object,
    y: object,
    eps_1: float,
    eps_2: float,
    *,
    bound: float | None = None,
) -> SolutionTest:
    r"""Whether a point is an (eps1, eps2)-solution in the sense of Definition 2.

    It is if :math:`g(x, y) - v(x) \le \epsilon_2` and no point with a lower gap of at most
    :math:`\epsilon_2` has an f smaller by more than :math:`\epsilon_1`. A lower bound on f proves it;
    a better point, looked for by minimising :math:`L_\gamma` for several weights from this point,
    refutes it; where neither is at hand the verdict is None.

    Parameters
    ----------
    eps_1, eps_2 : float
        The two tolerances.
    bound : float, optional
        A proven lower bound on f over all points whose gap is at most eps_2. Without it, interval
        arithmetic and, for jointly convex f, the problem without the lower level give one.
    """
    at = Place.read(problem, x, y)
    _check_landscape(at.model, "Definition 2")
    value, gap = at.f, at.gap
    floor = upper_floor(at.model, at.p) if bound is None else bound
    if gap > eps_2:
        return SolutionTest(False, gap, value, floor, None)
    if value <= floor + eps_1:
        return SolutionTest(True, gap, value, floor, None)
    better = _better_point(at, value - eps_1, eps_2)
    return SolutionTest(None if better is None else False, gap, value, floor, better)


def _better_point(at: Place, value: float, eps_2: float) -> tuple[np.ndarray, np.ndarray] | None:
    """A point with a gap of at most eps_2 and f below value, if minima of L_gamma lead to one."""
    x, y = at.x, at.y
    for gamma in GAMMAS:
        try:
            _, x, y = JointPenalty(at.model, at.p, gamma).search(x, y)
        except LowerLevelError:
            return None
        found = Place(at.model, at.p, x, y)
        answer = Place(at.model, at.p, x, found.lower.y)  # the exact answer has no gap at all
        for point in (found, answer):
            if point.gap <= eps_2 and point.f < value:
                return point.x, point.y
    return None


def representation_value(
    first: np.ndarray,
    train: tuple[np.ndarray, np.ndarray],
    validation: tuple[np.ndarray, np.ndarray],
) -> float:
    r"""F(W_1) of (34): the least validation loss among second layers that fit the training data best.

    .. math:: F(W_1) = \tfrac12\|A - X_{val}W_1 (I - P)\, b\|^2, \quad P = (X_{trn}W_1)^\dagger
              X_{trn}W_1, \quad A = Y_{val} - X_{val}W_1 (X_{trn}W_1)^\dagger Y_{trn}, \quad
              b = [X_{val}W_1 (I - P)]^\dagger A.

    Parameters
    ----------
    first : array
        W_1.
    train, validation : pair of arrays
        Features and labels, a sample in each row.
    """
    hidden, outer = train[0] @ first, validation[0] @ first
    inverse = np.linalg.pinv(hidden)
    rest = validation[1] - outer @ inverse @ train[1]
    free = outer @ (np.eye(first.shape[1]) - inverse @ hidden)
    # Where nothing is free, rounding must not be taken for directions.
    tolerance = 1e-10 * (1 + np.linalg.norm(outer, 2))
    u, sizes, _ = np.linalg.svd(free, full_matrices=False)
    u = u[:, sizes > tolerance]
    return 0.5 * float(np.sum((rest - u @ (u.T @ rest)) ** 2))


def cleaning_lower_value(weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> float:
    r"""l*_trn of (68): the least weighted training loss of hyper-cleaning, in closed form.

    .. math:: \tfrac12\sum_i \psi(u_i)\|y_i\|^2\,\mathbb{1}([XX^\dagger]_{ii} \ne 1),

    which holds where :math:`XX^\dagger` is diagonal, as Lemma 23 supposes; elsewhere it is a ModelError.

    Parameters
    ----------
    weights : array
        psi(u_i), one for each sample.
    features, labels : array
        A sample in each row.
    """
    onto = features @ np.linalg.pinv(features)
    off = float(np.abs(onto - np.diag(np.diag(onto))).max(initial=0))
    if off > 1e-8:
        raise ModelError(
            "cleaning_lower_value: (68) holds where X X^+ is diagonal; here an entry beside it "
            f"is {off:.3g}. The lower level's own value is right everywhere: solve it at fixed u."
        )
    is_left = np.abs(np.diag(onto) - 1) > 1e-8
    return 0.5 * float(np.sum(np.asarray(weights) * np.sum(np.asarray(labels) ** 2, axis=1) * is_left))


def _least_positive(matrix: np.ndarray) -> float:
    """sigma_*, the least singular value above rounding."""
    sizes = np.linalg.svd(np.asarray(matrix, dtype=float), compute_uv=False)
    kept = sizes[sizes > 1e-12 * sizes.max(initial=0) * max(matrix.shape)]
    return float(kept.min()) if kept.size else 0.0


def representation_polyak(
    first: np.ndarray,
    second: np.ndarray,
    train: np.ndarray,
    validation: np.ndarray,
    gamma: float,
) -> float:
    r"""mu_k of Lemma 1: the joint PL constant of L_gamma in representation learning at (W_1, W_2).

    .. math:: \mu_k = (\sigma_{min}^2(W_1) + \sigma_{min}^2(W_2))\,\sigma_*^2([X_{val};
              \sqrt\gamma X_{trn}]).
    """
    least = [np.linalg.svd(layer, compute_uv=False).min() ** 2 for layer in (first, second)]
    return float(sum(least) * _least_positive(np.vstack([validation, np.sqrt(gamma) * train])) ** 2)


def composite_polyak(mu_1: float, A: np.ndarray, mu_2: float, B: np.ndarray) -> float:
    r"""A PL constant of h_1(Az) + h_2(Bz) for mu_1- and mu_2-strongly convex h: Observation 2.

    The least positive singular value, squared, of the matrix :math:`[\sqrt{\mu_1}A; \sqrt{\mu_2}B]`,
    which is exact for quadratic h. The paper prints :math:`\min\{\mu_1\sigma_*^2(A),
    \mu_2\sigma_*^2(B)\}`, which is too large where the two matrices nearly share directions: for A =
    (1, 0) and B = (cos t, sin t) it is 1, and the ratio of the PL inequality comes down to
    :math:`1 - |\cos t|`.
    """
    stacked = np.vstack([np.sqrt(mu_1) * np.atleast_2d(A), np.sqrt(mu_2) * np.atleast_2d(B)])
    return _least_positive(stacked) ** 2
