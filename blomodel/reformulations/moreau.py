r"""The Moreau-envelope reformulation.

.. math:: \min_{x,y} f(x,y) \quad \text{s.t.} \quad g(x,y) \le v_\gamma(x,y), \qquad
          v_\gamma(x,y) = \min_\theta \{ g(x,\theta) + \tfrac{1}{2\gamma}|\theta - y|^2 :
          c(x,\theta) \le 0 \},

and both levels' constraints. The envelope is never above g, and equals it exactly where y is a fixed
point of the proximal step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.compiler.blocks import Block
from blomodel.errors import LowerLevelError, ReformulationError
from blomodel.programs.parametric import ParametricProgram
from blomodel.reformulations.reformulation import (
    EQUIVALENT,
    RELAXATION,
    Formula,
    Reformulation,
    Requirement,
    Writer,
    documented,
    either,
    reformulation,
)
from blomodel.solvers.smooth import SmoothProgram, minimise_smooth
from blomodel.text.notation import LATEX


@reformulation
class Moreau(Reformulation):
    """min f(x, y) subject to g(x, y) <= v_gamma(x, y) and both levels' constraints."""

    name = "moreau"
    title = "Moreau-envelope reformulation"
    abstract_text = (
        "min over x, y of f(x, y)  s.t.  g(x, y) <= v_gamma(x, y), c(x, y) <= 0, x in X;  "
        "v_gamma(x, y) = min over theta of "
        "{ g(x, theta) + |theta - y|^2 / (2 gamma) : c(x, theta) <= 0 }"
    )
    abstract_latex = (
        r"\min_{x,y} f(x,y) \;\text{s.t.}\; g(x,y) \le v_\gamma(x,y),\; c(x,y) \le 0,\; x \in X, \qquad "
        r"v_\gamma(x,y) = \min_\theta \{ g(x,\theta) + \tfrac{1}{2\gamma}\|\theta - y\|^2 : "
        r"c(x,\theta) \le 0 \}"
    )

    def judge(self) -> tuple[str, str]:
        """Exact where the fixed points of the proximal step are the lower minimisers."""
        if self.lower_kind == "nonconvex":
            return RELAXATION, (
                "the lower level is not convex: fixed points of the proximal step are its stationary "
                "points, among which its minimisers are"
            )
        return EQUIVALENT, (
            "the lower level is convex, where the fixed points of the proximal step are the minimisers"
        )

    def check(self) -> Sequence[Requirement]:
        """A convex lower level; elsewhere rows, and a gamma that the user answers for."""
        if self.lower_kind != "nonconvex":
            return [self.convexity()]
        if not self.model.has_smooth_kkt:
            raise ReformulationError(
                "moreau: a lower level that is not convex must have constraints row by row, but one "
                "demands a semidefinite matrix."
            )
        return [
            Requirement(
                "gamma is below 1/rho, where g + rho |y|^2 / 2 is convex in y",
                "not checked; the proximal step is then found by a local search from y",
            )
        ]

    def formula(self) -> Formula:
        """The gap to the Moreau envelope must not be positive."""

        def gap(writer: Writer) -> str:
            envelope = either(writer.notation, "v_gamma", r"v_{\gamma}")
            g = self.line(self.model.g_expression)(writer)
            return f"{g} {writer.notation.at_most} {envelope}"

        def envelope(writer: Writer) -> str:
            n, names = writer.notation, self.names("lower").split(", ")
            g = self.line(self.model.g_expression)(writer)
            held = self.lower_set(writer)
            star = either(n, "*", "^*")
            distance = " + ".join(n.squares(f"{n.name(name)} - {n.name(name)}{star}") for name in names)
            present = ", ".join(n.name(name) + star for name in names)
            if n is LATEX:
                share = rf"\frac{{1}}{{2 \gamma}} {n.brackets(distance)}"
                under = ", ".join(map(n.name, names))
                return (
                    rf"v_{{\gamma}} = \min_{{{under}}}\left\{{ {g} + {share}{held} \right\}}"
                    rf",\; {present} \text{{: the point itself}}"
                )
            return (
                f"v_gamma = min over {', '.join(names)} of "
                f"{{ {g} + ({distance}) / (2 * gamma){held} }}, "
                f"with {present} for the point itself"
            )

        return Formula(
            over=f"{self.names('upper')}, {self.names('lower')}",
            objective=self.line(self.model.f_expression),
            rows=[gap, *self.lower_rows(), *self.upper_rows()],
            where=[envelope],
        )

    @cached_property
    def _program(self) -> ParametricProgram:
        model = self.model
        anchor = cp.Parameter(model.y.size, name="anchor")
        flat = cp.hstack([cp.vec(leaf, order="F") for leaf in model.y.leaves])
        return ParametricProgram(
            [model.g_expression, cp.sum_squares(flat - anchor)],
            model.lower_constraints,
            x=model.x,
            y=model.y,
            p=Block("p", (*model.p.leaves, anchor)),
            x_bounds=model.x_bounds,
            name="proximal step",
        )

    def _step(self, x: Any, y: Any, gamma: float) -> tuple[np.ndarray, float, np.ndarray]:
        """Proximal point, envelope and its gradient in (x, y)."""
        u, w = self.x(x), self.y(y)
        if self.lower_kind == "nonconvex":
            return self._search(u, w, gamma)
        weights, p = (1.0, 0.5 / gamma), np.concatenate([self.p, w])
        answer = self._program.solve(u, p, weights)
        if not answer.status.has_point:
            raise LowerLevelError(
                f"The proximal step has no answer at x = {u}: {answer.status.message}", u
            )
        in_x = self._program.gradient(u, p, weights, answer)
        gradient = np.concatenate([in_x, (w - answer.y) / gamma])
        return answer.y, self._value(u, w, answer.y, gamma), gradient

    def _value(self, x: np.ndarray, y: np.ndarray, theta: np.ndarray, gamma: float) -> float:
        return float(self.model.g(x, theta, self.p)[0]) + float(np.sum((theta - y) ** 2)) / (2 * gamma)

    def _search(
        self, x: np.ndarray, y: np.ndarray, gamma: float
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """For a lower level that is not convex: the local minimiser reached from y."""
        model, p, n_x = self.model, self.p, self.model.x.size
        free = np.full(model.y.size, np.inf)
        program = SmoothProgram(
            value=lambda theta: self._value(x, y, theta, gamma),
            gradient=lambda theta: model.g_grad(x, theta, p)[n_x:] + (theta - y) / gamma,
            inequalities=lambda theta: model.lower_in.values(x, theta, p),
            inequalities_jacobian=lambda theta: model.lower_in.linearise(x, theta, p).in_y.toarray(),
            equalities=lambda theta: model.lower_eq.values(x, theta, p),
            equalities_jacobian=lambda theta: model.lower_eq.linearise(x, theta, p).in_y.toarray(),
            bounds=(-free, free),
        )
        theta = minimise_smooth(program, y)
        slope = model.g_grad(x, theta, p)[:n_x]
        if len(model.lower_in) + len(model.lower_eq):
            slope = np.full(n_x, np.nan)  # would need the multipliers of the proximal step
        return theta, program.value(theta), np.concatenate([slope, (y - theta) / gamma])

    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """Envelope, gap and penalty, each by one proximal step."""
        model = self.model

        def objective(x: Any, y: Any) -> float:
            return float(model.f(self.x(x), self.y(y), self.p)[0])

        def envelope(x: Any, y: Any, gamma: float) -> float:
            return self._step(x, y, gamma)[1]

        def gap(x: Any, y: Any, gamma: float) -> float:
            return float(model.g(self.x(x), self.y(y), self.p)[0]) - envelope(x, y, gamma)

        def penalty(x: Any, y: Any, gamma: float, weight: float) -> float:
            return objective(x, y) + weight * gap(x, y, gamma)

        def penalty_gradient(x: Any, y: Any, gamma: float, weight: float) -> np.ndarray:
            point = self.x(x), self.y(y), self.p
            slope = model.g_grad(*point) - self._step(x, y, gamma)[2]
            return model.f_grad(*point) + weight * slope

        return {
            "objective": documented(objective, "f(x, y)"),
            "envelope": documented(envelope, "v_gamma(x, y)"),
            "envelope_gradient": documented(
                lambda x, y, gamma: self._step(x, y, gamma)[2], "its gradient in (x, y)"
            ),
            "proximal_point": documented(
                lambda x, y, gamma: self._step(x, y, gamma)[0], "the theta that attains it"
            ),
            "gap": documented(gap, "g(x, y) - v_gamma(x, y), which must not be positive"),
            "penalty": documented(penalty, "f + weight (g - v_gamma) at (x, y, gamma, weight)"),
            "penalty_gradient": documented(penalty_gradient, "its gradient in (x, y)"),
        }
