"""Descent on the upper objective at the lower answer, by implicit gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from blomodel.errors import ModelError
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import find_starts
from blomodel.methods.search.answer_descent import AnswerDescent
from blomodel.solvers.threads import one_blas_thread


def derivative_of_the_answer(run: Run, method: Any) -> None:
    """A lower answer whose derivative in x is known, and upper constraints on x alone."""
    reason = AnswerDescent.why_not(run.model)
    if reason is not None:
        raise ModelError(f"{method.name} descends on f(x, y*(x)) in x alone: {reason}; try auto.")


@method
@dataclass(frozen=True, kw_only=True)
class PhiDescent:
    r"""Quasi-Newton descent on :math:`\varphi(x) = f(x, y^*(x))`.

    The lower level is solved exactly at every x, and the gradient of phi takes one solve with the matrix
    of its optimality conditions on the active rows. The steps are those of L-BFGS-B where x lives in a
    box, otherwise of sequential quadratic programming. Where the active rows change phi has kinks: a
    descent that stalls there goes on with BFGS under weak Wolfe conditions and gradients from points
    nearby.
    """

    name: ClassVar[str] = "phi-descent"
    summary: ClassVar[str] = "descent on f(x, y*(x)), implicit gradient by one adjoint solve"
    assumes: ClassVar[str] = "lower level convex in y with a unique answer"
    claims: ClassVar[str] = "a stationary point of f(x, y*(x)), with y the lower answer itself"
    reference: ClassVar[str] = (
        "Kolstad and Lasdon (1990); Outrata, Kocvara and Zowe (1998); Lewis and Overton (2013)"
    )
    costs: ClassVar[str] = "one lower solve and one linear solve for each evaluation of phi"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.COUPLED_LOWER,
            Capability.LOWER_CONSTRAINTS,
            Capability.PROX_TERMS,
            Capability.KINKS,
        }
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (derivative_of_the_answer,)

    n_starts: int = setting(1, "number of start points", minimum=1)
    max_steps: int = setting(500, "quasi-Newton steps from each start", minimum=1)

    def run(self, run: Run) -> None:
        """Descend from each start."""
        descent = AnswerDescent(run)
        with one_blas_thread():
            for x, _ in find_starts(run, self.n_starts):
                descent.descend(x, self.max_steps)
