"""What the passes must know of an atom beside its lowering rule; declared where the rule is.

cvxpy's own answers are used where it has them: an atom says by ``is_atom_smooth`` whether it is smooth,
and by ``_domain`` where it is defined. What it cannot say, or says otherwise, is declared with the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import cvxpy as cp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.atom import Atom
from cvxpy.constraints import Inequality

from blomodel.errors import UnsupportedAtomError
from blomodel.text.shorten import shorten


class Smoothness(IntEnum):
    """How often a function can be differentiated where it is defined."""

    KINKED = 0  # the slope jumps somewhere
    ONCE = 1  # the slope is continuous, the curvature jumps or has no bound
    TWICE = 2  # second derivatives exist


@dataclass(frozen=True)
class AtomTraits:
    """What is declared of one class of atoms; every field is asked about a single atom of it.

    Attributes
    ----------
    smoothness : callable
        How smooth the atom is.
    hidden_domain : callable
        Expressions that must be nonnegative for cvxpy's reading of the atom to be the plain one.
        cvxpy reads ``y**3`` as infinite for negative ``y``, where the cube has values and is not
        convex; ``log`` has no values there at all, and so hides nothing.
    is_guarded : callable
        Whether the atom, where it gives a number at all, lies in its domain of convexity, so that
        Newton's method cannot settle on a wrong branch. False where nobody has shown it, which costs
        warm starts and no answer.
    is_kink_at_zero : callable
        Whether a kinked atom is smooth but where its value is zero, as |u| and max(u, 0) are.
    flattens_kink : callable
        Whether the atom is smooth at the kink of a first argument that has its kink at zero: |u|^2.
    definition : callable or None
        An equal expression in other atoms, for the passes that have no entry of their own.
    """

    smoothness: Callable[[Any], Smoothness]
    hidden_domain: Callable[[Any], Sequence[cp.Expression]]
    is_guarded: Callable[[Any], bool]
    is_kink_at_zero: Callable[[Any], bool]
    flattens_kink: Callable[[Any], bool]
    definition: Callable[[Any], cp.Expression] | None


Question = bool | Callable[[Any], bool]  # the same for all atoms of a class, or asked of each
TRAITS: dict[type, AtomTraits] = {}


def declare(
    *atoms: type,
    smoothness: Smoothness | Callable[[Any], Smoothness] | None = None,
    hidden_domain: Callable[[Any], Sequence[cp.Expression]] | None = None,
    is_guarded: Question = False,
    is_kink_at_zero: Question = False,
    flattens_kink: Question = False,
    definition: Callable[[Any], cp.Expression] | None = None,
) -> None:
    """Register the traits of classes of atoms; ``AtomTraits`` explains each.

    Raises
    ------
    UnsupportedAtomError
        Where neither the class nor the call says whether the atom is smooth.
    """
    for atom in atoms:
        if smoothness is None and atom.is_atom_smooth is Atom.is_atom_smooth:  # type: ignore[attr-defined]
            raise UnsupportedAtomError(
                f"the atom '{atom.__name__}' does not say whether it is smooth. Define its method "
                "is_atom_smooth(), or declare smoothness=Smoothness.KINKED, ONCE or TWICE with its rule."
            )
        TRAITS[atom] = AtomTraits(
            _as_question(_as_cvxpy_says if smoothness is None else smoothness),
            stated_domain if hidden_domain is None else hidden_domain,
            _as_question(is_guarded or issubclass(atom, AffAtom)),
            _as_question(is_kink_at_zero),
            _as_question(flattens_kink),
            definition,
        )


def traits_of(atom: Any) -> AtomTraits:
    """What was declared of an atom; an atom of which nothing is known is an error, never smooth."""
    found = TRAITS.get(type(atom))
    if found is None:
        raise UnsupportedAtomError(
            f"nothing is declared of the atom '{type(atom).__name__}' in '{shorten(atom)}': whether it "
            "has kinks, and where it is defined. Register a lowering rule with "
            "blomodel.compiler.rules.rule, which takes these traits, or write the atom with others."
        )
    return found


def stated_domain(atom: Any) -> Sequence[cp.Expression]:
    """The domain that cvxpy states for an atom with a curvature, as expressions that are nonnegative."""
    if isinstance(atom, AffAtom) or not (atom.is_atom_convex() or atom.is_atom_concave()):
        return ()
    return [_excess(part) for part in atom._domain() if isinstance(part, Inequality)]


def nothing_hidden(atom: Any) -> Sequence[cp.Expression]:
    """The hidden domain of an atom that has no finite values outside its domain."""
    return ()


def _excess(constraint: Inequality) -> cp.Expression:
    smaller, larger = constraint.args
    return larger if smaller.is_zero() else larger - smaller


def _as_cvxpy_says(atom: Any) -> Smoothness:
    return Smoothness.TWICE if atom.is_atom_smooth() else Smoothness.KINKED


def _as_question(answer: Any) -> Callable[[Any], Any]:
    return answer if callable(answer) else lambda atom: answer
