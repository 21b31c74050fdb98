"""The value-function reformulations: y at least as good as the best answer, v(x)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blomodel.errors import LowerLevelError, NonconvexLowerError, ReformulationError
from blomodel.reformulations.forms.reduced_penalty import PenaltyEvaluation, ReducedPenalty
from blomodel.reformulations.reformulation import (
    APPROXIMATION,
    EQUIVALENT,
    Formula,
    Reformulation,
    Requirement,
    Writer,
    documented,
    either,
    reformulation,
)
from blomodel.solvers.answer import Answer

LARGE = 1e4  # gamma at which f + gamma g must be convex in y


class _WithValueFunction(Reformulation):
    """Evaluates v(x) and its gradient."""

    def answer_at(self, x: np.ndarray) -> Answer:
        """The lower level's answer at x; raise where it has none."""
        answer, _ = self.model.solve_lower(x, self.p, np.zeros(self.model.y.size))
        if not answer.status.has_point:
            raise LowerLevelError(f"v(x) is not defined at x = {x}: {answer.status.message}", x)
        return answer

    def value(self, x: Any) -> float:
        """v(x)."""
        return float(self.answer_at(self.x(x)).value)

    def value_gradient(self, x: Any) -> np.ndarray:
        """Gradient of v by the envelope theorem."""
        point = self.x(x)
        answer = self.answer_at(point)
        model, p = self.model, self.p
        if self.lower_kind != "nonconvex":
            return model.lower_program.gradient(point, p, (1.0,), answer)
        # The Lagrangian's gradient in x at the best answer found.
        slope = model.g_grad(point, answer.y, p)[: model.x.size]
        multipliers = model.split_duals(model.multistart.fit_duals(point, answer.y, p))
        n_in = len(model.lower_in)
        slope = slope + model.lower_in.linearise(point, answer.y, p).in_x.T @ multipliers[:n_in]
        return slope + model.lower_eq.linearise(point, answer.y, p).in_x.T @ multipliers[n_in:]

    def value_line(self, writer: Writer) -> str:
        """v(x) = min over y of g."""
        g = self.line(self.model.g_expression)(writer)
        inside, names = g + self.lower_set(writer), self.names("lower")
        return either(
            writer.notation,
            f"v = min over {names} of {{ {inside} }}",
            rf"v = \min_{{{', '.join(map(writer.notation.name, names.split(', ')))}}}"
            rf"\left\{{ {inside} \right\}}",
        )

    def value_functions(self) -> dict[str, Callable[..., Any]]:
        model = self.model

        def objective(x: Any, y: Any) -> float:
            return float(model.f(self.x(x), self.y(y), self.p)[0])

        def lower_objective(x: Any, y: Any) -> float:
            return float(model.g(self.x(x), self.y(y), self.p)[0])

        return {
            "objective": documented(objective, "f(x, y)"),
            "lower_objective": documented(lower_objective, "g(x, y)"),
            "value": documented(lambda x: self.value(x), "v(x)"),
            "value_gradient": documented(lambda x: self.value_gradient(x), "gradient of v at x"),
        }


@reformulation
class ValueFunction(_WithValueFunction):
    """min f(x, y) subject to g(x, y) <= v(x) and both levels' constraints."""

    name = "value-function"
    title = "Value-function reformulation"
    abstract_text = (
        "min over x, y of f(x, y)  s.t.  g(x, y) <= v(x), c(x, y) <= 0, x in X;  "
        "v(x) = min over y of { g(x, y) : c(x, y) <= 0 }"
    )
    abstract_latex = (
        r"\min_{x,y} f(x,y) \;\text{s.t.}\; g(x,y) \le v(x),\; c(x,y) \le 0,\; x \in X, \qquad "
        r"v(x) = \min_y \{ g(x,y) : c(x,y) \le 0 \}"
    )

    def judge(self) -> tuple[str, str]:
        """Exact by definition; its penalty only as gamma grows."""
        return EQUIVALENT, (
            "a feasible y with g(x, y) <= v(x) is a minimiser and the reverse. The penalty "
            "f + gamma (g - v), which methods minimise instead, is exact only as gamma grows"
        )

    def check(self) -> Sequence[Requirement]:
        """A lower level whose value can be found at each x."""
        if self.lower_kind == "nonconvex":
            how = "it is not convex, so v(x) is the best value that searches from many starts find"
        else:
            how = f"{self.model.lower_program.reason}, so v(x) is found by one convex solve"
        return [Requirement("the lower level has a minimiser at each x", how)]

    def formula(self) -> Formula:
        """g(x, y) <= v(x) beside both levels' rows."""

        def gap(writer: Writer) -> str:
            return f"{self.line(self.model.g_expression)(writer)} {writer.notation.at_most} v"

        return Formula(
            over=f"{self.names('upper')}, {self.names('lower')}",
            objective=self.line(self.model.f_expression),
            rows=[gap, *self.lower_rows(), *self.upper_rows()],
            where=[self.value_line],
        )

    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """v, the gap g - v, and the penalty f + gamma (g - v) with its gradient."""
        model, functions = self.model, self.value_functions()

        def gap(x: Any, y: Any) -> float:
            return functions["lower_objective"](x, y) - self.value(x)

        def penalty(x: Any, y: Any, gamma: float) -> float:
            return functions["objective"](x, y) + gamma * gap(x, y)

        def penalty_gradient(x: Any, y: Any, gamma: float) -> np.ndarray:
            point = self.x(x), self.y(y), self.p
            slope = model.f_grad(*point) + gamma * model.g_grad(*point)
            slope[: model.x.size] -= gamma * self.value_gradient(x)
            return slope

        return functions | {
            "gap": documented(gap, "g(x, y) - v(x), which must not be positive"),
            "penalty": documented(penalty, "f + gamma (g - v) at (x, y, gamma)"),
            "penalty_gradient": documented(penalty_gradient, "its gradient in (x, y)"),
        }


