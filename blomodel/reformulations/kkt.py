"""The KKT reformulation as an object, with the cvxpy problem that ``mpec.py`` builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.reformulations.mpec import LowerConditions, build_problem
from blomodel.reformulations.reformulation import (
    EQUIVALENT,
    RELAXATION,
    Formula,
    Reformulation,
    Requirement,
    Writer,
    documented,
    reformulation,
)
from blomodel.text.layout import counted


def has_structure(variable: cp.Variable) -> bool:
    """Whether a variable has fewer free entries than its size."""
    names = ("symmetric", "diag", "PSD", "NSD", "sparsity")
    return any(variable.attributes.get(name) not in (None, False) for name in names)


class WithConditions(Reformulation):
    """Holds the lower level's conditions in the user's variables."""

    @cached_property
    def conditions(self) -> LowerConditions:
        """The lower level's KKT conditions, in the user's variables wherever cvxpy allows it."""
        own = (*self.model.x.leaves, *self.model.y.leaves)
        # A nonlinear solver starts from values, which cvxpy loses for symmetric matrices and the like.
        pairs = zip(own, self.bilevel.variables, strict=True)
        return LowerConditions(
            self.model, [plain if has_structure(user) else user for plain, user in pairs]
        )

    @cached_property
    def problem(self) -> cp.Problem:
        """The single-level problem in cvxpy's nonlinear language."""
        return build_problem(self.conditions, self.stated_objective)

    @property
    def stated_objective(self) -> cp.Minimize | cp.Maximize:
        """The upper objective with its sense."""
        stated = self.bilevel.objective
        substitute = Substitution(self.bilevel.variables, self.conditions.variables)
        return type(stated)(substitute(stated.args[0]))

    @property
    def multipliers(self) -> list[cp.Variable]:
        """The multipliers of the lower constraints."""
        return [row.multiplier for row in self.conditions.rows]

    @property
    def relaxation(self) -> cp.Parameter:
        """t: set ``relaxation.value`` before a solve, from large to small."""
        return self.conditions.relaxation

    def start(self, x: Any, y: Any = None) -> None:
        """Give every variable of ``problem`` a value to start from; the rest as y answers x."""
        below = np.zeros(self.model.y.size) if y is None else self.y(y)
        self.conditions.start(self.x(x), below, self.p)

    def formula(self) -> Formula:
        """Stationarity, both levels' rows, signs of the multipliers and the products of pairs."""
        known = {v.id for v in self.bilevel.variables}
        slacks = [row.slack for row in self.conditions.rows if row.slack is not None]
        ordered = {v.id: v for v in (*self.multipliers, *slacks, *self.problem.variables())}
        further = [v for v in ordered.values() if v.id not in known]

        def written(part: Any) -> Callable[[Writer], str]:
            return lambda writer: writer.write(part)

        bounded = [v for v in further if v.is_nonneg()]

        def signs(writer: Writer) -> str:
            return f"{', '.join(map(writer.write, bounded))} {writer.notation.at_least} 0"

        return Formula(
            over=", ".join([self.names("upper"), self.names("lower"), *(v.name() for v in further)]),
            objective=self.line(self.model.f_expression),
            rows=[*map(written, self.problem.constraints), *([signs] if bounded else [])],
        )

    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """The conditions at a point; multipliers of inequalities first, then of equations."""
        model = self.model

        def objective(x: Any, y: Any) -> float:
            return float(model.f(self.x(x), self.y(y), self.p)[0])

        def stationarity(x: Any, y: Any, multipliers: Any) -> np.ndarray:
            weights = np.ravel(np.asarray(multipliers, dtype=float))
            return model.lower_stationarity(self.x(x), self.y(y), self.p, weights)

        def inequalities(x: Any, y: Any) -> np.ndarray:
            return model.lower_in.values(self.x(x), self.y(y), self.p)

        def equalities(x: Any, y: Any) -> np.ndarray:
            return model.lower_eq.values(self.x(x), self.y(y), self.p)

        def products(x: Any, y: Any, multipliers: Any) -> np.ndarray:
            weights = np.ravel(np.asarray(multipliers, dtype=float))
            return -weights[: len(model.lower_in)] * inequalities(x, y)

        return {
            "objective": documented(objective, "f(x, y)"),
            "stationarity": documented(
                stationarity,
                "grad_y of the lower Lagrangian; multipliers of inequalities, then of equalities",
            ),
            "inequalities": documented(inequalities, "c(x, y), lower rows that must be <= 0"),
            "equalities": documented(equalities, "h(x, y), lower rows that must be 0"),
            "complementarity": documented(products, "-lambda c(x, y), which must be <= t"),
        }


@reformulation
class KKTReformulation(WithConditions):
    """The lower level replaced by its KKT conditions."""

    name = "kkt"
    title = "KKT reformulation"
    abstract_text = (
        "min over x, y, lambda, mu of f(x, y)  s.t.  grad_y g + lambda . grad_y c + mu . grad_y h = 0, "
        "h(x, y) = 0, 0 <= lambda, 0 <= s = -c(x, y), lambda s <= t, x in X"
    )
    abstract_latex = (
        r"\min_{x,y,\lambda,\mu,s} f(x,y) \;\text{s.t.}\; \nabla_y g + \lambda\cdot\nabla_y c + "
        r"\mu\cdot\nabla_y h = 0,\; h(x,y) = 0,\; s = -c(x,y),\; \lambda, s \ge 0,\; "
        r"\lambda \circ s \le t,\; x \in X"
    )

    def judge(self) -> tuple[str, str]:
        """Exact where minimisers and KKT points of the lower level are the same."""
        if self.lower_kind == "nonconvex":
            return RELAXATION, (
                "the lower level is not convex: its minimisers are among the KKT points, with its "
                "saddle points and local minimisers; 'value-function' is exact"
            )
        if self.lower_kind in ("LP", "QP"):
            return EQUIVALENT, (
                "at t = 0: convex with affine rows, so that multipliers exist at every minimiser"
            )
        return EQUIVALENT, (
            "at t = 0, where multipliers exist: the lower level is convex, and a point that satisfies "
            "its curved rows strictly (Slater) grants them"
        )

    def check(self) -> Sequence[Requirement]:
        """The lower constraints are rows, and symbolic derivatives of both are known."""
        n_pairs = sum(row.slack is not None for row in self.conditions.rows)
        _ = self.problem  # raises where cvxpy's language does not suffice
        return [
            Requirement(
                "the lower constraints are rows",
                f"{counted(n_pairs, 'inequality', 'inequalities')} with a multiplier",
            ),
            Requirement(
                "the lower level has symbolic derivatives",
                f"{len(self.conditions.stationarity)} stationarity conditions were derived",
            ),
        ]
