"""Lower levels that are not convex: relax by value cuts, ask the lower level, cut again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.run.capabilities import EVERYTHING, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start, spread
from blomodel.reformulations.forms.value_cuts import ValueCutRelaxation
from blomodel.solvers.smooth import minimise_smooth

LEVELS = (1.0, 1e-2, 1e-5, 1e-8)  # of relaxed complementarity
FEASIBLE = 1e-5  # violation up to which the end of a local search counts
PATIENCE = 2  # rounds without a better point before giving up
ASKED = 3  # ends of local searches, best first, at which the lower level is asked in each round


@method
@dataclass(frozen=True, kw_only=True)
class ValueCuts:
    """Alternate between a relaxed single-level problem and the lower level.

    A KKT point of a nonconvex lower level need not be its minimum. So each round minimises f over
    both levels' constraints, the KKT conditions and one cut g(x, y) <= g(x, y_k) for every lower
    point found so far; the lower level then answers at the x found, by searches from many starts.
    Its answer is a new cut and, with that x, a bilevel feasible point. The rounds end when the
    lower level keeps the relaxed answer. A second pass drops the KKT conditions, which fail where
    the lower level has no multipliers.
    """

    name: ClassVar[str] = "value-cuts"
    summary: ClassVar[str] = "KKT conditions and value-function cuts, lower level searched globally"
    assumes: ClassVar[str] = "smooth functions; small to medium size"
    claims: ClassVar[str] = "bilevel feasible as far as the searches of the lower level see"
    reference: ClassVar[str] = "cuts as in Mitsos, Lemonidis and Barton (2008), solved locally"
    costs: ClassVar[str] = (
        "one nonlinear program and one global search of the lower level for each round"
    )
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = ()

    n_starts: int = setting(6, "start points in x", minimum=1)
    max_rounds: int = setting(10, "rounds of relaxation and cut", minimum=1, own=True)

    def run(self, run: Run) -> None:
        """Cut until the lower level agrees, with the KKT conditions and then without."""
        model = run.model
        if run.start is not None:
            center, y = run.start[0], run.start[1]
        else:
            center, y = np.clip(np.zeros(model.x.size), *model.bounds(run.p)), None
        y = np.clip(np.zeros(model.y.size) if y is None else y, *model.y_bounds)
        places = [center, *spread(model.bounds(run.p), center, self.n_starts - 1, run.seed)]
        if model.x.size == 0:
            places = places[:1]
        cuts: list[np.ndarray] = []
        starts = []
        for x in places:
            run.check_limits()
            answer = self._ask_below(run, x, y, cuts)
            # A lower answer is feasible, but often at a corner where f is flat in some direction.
            starts += [(x, y)] if answer is None else [(x, y), (x, answer)]
            if x is center:
                self._cut(run, starts, cuts, model.has_smooth_kkt, rounds=1)
            if run.is_proven:
                return
        for has_kkt in (True, False) if model.has_smooth_kkt else (False,):
            self._cut(run, starts, cuts, has_kkt)

    def refine(self, run: Run, starts: list[Start], cuts: list[np.ndarray]) -> None:
        """Cut around bilevel feasible points, with lower answers that are known already."""
        self._cut(run, starts, list(cuts), run.model.has_smooth_kkt)

    def _cut(
        self,
        run: Run,
        starts: list[Start],
        cuts: list[np.ndarray],
        has_kkt: bool,
        rounds: int | None = None,
    ) -> None:
        relaxation = ValueCutRelaxation(run.model, run.p, has_kkt=has_kkt)
        idle = 0  # rounds without a better point
        known: dict[bytes, tuple[float, np.ndarray]] = {}  # ends of earlier rounds by their starts
        for _ in range(self.max_rounds if rounds is None else rounds):
            n_cuts, best = len(cuts), run.best()
            points = starts if best is None else [(best.x, best.y), *starts]
            ends = []
            for point in points:
                run.check_limits()
                start = np.concatenate(point)
                end = known.get(start.tobytes())
                # An end that keeps the new cuts as well is a local minimum still.
                if end is None or not _keeps(relaxation, end[1], cuts):
                    end = self._minimise(run, relaxation, start, cuts)
                if end is not None:
                    known[start.tobytes()] = end
                    ends.append(end)
            ends.sort(key=lambda end: end[0])
            for _, z in ends[:ASKED]:
                self._ask_below(run, *relaxation.split(z)[:2], cuts)
            before, best = best, run.best()
            if best is not None:
                run.step(x=best.x, value=best.value, gap=best.gap)
                gain = np.inf if before is None else before.value - best.value
                idle = 0 if gain > 1e-4 * (1 + abs(best.value)) else idle + 1
            small = 1e-5 * (1 + abs(best.value)) if best is not None else 0.0
            if ends and best is not None and ends[0][0] >= best.value - small:
                break  # the relaxation promises nothing better
            if len(cuts) == n_cuts or idle >= PATIENCE:
                break

    def _minimise(
        self, run: Run, relaxation: ValueCutRelaxation, start: np.ndarray, cuts: list[np.ndarray]
    ) -> tuple[float, np.ndarray] | None:
        pressure = np.zeros(relaxation.n_multipliers)
        pressure[: relaxation.n_in] = 1.0
        z = np.concatenate([start, pressure])
        levels = LEVELS if relaxation.has_kkt and relaxation.n_in else LEVELS[-1:]
        for level in levels:
            program = relaxation.program(cuts, level)
            z = minimise_smooth(program, z, check=run.check_limits)
            run.evaluations += 1
        if not program.violation(z) <= FEASIBLE:
            return None
        return program.value(z), z

    def _ask_below(
        self, run: Run, x: np.ndarray, y: np.ndarray, cuts: list[np.ndarray]
    ) -> np.ndarray | None:
        """Keep (x, y) if the lower level does; return its own answer, which is a new cut."""
        x = np.clip(x, *run.model.bounds(run.p))
        y = np.clip(y, *run.model.y_bounds)
        answer, _ = run.solve_lower(x, y)
        if not answer.status.has_point:
            run.tried.append((x, answer.status))
            return None
        run.propose(x, y, "value cuts")
        run.propose(x, answer.y, "lower answer at the x of value cuts")
        if all(np.abs(answer.y - cut).max(initial=0) > 1e-4 for cut in cuts):
            cuts.append(answer.y)
        return answer.y


def _keeps(relaxation: ValueCutRelaxation, z: np.ndarray, cuts: list[np.ndarray]) -> bool:
    """Whether a point is feasible with all cuts."""
    return bool(relaxation.program(cuts, LEVELS[-1]).violation(z) <= FEASIBLE)
