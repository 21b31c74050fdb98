"""How flat the upper objective is where the lower level answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.compiler.lowering import lower
from blomodel.errors import LowerLevelError, ModelError, NonconvexLowerError
from blomodel.model.model import Model
from blomodel.model.multistart import MultistartLower

RADII = np.logspace(-3, 1, 13)  # distances at which flatness looks at f


@dataclass(frozen=True)
class Flatness:
    """How flat the upper objective is at the lower answer (Definition 11).

    Attributes
    ----------
    delta : float
        delta(x) of eq. 34, from the lower answer and the penalised answer.
    delta_sampled : float
        The largest delta that points at distances from 0.001 to 10 need.
    alpha, modulus : float
        Exponent and modulus c of the definition.
    slope : float
        Norm of grad_y f at the lower answer.
    distance : float
        Between the lower answer and the penalised answer.
    depends_on_x : bool
        Whether f holds x itself; if not, PBGD-Free has no gradient to follow.
    gamma : float
        Penalty weight of the penalised answer.
    """

    delta: float
    delta_sampled: float
    alpha: float
    modulus: float
    slope: float
    distance: float
    depends_on_x: bool
    gamma: float = 10.0

    @property
    def bias(self) -> float:
        """delta gamma + gamma^(-2 (alpha - 1) / (2 - alpha)), the order of the squared bias in (46).

        What PBGD-Free leaves out of the slope of F_gamma, squared, is at most a constant times this.
        """
        if self.alpha >= 2:
            return self.delta * self.gamma
        return self.delta * self.gamma + self.gamma ** (-2 * (self.alpha - 1) / (2 - self.alpha))

    def is_flat(self, tolerance: float = 1e-2) -> bool:
        """Whether delta(x) is small and f depends on x itself."""
        return self.delta <= tolerance and self.depends_on_x

    def __str__(self) -> str:
        text = (
            f"f is ({self.delta:.3g}, {self.alpha:g})-flat at the lower answer with modulus "
            f"{self.modulus:g}, judged by the penalised answer at distance {self.distance:.3g} "
            f"({self.delta_sampled:.3g} judged by sampled points); slope in y {self.slope:.3g}; "
            f"delta gamma = {self.delta * self.gamma:.3g} for gamma = {self.gamma:g}."
        )
        if not self.depends_on_x:
            text += " f depends on x only through y: its own gradient in x is zero everywhere."
        elif not self.is_flat():
            text += " Methods that leave out the value function's gradient may go wrong here."
        return text


def flatness_of_model(
    model: Model,
    p: np.ndarray,
    x: np.ndarray,
    y: np.ndarray | None = None,
    *,
    alpha: float = 1.5,
    modulus: float = 1.0,
    gamma: float = 10.0,
) -> Flatness:
    """As ``flatness``, for flat vectors."""
    if alpha < 1 or modulus < 0 or gamma <= 0:
        raise ModelError("flatness needs alpha >= 1, modulus >= 0 and gamma > 0.")
    if y is None:
        answer, _ = model.solve_lower(x, p, np.zeros(model.y.size))
        if not answer.status.has_point:
            raise LowerLevelError(f"The lower level is {answer.status.value} at this x.", x)
        y = answer.y
    penalised = penalised_answer(model, p, x, y, gamma)
    f_at = float(model.f(x, y, p)[0])
    slope = model.f_grad(x, y, p)[x.size :]

    def need(point: np.ndarray) -> float:
        """The delta that (32) needs at one point."""
        rise = abs(float(model.f(x, point, p)[0]) - f_at)
        return rise - modulus * float(np.linalg.norm(point - y)) ** alpha

    low, high = model.y_bounds
    random = np.random.default_rng(0)
    directions = [*random.standard_normal((8, y.size)), slope, -slope]
    sampled = 0.0
    for direction in directions:
        length = np.linalg.norm(direction)
        if length == 0:
            continue
        for radius in RADII:
            required = need(np.clip(y + radius * direction / length, low, high))
            sampled = max(sampled, required if np.isfinite(required) else 0.0)
    return Flatness(
        delta=max(0.0, need(penalised)),  # (34)
        delta_sampled=sampled,
        alpha=alpha,
        modulus=modulus,
        slope=float(np.linalg.norm(slope)),
        distance=float(np.linalg.norm(penalised - y)),
        depends_on_x=model.f.depends_on("x"),
        gamma=gamma,
    )


def penalised_answer(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, gamma: float
) -> np.ndarray:
    """A minimiser of f / gamma + g over the lower constraints."""
    try:
        answer = model.penalised_program.solve(x, p, weights=(1 / gamma, 1.0))
        if answer.status.has_point:
            return answer.y
    except NonconvexLowerError:
        pass
    both = lower([model.f_expression / gamma + model.g_expression], model.blocks)
    found = MultistartLower(model, objective=both).solve(x, p, near=[y])
    if not found.status.has_point:
        raise LowerLevelError(f"The penalised lower level is {found.status.value} at this x.", x)
    return found.y
