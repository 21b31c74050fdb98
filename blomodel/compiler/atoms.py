"""The atoms that can be compiled: their rules loaded, and what was declared of them at hand."""

from __future__ import annotations

# Rules register themselves, and the traits of their atoms, when they are imported.
from blomodel.compiler import rules_affine, rules_nonlinear  # noqa: F401
from blomodel.compiler.traits import TRAITS, AtomTraits, Smoothness, traits_of

__all__ = ["TRAITS", "AtomTraits", "Smoothness", "traits_of"]
