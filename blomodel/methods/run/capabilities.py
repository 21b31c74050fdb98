"""The words with which a method class says what it takes, what its theory assumes, what it needs.

They are data: the check before a method runs, ``explain()``, the tables of the documentation and the
tests read them. The sentences ``assumes`` and ``claims`` of a method are for people only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Capability(Enum):
    """What a problem may have that not every method takes; the value is how people say it.

    A method that lacks one is not run on a problem that asks for it.
    """

    NONCONVEX_LOWER = "lower levels that are not convex in y"
    COUPLED_LOWER = "lower constraints that contain x"
    COUPLED_UPPER = "upper constraints that contain y"
    LOWER_CONSTRAINTS = "lower constraints"
    MATRIX_INEQUALITIES = "matrix inequalities below"
    PROX_TERMS = "kinks of g that have a proximal step"
    KINKS = "any kinks of g"
    INTEGERS = "integer and boolean variables"


EVERYTHING = frozenset(Capability) - {Capability.INTEGERS}  # of problems without integers
WITH_INTEGERS = frozenset(Capability)
ALL_BUT_NONCONVEX = EVERYTHING - {Capability.NONCONVEX_LOWER}
NOTHING_SPECIAL: frozenset[Capability] = frozenset()


class Assumption(Enum):
    """What a method's theory supposes, without which it runs all the same, with a caution."""

    SMOOTH_LOWER = "a smooth lower objective"
    STRONGLY_CONVEX = "g strongly convex in y"
    STRONGLY_CONVEX_OR_PL = "g strongly convex (or PL) in y"
    DIRECT_DEPENDENCE = "that f contains x itself"


@dataclass(frozen=True)
class Extra:
    """Optional packages that come with an extra of this one.

    Attributes
    ----------
    name : str
        The extra, as in ``pip install "blomodel[name]"``.
    brings : str
        What it brings, for a person.
    any_of : tuple of str
        Packages of which one is enough.
    """

    name: str
    brings: str
    any_of: tuple[str, ...]

    @property
    def is_installed(self) -> bool:
        """Whether one of the packages is there; none is imported for that."""
        return any(importlib.util.find_spec(package) is not None for package in self.any_of)

    @property
    def how_to_install(self) -> str:
        """The command."""
        return f'pip install "blomodel[{self.name}]"'


def words(capabilities: Iterable[Capability], assumptions: Iterable[Assumption] = ()) -> str:
    """What a method takes, in the order of the enumeration; kinks against its theory are marked."""
    taken = set(capabilities)
    if Capability.KINKS in taken:
        taken.discard(Capability.PROX_TERMS)
    if Capability.COUPLED_LOWER in taken:
        taken.discard(Capability.LOWER_CONSTRAINTS)
    said = []
    for capability in Capability:
        if capability in taken:
            is_odd = capability is Capability.KINKS and Assumption.SMOOTH_LOWER in set(assumptions)
            said.append(capability.value + (" (against its theory)" if is_odd else ""))
    return "; ".join(said) or "smooth convex lower levels without constraints"
