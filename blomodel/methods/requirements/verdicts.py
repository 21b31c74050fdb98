"""Whether a method takes a problem: asked once before it runs, and by ``explain()`` of every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blomodel.compiler.expressions.kinks import kinks
from blomodel.errors import MissingPackageError, ModelError
from blomodel.methods.requirements.demands import check_capabilities
from blomodel.methods.run.capabilities import Assumption
from blomodel.methods.run.run import Run
from blomodel.structure.curvature import StrongConvexity
from blomodel.text.shorten import shorten


def check_method(run: Run, method: Any) -> None:
    """Raise when a method does not take the problem of a run; no method asks that itself.

    Raises
    ------
    ModelError
        When the problem asks for a capability that the method lacks, or lacks what it needs.
    MissingPackageError
        When an optional package of the method is not installed.
    """
    check_capabilities(run, method)
    for need in method.needs:
        need(run, method)
    for extra in method.packages:
        if not extra.is_installed:
            raise MissingPackageError(
                f"{method.name} needs {extra.brings}, and none is installed; run "
                f"{extra.how_to_install}. Without it, auto solves the same problems."
            )


@dataclass(frozen=True)
class Caution:
    """An assumption of a method's theory, and what is known about it here."""

    assumed: str
    found: str

    def said_of(self, n_methods: int) -> str:
        """The sentence, said of one method or of several."""
        return f"{'assumes' if n_methods == 1 else 'assume'} {self.assumed}, {self.found}"

    def __str__(self) -> str:
        return self.said_of(1)


@dataclass(frozen=True)
class Verdict:
    """Whether a method applies to a problem.

    Attributes
    ----------
    method : str
    applies : bool
    reason : str
        Why not; empty when it applies.
    caution : Caution or None
        An assumption of its theory that is not known to hold here.
    """

    method: str
    applies: bool
    reason: str = ""
    caution: Caution | None = None


def judge(run: Run, method: Any, convexity: StrongConvexity) -> Verdict:
    """Whether a method applies to the problem of a run, and if not, why."""
    try:
        check_method(run, method)
    except (ModelError, MissingPackageError) as error:
        # The name stands before the reason, wherever this is shown.
        reason = str(error).removeprefix(f"{method.name}: ").removeprefix(f"{method.name} ")
        return Verdict(method.name, False, reason)
    for assumption in Assumption:
        if assumption in method.assumptions:
            found = _DOUBTS[assumption](run, convexity)
            if found:
                return Verdict(method.name, True, caution=Caution(assumption.value, found))
    return Verdict(method.name, True)


def _doubt_smoothness(run: Run, convexity: StrongConvexity) -> str:
    model = run.model
    own = {leaf.id for leaf in model.y.leaves}
    found: list[Any] = run.once("kinks of g", lambda: kinks(model.g_expression, own))
    return f"and {shorten(found[0])} has kinks" if found else ""


def _doubt_strong_convexity(run: Run, convexity: StrongConvexity) -> str:
    if convexity.is_strong is True:
        return ""
    known = "not" if convexity.is_strong is False else "not known to be"
    return f"and it is {known} strongly convex"


def _doubt_direct_dependence(run: Run, convexity: StrongConvexity) -> str:
    if run.model.f.depends_on("x"):
        return ""
    return "but f depends on x only through y, so that the step in x is zero"


# For every assumption, what speaks against it here; empty where nothing does.
_DOUBTS: dict[Assumption, Callable[[Run, StrongConvexity], str]] = {
    Assumption.SMOOTH_LOWER: _doubt_smoothness,
    Assumption.STRONGLY_CONVEX: _doubt_strong_convexity,
    Assumption.STRONGLY_CONVEX_OR_PL: _doubt_strong_convexity,
    Assumption.DIRECT_DEPENDENCE: _doubt_direct_dependence,
}
