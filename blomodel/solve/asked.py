"""Questions about a problem that have a yes or a no, and its leaves, as cvxpy's users ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import cvxpy as cp

from blomodel.solve.stated import StatedProblem
from blomodel.structure.finding import Finding

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.structure.structure import Structure


class AskedProblem(StatedProblem):
    """What can be asked of a problem before it is solved."""

    @property
    def structure(self) -> Structure:
        """Facts about the problem, each with what shows it."""
        from blomodel.structure.structure import Structure

        self.check_data()
        return Structure(cast("BilevelProblem", self))

    def constants(self) -> list[cp.Constant]:
        """The constants of both levels, as cvxpy's problems list them."""
        found = {id(constant): constant for part in self._parts() for constant in part.constants()}
        return list(found.values())

    def is_convex_below(self) -> Finding:
        """Whether the lower level is known to be convex in its own variables, at every fixed x.

        Examples
        --------
        >>> import cvxpy as cp, blomodel as bm
        >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
        >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
        >>> problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [], lower)
        >>> problem.is_convex_below()
        True: QP (the objective is quadratic and the constraints are affine in y at fixed x)
        >>> problem.is_coupled_below()
        False: none (1 constraint looked at)
        """
        fact = self.structure["lower level at fixed x"]
        is_convex = self.model.is_convex_below and not self.model.integer_y.any()
        return Finding(bool(is_convex), f"{fact.value} ({fact.evidence})")

    def is_linear_below(self) -> Finding:
        """Whether the lower level is a linear program at every fixed x."""
        structure = self.structure
        fact = structure["lower level at fixed x"]
        is_linear = structure.lower_class == "LP" and not self.model.integer_y.any()
        return Finding(is_linear, f"{fact.value} ({fact.evidence})")

    def is_strongly_convex_below(self) -> Finding:
        """Whether the lower objective is known to be strongly convex in y."""
        fact = self.structure["strong convexity of g in y"]
        return Finding(
            self.structure.strong_convexity.is_strong is True, f"{fact.value} ({fact.evidence})"
        )

    def is_smooth_below(self) -> Finding:
        """Whether the lower objective has no kinks in y."""
        fact = self.structure["lower objective"]
        return Finding(fact.value == "smooth in y", f"{fact.value} ({fact.evidence})")

    def is_coupled_below(self) -> Finding:
        """Whether a lower constraint contains an upper variable."""
        fact = self.structure["lower constraints with x"]
        return Finding(self.structure.is_coupled_below, f"{fact.value} ({fact.evidence})")

    def is_coupled_above(self) -> Finding:
        """Whether an upper constraint contains a lower variable."""
        fact = self.structure["upper constraints with y"]
        return Finding(self.structure.is_coupled_above, f"{fact.value} ({fact.evidence})")

    def is_mixed_integer(self) -> Finding:
        """Whether a variable of either level must be whole."""
        leaves = [v for v in self.variables if v.attributes["integer"] or v.attributes["boolean"]]
        names = ", ".join(str(leaf.name()) for leaf in leaves)
        return Finding(bool(leaves), names or "no variable is declared integer or boolean")

    def _parts(self) -> list[cp.Expression]:
        """Objectives and constraints of both levels."""
        levels: list[Any] = [self, *self.followers]
        return [part for level in levels for part in (level.objective.args[0], *level.constraints)]
