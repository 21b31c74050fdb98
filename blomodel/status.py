"""What a solve may claim; every claim follows from a certificate."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Outcome of a solve, usable as a plain string."""

    OPTIMAL = "optimal"
    LOCALLY_OPTIMAL = "locally_optimal"
    STATIONARY = "stationary"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    LOWER_INFEASIBLE = "lower_infeasible"
    LOWER_UNBOUNDED = "lower_unbounded"
    UNBOUNDED = "unbounded"
    NOT_ATTAINED = "not_attained"
    INTERRUPTED = "interrupted"
    DIVERGED = "diverged"
    FAILED = "failed"

    @property
    def meaning(self) -> str:
        """One sentence for a person."""
        return _MEANINGS[self]

    @property
    def next_step(self) -> str:
        """What to do about it, in one sentence; the documentation has a page for each status."""
        return _NEXT_STEPS[self]

    @property
    def has_point(self) -> bool:
        """Whether the point is certified feasible above and optimal below."""
        return self in {
            Status.OPTIMAL,
            Status.LOCALLY_OPTIMAL,
            Status.STATIONARY,
            Status.FEASIBLE,
            Status.NOT_ATTAINED,
        }


_MEANINGS = {
    Status.OPTIMAL: "feasible, lower-optimal, and no better point exists (a bound proves it)",
    Status.LOCALLY_OPTIMAL: "feasible, lower-optimal, and no better point lies nearby",
    Status.STATIONARY: "feasible, no better lower answer known, no direction improves to first order",
    Status.FEASIBLE: "feasible, no better lower answer known; nothing is claimed about better points",
    Status.INFEASIBLE: "no point satisfies both levels",
    Status.LOWER_INFEASIBLE: "the lower level has no feasible answer",
    Status.LOWER_UNBOUNDED: "the lower objective improves without limit",
    Status.UNBOUNDED: "the upper objective improves without limit",
    Status.NOT_ATTAINED: "feasible, lower-optimal; better points exist, but none that is best",
    Status.INTERRUPTED: "stopped by the user; the best point found so far is kept",
    Status.DIVERGED: "the method's iteration ran away, so that it has no answer of its own",
    Status.FAILED: "no point passed the certificate",
}

_NEXT_STEPS = {
    Status.OPTIMAL: "nothing: the value is proven",
    Status.LOCALLY_OPTIMAL: 'solve(effort="thorough") looks for better points elsewhere, and a proof',
    Status.STATIONARY: 'solve(effort="thorough") searches on, and proves more where it can',
    Status.FEASIBLE: 'solve(effort="thorough"), with the default method, goes on from this point',
    Status.INFEASIBLE: "print(problem.explain()) names the constraints in conflict; loosen one of them",
    Status.LOWER_INFEASIBLE: "print(problem.explain()) names the lower constraints in conflict; loosen "
    "one of them, or keep x where they can be met",
    Status.LOWER_UNBOUNDED: "bound the lower variables, or check the sense of the lower objective",
    Status.UNBOUNDED: "bound the upper variables, or check the sense of the upper objective",
    Status.NOT_ATTAINED: "take this point, which is close to the infimum, or bound x where f runs off",
    Status.INTERRUPTED: "solve() once more goes on from the point that is kept",
    Status.DIVERGED: "take smaller steps, or leave them out; solve() with its default method, "
    "auto, gives an answer",
    Status.FAILED: "the certificate names the check that failed; scale the model, or try another method",
}