@reformulation
class ReducedValueFunction(_WithValueFunction):
    """min over x alone of F_gamma(x)."""

    name = "value-function-reduced"
    title = "Reduced value-function penalty"
    abstract_text = (
        "min over x in X of F_gamma(x) = min_y { f(x, y) + gamma g(x, y) : c(x, y) <= 0 } - gamma v(x)"
    )
    abstract_latex = (
        r"\min_{x \in X} F_\gamma(x) = \min_y \{ f(x,y) + \gamma g(x,y) : c(x,y) \le 0 \} - \gamma v(x)"
    )

    def judge(self) -> tuple[str, str]:
        """An approximation from below, better as gamma grows."""
        return APPROXIMATION, (
            "the y that is chosen trades f against g, so that g(x, y) - v(x) falls to zero only as "
            "gamma grows; F_gamma never exceeds the bilevel value at the same x"
        )

    def check(self) -> Sequence[Requirement]:
        """f + gamma g convex in y, so that its minimum can be found."""
        found = [self.convexity()]
        why_not = ""
        try:
            program = self.model.penalised_program
            x = np.clip(np.zeros(self.model.x.size), *self.model.bounds(self.p))
            if not program.is_convex(x, self.p, (1.0 / LARGE, 1.0)):
                why_not = f"At x = {x} it is not known to be, even for gamma = {LARGE:g}."
        except NonconvexLowerError as error:
            why_not = str(error)
        if why_not:
            raise ReformulationError(
                f"{self.name}: f + gamma g must be convex in the lower variables, so that its minimum "
                f"can be found. {why_not} The reformulations 'value-function' and 'kkt' do not need "
                "this."
            )
        return [*found, Requirement("f + gamma g is convex in y at fixed x", program.reason)]

    def formula(self) -> Formula:
        """The best of f + gamma g over y, less gamma v, over x alone."""

        def inner(writer: Writer) -> str:
            f = self.line(self.model.f_expression)(writer)
            g = self.line(self.model.g_expression)(writer)
            rows = [*self.lower_rows(), *map(self.line, self.model.coupling_constraints)]
            held = ", ".join(row(writer) for row in rows)
            held = f" : {held}" if held else ""
            names = self.names("lower")
            gamma = writer.notation.name("gamma")
            penalty = writer.notation.times(gamma, writer.notation.brackets(g))
            inside = f"{f} + {penalty}{held}"
            return either(
                writer.notation,
                f"min over {names} of {{ {inside} }} - {gamma} * v",
                rf"\min_{{{', '.join(map(writer.notation.name, names.split(', ')))}}}"
                rf"\left\{{ {inside} \right\}} - \gamma v",
            )

        held = {id(constraint) for constraint in self.model.coupling_constraints}
        upper = [c for c in self.model.upper_constraints if id(c) not in held]
        return Formula(
            over=self.names("upper"),
            objective=inner,
            rows=[self.line(constraint) for constraint in upper],
            where=[self.value_line],
        )

    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """F_gamma, its gradient, the y that it chooses, and that y's gap."""

        def evaluate(x: Any, gamma: float) -> PenaltyEvaluation:
            return ReducedPenalty(self.model, self.p)(self.x(x), gamma)

        return self.value_functions() | {
            "penalty": documented(lambda x, gamma: evaluate(x, gamma).value, "F_gamma(x)"),
            "penalty_gradient": documented(
                lambda x, gamma: evaluate(x, gamma).gradient, "gradient of F_gamma at x"
            ),
            "answer": documented(
                lambda x, gamma: evaluate(x, gamma).y, "the y that minimises f + gamma g at x"
            ),
            "gap": documented(lambda x, gamma: evaluate(x, gamma).gap, "g(x, y) - v(x) at that y"),
        }
