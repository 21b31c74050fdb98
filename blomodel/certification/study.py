"""Whether the lower answer at a point is unique, and what is known of the point's neighbourhood."""

from __future__ import annotations

import numpy as np

from blomodel.basics import limits
from blomodel.basics.deadline import Deadline
from blomodel.certification.below.lower_check import LowerCheck
from blomodel.certification.exponentials import with_linear_conditions
from blomodel.certification.fitted_multipliers import fit_multipliers
from blomodel.certification.judged import Judged
from blomodel.certification.late import unless_late
from blomodel.certification.neighbourhood import LocalFacts, study_neighbourhood
from blomodel.certification.norms import Manifold, manifold_of_norms
from blomodel.certification.reserve import local_seconds
from blomodel.certification.study_by_products import study_by_products, why_no_products
from blomodel.certification.surroundings import Place, look_around
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.transformations.kinks import rows_for_kinks

APART = 1e-2  # relative distance at which two lower answers count as different
LEFT_OVER = 1e-9  # violation that solvers leave in their best answers
ROUNDING = 1e-13  # relative; differences of g below this say nothing
SAME = 1e-6  # relative distance at which two solvers' answers are one
TRIED = 0.3  # share of the time that the local tests may need with which they are begun: many need less
GRACE = 0.15  # seconds that the local tests may take beyond a time limit


def study(
    judged: Judged, x: np.ndarray, y: np.ndarray, lower: LowerCheck, deadline: Deadline
) -> tuple[bool | None, LocalFacts]:
    """Whether the lower answer looks unique, and what is known of the neighbourhood."""
    model, p = judged.model, judged.p
    if model.has_dear_curvatures:
        obstacle = why_no_products(model, p) if lower.is_convex else "and the lower level is not convex"
        if obstacle is None:
            return study_by_products(model, p, x)
        reason = f"second derivatives of the lower level, about {model.n_curvatures:.1g}, are too many"
        return None, LocalFacts(None, False, f"{reason} for the tests of the neighbourhood, {obstacle}")
    too_late = LocalFacts(None, False, "the time limit left no time for the test on pieces")
    if max(deadline.remaining, 0.0) + GRACE < TRIED * local_seconds(model):
        return None, too_late
    latest = max(deadline, Deadline.after(GRACE))
    return unless_late(lambda: _study(judged, x, y, lower, latest), (None, too_late), latest, grace=0.0)


def _study(
    judged: Judged, x: np.ndarray, y: np.ndarray, lower: LowerCheck, deadline: Deadline
) -> tuple[bool | None, LocalFacts]:
    model, p = judged.model, judged.p
    facts = None
    is_beside = lower.is_convex and lower.y is not None and _is_another(y, lower.y)
    if is_beside and lower.y is not None and not is_as_exact(judged, x, y, lower.y):
        # The tolerated gap lets y lie beside the one answer, whose neighbourhood it is that counts.
        facts = _facts_at(model, p, x, lower.y, lower, deadline)
    if facts is None or facts.y is None:
        facts = _facts_at(model, p, x, y, lower, deadline)
    unique: bool | None = None
    if lower.is_convex and facts.y is not None:
        unique = True  # a convex program whose optimality conditions settle y
    else:
        unique = looks_unique(model, p, x, y, _sharpest_multipliers(model, p, x, y, lower))
        if unique and not lower.is_convex:
            unique = None  # a test of the neighbourhood says nothing about minimisers elsewhere
    return unique, facts


def is_as_exact(judged: Judged, x: np.ndarray, y: np.ndarray, answer: np.ndarray) -> bool:
    """Whether y keeps the lower rows as well as a solver's answer, with a g that is no larger.

    Where g is flat around its minimiser, an interior-point answer lies beside it by the root of the
    solver's tolerance, and a point that was found exactly must not be exchanged for it.
    """
    model, p = judged.model, judged.p

    def exactness(point: np.ndarray) -> tuple[float, float]:
        rows = model.lower_in.values(x, point, p), np.abs(model.lower_eq.values(x, point, p))
        return max(float(part.max(initial=0.0)) for part in rows), float(model.g(x, point, p)[0])

    (own, own_g), (other, other_g) = exactness(y), exactness(answer)
    return own <= other + LEFT_OVER and own_g <= other_g + ROUNDING * (1 + abs(other_g))


def _is_another(y: np.ndarray, answer: np.ndarray) -> bool:
    """Whether two lower answers differ by more than solvers do, and yet lie close together."""
    apart = np.abs(y - answer).max(initial=0) / (1 + np.abs(answer).max(initial=0))
    return bool(SAME < apart <= APART)


