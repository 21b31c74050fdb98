"""F2SA: ALT-PBGD with a few inner steps in each iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.methods.alt_pbgd import AltPbgd
from blomodel.methods.registry import method, setting


@method
@dataclass(frozen=True, kw_only=True)
class F2sa(AltPbgd):
    """The fully first-order method: both lower problems are followed, not solved."""

    name: ClassVar[str] = "f2sa"
    summary: ClassVar[str] = "ALT-PBGD with a few inner steps in each iteration"
    reference: ClassVar[str] = "Kwon et al. (2023); Jiang et al., penalty-based methods, Theorem 3"

    inner_steps: int | None = setting(10, "inner steps in each iteration", minimum=1)
