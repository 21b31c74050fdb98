"""Who is told of a run's steps: what is shown, and the user's callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.declare.point import Point
from blomodel.methods.run.run import Control, Run, Standing, StopRun

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.solve.progress import Progress


@dataclass(frozen=True)
class State:
    """What a callback is told.

    Attributes
    ----------
    method : str
    iteration : int
        Steps of the method so far.
    time : float
        Seconds since solve() was called.
    value : float or None
        Upper objective of the best point so far that is feasible above and optimal below by the method's
        own figures, in the user's sense; None while there is none.
    bound : float or None
        No feasible point has a better upper objective; None while no bound is known.
    figures : dict
        What the method tells of its present point, such as "gap" or "gamma".
    activity : str
        What is being tried.
    """

    method: str
    iteration: int
    time: float
    value: float | None
    bound: float | None
    figures: dict[str, float]
    activity: str
    _find: Callable[[], dict[str, np.ndarray]] = field(repr=False)

    @property
    def gap(self) -> float | None:
        """Distance of value and bound, relative to 1 + abs(bound); None while not known."""
        if self.value is None or self.bound is None:
            return None
        return abs(self.value - self.bound) / (1 + abs(self.bound))

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The best point so far, each variable by name; empty while there is none."""
        return self._find()


class Listener:
    """Told of every step by a run; tells those who want to know, in the problem's own units.

    Attributes
    ----------
    control : Control
        How the run and its parts learn that they shall end.
    error : BaseException or None
        What the callback raised.
    """

    control: Control

    def __init__(
        self,
        problem: BilevelProblem,
        method: str,
        progress: Progress | None,
        callback: Callable[[State], object] | None,
    ) -> None:
        self._problem, self._method = problem, method
        self._progress, self._callback = progress, callback
        self._began = time.perf_counter()
        self.control = Control()
        self.error: BaseException | None = None

    @property
    def is_awake(self) -> bool:
        """Whether anybody wants to know."""
        return self._progress is not None or self._callback is not None

    def __call__(self, iteration: int, figures: Mapping[str, float], standing: Standing) -> None:
        """Tell of a step; raise StopRun when the callback wants the run to end."""
        self._tell(iteration, figures, standing)
        if self.control.stopped_by is not None:
            raise StopRun(self.control.stopped_by)

    def end(self, run: Run) -> None:
        """Tell the callback how the method has left the run, unless it has ended it itself."""
        if self._callback is not None and self.control.stopped_by is None:
            self._call(run.iterations, {}, self._stated(run.standing), run.standing)

    def _tell(self, iteration: int, figures: Mapping[str, float], standing: Standing) -> None:
        stated, shown = self._stated(standing), dict(figures)
        if "value" in shown and not self._is_plain:
            shown["value"] = self._problem.chain.invert_value(shown["value"])
        if self._progress is not None:
            self._progress(iteration, shown, stated)
        if self._callback is not None and self.control.stopped_by is None:
            self._call(iteration, shown, stated, standing)

    def _call(
        self, iteration: int, figures: dict[str, float], stated: Standing, standing: Standing
    ) -> None:
        sign = self._problem.sign
        if "value" in figures:
            figures["value"] *= sign
        state = State(
            method=self._method,
            iteration=iteration,
            time=time.perf_counter() - self._began,
            value=None if stated.value is None else sign * stated.value,
            bound=sign * stated.bound if np.isfinite(stated.bound) else None,
            figures=figures,
            activity=stated.activity,
            _find=lambda: self._point(standing),
        )
        assert self._callback is not None
        try:
            wish = self._callback(state)
            if (
                isinstance(wish, bool | np.bool_) and wish
            ):  # a comparison of arrays' entries is the latter
                self.control.stopped_by = "callback"
        except (StopRun, KeyboardInterrupt):
            raise
        except (
            BaseException
        ) as error:  # SystemExit too: the best point so far is certified before this goes on
            self.error = error
            self.control.stopped_by = "callback that raised"

    @cached_property
    def _is_plain(self) -> bool:
        return self._problem.model is self._problem.plain_model

    def _stated(self, standing: Standing) -> Standing:
        """The upper objective as the problem states it, not as the solved model counts it."""
        if self._is_plain:
            return standing
        invert = self._problem.chain.invert_value
        value = None if standing.value is None else invert(standing.value)
        bound = invert(standing.bound) if np.isfinite(standing.bound) else standing.bound
        return replace(standing, value=value, bound=bound)

    def _point(self, standing: Standing) -> dict[str, np.ndarray]:
        """The best point in the problem's variables; a part of the run may work on others."""
        best: Any = standing.best
        if best is None or standing.model is not self._problem.model:
            return {}
        chain = self._problem.chain
        return chain.invert(Point(chain.end.levels, best.x, best.y)).by_name
