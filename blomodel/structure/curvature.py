"""How strongly convex the lower objective is in y: proven where possible, sampled where not."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.spectra import extreme_eigenvalues
from blomodel.compiler.expressions.kinks import kinks
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, hessian, jvp
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.passes.polynomial import CONSTANT, polynomial
from blomodel.compiler.tape import Tape
from blomodel.model.model import Model
from blomodel.programs.hoisting import Hoister
from blomodel.programs.objective import summands, total
from blomodel.text.layout import counted

N_SAMPLES = 30
NEGLIGIBLE = 1e-9  # eigenvalues below this, relative to the largest, are rounding
OPEN_SIDE = 10.0  # where a variable has no bound, samples stay within this


@dataclass(frozen=True)
class StrongConvexity:
    """A constant mu with g(x, .) - mu |y|^2 / 2 convex, and what is known about it.

    Attributes
    ----------
    constant : float or None
        The largest mu that is known to hold, or the smallest curvature seen; None: not computed.
    is_proven : bool
        False when the constant comes from samples: then it can only be smaller.
    evidence : str
    terms : tuple of cvxpy expressions
        The terms of g whose curvatures were added up, where the constant was found that way.
    """

    constant: float | None
    is_proven: bool
    evidence: str
    terms: tuple[cp.Expression, ...] = ()

    @property
    def is_strong(self) -> bool | None:
        """Whether g is strongly convex in y; None: not known."""
        if self.constant is None:
            return None
        if self.constant <= 0:
            return False
        return True if self.is_proven else None


def strong_convexity(model: Model, p: np.ndarray) -> StrongConvexity:
    """The lower objective's modulus of strong convexity in y, over all x and y allowed."""
    if not limits.DENSE_SPECTRUM.allows(model.y.size):
        return StrongConvexity(
            None, False, f"not computed for {counted(model.y.size, 'lower variable')}"
        )
    if _has_fixed_hessian(model.g):
        lowest, largest = _spectrum(model, model.g, p)
        constant = 0.0 if abs(lowest) <= NEGLIGIBLE * (1 + abs(largest)) else lowest
        return StrongConvexity(
            constant, True, "smallest eigenvalue of the Hessian in y, the same everywhere"
        )
    proven = _sum_of_parts(model, p)
    if proven is not None and proven.constant:
        return proven  # a bound of 0 leaves the question open
    lowest, n_seen = _sampled(model, p)
    if n_seen == 0:
        return StrongConvexity(None, False, "the Hessian in y has no value at the points looked at")
    # One point with a curvature that is not positive settles it; positive ones prove nothing.
    proof = "" if lowest <= 0 else ", which proves nothing elsewhere"
    return StrongConvexity(
        lowest, lowest <= 0, f"smallest curvature in y at {n_seen} sampled points{proof}"
    )


def _has_fixed_hessian(tape: Tape) -> bool:
    """Whether the second derivatives in y are numbers once the parameters are."""
    facts = polynomial(tape, variable="y", coefficient="x")
    return bool(facts.degree[0] <= 2 and facts.coefficient_class[0, 2] <= CONSTANT)


def _spectrum(model: Model, tape: Tape, p: np.ndarray) -> tuple[float, float]:
    if not tape.depends_on("y"):
        return 0.0, 0.0
    found = hessian(tape, ("y",), (np.zeros(model.x.size), np.zeros(model.y.size), p))
    return extreme_eigenvalues(sp.csr_array(found))


def _sum_of_parts(model: Model, p: np.ndarray) -> StrongConvexity | None:
    """Fixed Hessians by their eigenvalue, convex parts by 0, others by intervals; added up."""
    lower_ids = {leaf.id for leaf in model.y.leaves}
    fixed: list[cp.Expression] = []
    others: list[cp.Expression] = []
    for part in summands(model.g_expression):
        if any(variable.id in lower_ids for variable in part.variables()):
            (fixed if _has_fixed_hessian(lower([part], model.blocks)) else others).append(part)
    bounds: list[float] = []
    if fixed:
        bounds.append(_spectrum(model, lower([total(fixed)], model.blocks), p)[0])
    hoister = Hoister(model.blocks, model.x_bounds)
    for part in others:
        bound = _interval_bound(model, part, p)
        if hoister(part).is_convex():  # at fixed x
            bound = max(bound or 0.0, 0.0)
        if bound is None:
            return None
        bounds.append(bound)
    if sum(bounds) < 0:
        return None  # the terms may still make up for each other
    terms = (*([total(fixed)] if fixed else []), *others)
    added = " + ".join(f"{bound:.6g}" for bound in bounds)
    return StrongConvexity(sum(bounds), True, f"least curvature of these terms: {added}", terms)


def _interval_bound(model: Model, part: cp.Expression, p: np.ndarray) -> float | None:
    """Gershgorin's bound on the smallest eigenvalue, with intervals for the Hessian's entries."""
    n = model.y.size
    if not limits.INTERVAL_HESSIAN.allows(n) or kinks(part, {leaf.id for leaf in model.y.leaves}):
        return None
    slope = gradient(lower([part], model.blocks), ("y",))
    if not slope.depends_on("y"):
        return 0.0
    action = jvp(slope, ("y",))
    direction = next(name for name in action.input_names if name not in ("x", "y", "p"))
    ranges = {"x": model.bounds(p), "y": model.y_bounds, "p": (p, p)}
    lowest = np.inf
    for k, unit in enumerate(np.eye(n)):
        low, high = intervals(action, {**ranges, direction: (unit, unit)})
        beside = np.delete(np.maximum(np.abs(low), np.abs(high)), k).sum()
        if not (np.isfinite(low[k]) and np.isfinite(beside)):
            return None
        lowest = min(lowest, low[k] - beside)
    return float(lowest)


def _sampled(model: Model, p: np.ndarray) -> tuple[float, int]:
    random = np.random.default_rng(0)
    lowest, n_seen = np.inf, 0
    for _ in range(N_SAMPLES if model.y.size <= 100 else 3):
        x, y = (_draw(random, *bounds) for bounds in (model.bounds(p), model.y_bounds))
        matrix = hessian(model.g, ("y",), (x, y, p)).toarray()
        if np.all(np.isfinite(matrix)):
            n_seen += 1
            lowest = min(lowest, float(np.linalg.eigvalsh(matrix)[0]))
    return lowest, n_seen


def _draw(random: np.random.Generator, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        begin = np.where(np.isfinite(low), low, np.minimum(high, OPEN_SIDE) - OPEN_SIDE)
        begin = np.where(np.isfinite(high) | np.isfinite(low), begin, -OPEN_SIDE)
        end = np.where(np.isfinite(high), high, np.maximum(begin, 0.0) + OPEN_SIDE)
    return begin + random.random(low.size) * (end - begin)