def _facts_at(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, lower: LowerCheck, deadline: Deadline
) -> LocalFacts:
    """The neighbourhood of a point, in a model without kinks where its own has some."""
    place = Place(model, p, x, y, _sharpest_multipliers(model, p, x, y, lower))
    manifold = None
    if lower.is_convex:
        place, manifold = without_kinks(place)
        place = with_linear_conditions(place)
    facts = study_neighbourhood(
        place.model,
        place.p,
        place.x,
        place.y,
        place.multipliers,
        has_convex_pieces=lambda: _has_convex_pieces(place.model, place.p, lower),
        deadline=deadline,
    )
    if manifold is None:
        return facts
    if facts.multipliers is not None and manifold.holds(place.model, facts.multipliers):
        return facts
    return LocalFacts(None, False, "a norm of the lower level is zero here, but may not stay so")


def without_kinks(place: Place) -> tuple[Place, Manifold | None]:
    """The place in a model that has rows for kinks, and norms that vanish fixed at zero."""
    model, p, x, y = place.model, place.p, place.x, place.y
    manifold = manifold_of_norms(model, p, x, y)
    if manifold is not None:
        model, y = manifold.model, np.append(y, np.zeros(manifold.n_further))
    equivalent = rows_for_kinks(model)
    if manifold is None and equivalent.is_same:
        return place, None
    # On which side of each kink the answer lies is told by rows, which the problem itself lacks.
    (x, y), model = equivalent.forward(x, y, p), equivalent.model
    fitted = fit_multipliers(model, p, x, y) if model.has_smooth_kkt else None
    own = _sharpest_multipliers(model, p, x, y, None) if fitted is None else fitted
    return Place(model, p, x, y, own), manifold


def _has_convex_pieces(model: Model, p: np.ndarray, lower: LowerCheck) -> bool:
    if not lower.is_convex:
        return True  # without a proven lower answer only the first-order test counts
    return convex_objective(model, p) is not None


def _sharpest_multipliers(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, lower: LowerCheck | None
) -> np.ndarray:
    """The lower multipliers that fit the KKT conditions at the point best.

    An interior-point solver leaves weakly active rows with multipliers that are small but not zero;
    which rows press at all decides which pieces meet here. ``lower`` is None where the check of the
    lower level did not know the rows of this model.
    """
    if lower is not None and not lower.is_convex:
        return model.split_duals(model.multistart.fit_duals(x, y, p))
    checked = model.split_duals(() if lower is None else lower.duals)
    if not model.has_smooth_kkt or not checked.size:
        return checked
    rows = model.lower_in.values(x, y, p)

    def misfit(multipliers: np.ndarray) -> float:
        pressure = multipliers[: len(rows)]
        return float(
            np.abs(model.lower_stationarity(x, y, p, multipliers)).max(initial=0)
            + np.abs(pressure * rows).max(initial=0)
            + np.maximum(-pressure, 0).max(initial=0)
        )

    candidates = [checked]
    again = model.lower_program.solve(x, p) if model.is_convex_below else None
    if again is not None and again.status.has_point:
        candidates.append(model.split_duals(again.duals))
    return min(candidates, key=misfit)


def looks_unique(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
) -> bool | None:
    """Whether the lower Lagrangian curves along every direction left free: a second-order test."""
    if not model.has_smooth_kkt:
        return None
    if not limits.UNIQUENESS_TEST.allows(y.size):
        if not model.conditions.multipliers_are_unknowns:  # y holds them, and they need not be unique
            return None
        return True if look_around(Place(model, p, x, y, multipliers)).factor is not None else None
    rows = model.lower_in.linearise(x, y, p)
    pressing = multipliers[: len(rows.value)] > 1e-7 * (1 + np.abs(multipliers).max(initial=0))
    fixed = np.vstack([rows.in_y.toarray()[pressing], model.lower_eq.linearise(x, y, p).in_y.toarray()])
    kept = multipliers.copy()
    kept[: len(pressing)][~pressing] = 0.0  # what a solver leaves on a row is no curvature
    _, hessian = model.lower_hessian(x, y, p, kept)
    curved = hessian.toarray()
    if not (np.all(np.isfinite(curved)) and np.all(np.isfinite(fixed))):
        return None
    if len(fixed):
        _, singular, basis = np.linalg.svd(fixed)
        free = basis[int((singular > 1e-9 * singular.max(initial=1)).sum()) :]
        curved = free @ curved @ free.T
    if curved.size == 0:
        return True
    lowest = np.linalg.eigvalsh((curved + curved.T) / 2).min()
    return bool(lowest > 1e-8 * np.abs(hessian.data).max(initial=0))
