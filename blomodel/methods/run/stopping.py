"""Rules at which a method stops, stated by its user: those of the papers' experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blomodel.methods.run.settings import setting


@dataclass(frozen=True, kw_only=True)
class StopSettings:
    """Settings of the methods that can be told when to stop."""

    stop_move: float | None = setting(
        None, "length of a step in x at which to stop; None: by the solve's tolerance", minimum=0.0
    )
    stop_relative_move: float | None = setting(
        None, "the same over the length of x; None: not asked", minimum=0.0
    )
    stop_change: float | None = setting(
        None, "change of f in an iteration at which to stop; None: not asked", minimum=0.0
    )


@dataclass
class StopRule:
    """Compares the point of every iteration with the one before."""

    move: float | None
    relative_move: float | None
    change: float | None
    _x: np.ndarray | None = field(default=None, init=False)
    _value: float = field(default=np.nan, init=False)

    def is_met(self, run: Any, x: np.ndarray | None, figures: Mapping[str, float]) -> bool:
        """Whether one of the rules holds between the last call and this one, with the run at x."""
        value, before, last = figures.get("value", np.nan), self._x, self._value
        if run.watched is not None:
            x = run.watched[0] if x is None else x
            # The figure may be of a penalised objective.
            value = float(run.model.f(*run.watched, run.p)[0]) if self.change is not None else value
        self._x, self._value = None if x is None else np.array(x, dtype=float), value
        if self.change is not None and abs(value - last) < self.change:
            return True
        if self._x is None or before is None:
            return False
        moved = float(np.linalg.norm(self._x - before))
        if self.move is not None and moved <= self.move:
            return True
        relative = self.relative_move
        return relative is not None and moved <= relative * float(np.linalg.norm(self._x))


def stop_rule_of(method: Any) -> StopRule | None:
    """The rule that a method's settings state, if they do."""
    if not isinstance(method, StopSettings):
        return None
    rule = StopRule(method.stop_move, method.stop_relative_move, method.stop_change)
    return None if (rule.move, rule.relative_move, rule.change) == (None, None, None) else rule
