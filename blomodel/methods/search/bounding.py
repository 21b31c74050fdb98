"""Global bounds in rounds: relax the bilevel problem, ask the lower level, cut what it would leave."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blomodel.errors import FileFormatError
from blomodel.methods.run.run import Candidate, Run
from blomodel.methods.search.pieces import answer_below
from blomodel.model.flat_lower import gap_unit, loss_in_own_units, variation
from blomodel.model.global_lower import GlobalLower
from blomodel.reformulations.forms.bounding import MAGNIFIED, SMALL_UNIT, BoundingProblem, LowerPoint
from blomodel.reformulations.forms.floors import MARGIN, THIN
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.branching.scip import BOUND_SLACK, ScipAnswer, ScipProgram
from blomodel.text.layout import counted

Array = np.ndarray

INNER_GAP = 0.3  # share of the wanted gap to which each relaxation is solved
SHOWN = 0.9  # share of the wanted gap beyond which a second proof shows that there is nothing
HALF_WAY = 0.5  # of what the lower level can gain: what a lower point inside may give away
SAME_POINT = 1e-9  # relative: a relaxed point that comes back has nothing new to tell
MOST_POINTS = 60  # cuts; each has a disjunction, which the relaxation must branch on
EXACT = 1e-9  # relative: a lower answer that loses no more is exact
WORTH = 1e-2  # relative: what the value of an exact answer may be worse
COARSER = (5, 4, 3, 2, 1)  # decimals of a rounder x
BESIDE = 1000  # linear programs for a point beside a jump
OWN_SOURCE = "branch and bound by SCIP"
AGAIN, FEWEST_AGAIN = 5, 200  # nodes of a second proof, for each node of the first, and at least
MOST_DOUBTS = 4
DISPROVED = 1e-3  # relative; a point that is better than a bound by more disproves it
ROUND = 6  # decimals of an x that may be meant to be round
KEPT_GAIN = 1e-7  # relative: a relaxed y is the lower level's own answer up to this


@dataclass(frozen=True)
class HalfAProof:
    """A best point that one statement of the relaxation has shown to be optimal.

    Attributes
    ----------
    program : ScipProgram
        The other statement, which has met its limit before it came to an end.
    bound : float
        What the first one has shown.
    nodes : float
        Of each portion of the second proof.
    done : int
        Nodes so far.
    """

    best: Candidate | None
    program: ScipProgram
    bound: float
    nodes: float
    done: int = 0


class Bounding:
    """One search; it may be interrupted after any number of nodes and gone on with.

    Parameters
    ----------
    run : Run
    gap : float
        Relative difference of value and bound at which the search ends.
    """

    problem: BoundingProblem
    lower: GlobalLower
    nodes: int
    programs: int
    bound: float
    has_ended: bool
    doubts: int

    def __init__(self, run: Run, gap: float) -> None:
        self.gap = gap
        self.problem = BoundingProblem(run.model, run.p)
        self.lower = GlobalLower(run.model)
        self.points: list[LowerPoint] = []
        self.empty: list[Array] = []  # what the lower level sees of no x, where that is whole numbers
        self.nodes = self.programs = 0
        self.bound = -math.inf
        self.has_ended = False  # more effort would do no more
        self.is_slow = False  # the last effort has hardly brought the bound nearer
        self._deadline, self._last, self._longest = run.deadline, math.inf, math.inf
        self._program: ScipProgram | None = None
        self._asked: set[bytes] = set()
        self._confirmed: Candidate | None = None
        self._stays_in_range = self.problem.stays_in_range()
        self._range_asked: Candidate | None = None
        self.searched: Candidate | None = None  # the best point around which a local search has ended
        self.doubts = 0  # how often two statements of the relaxation came to different ends
        self._is_other = False  # which of the two statements is solved
        self._proven_twice: Candidate | None = None
        self._half: HalfAProof | None = None
        self._known: Candidate | None = None  # the best point when the relaxation was solved last
        name = f"global {run.model.x.size} {run.model.y.size}"
        run.control.open_work[name] = self._cuts
        left = run.control.earlier.get(name)
        if left is not None:  # SCIP's own tree cannot be written down, but its cuts can
            self._take_up(left, run)

    def _cuts(self) -> dict[str, Any]:
        """What the rounds have learnt."""
        return {
            "x": np.array([point.x for point in self.points]),
            "y": np.array([point.y for point in self.points]),
        }

    def _take_up(self, left: dict[str, Any], run: Run) -> None:
        x, y = np.asarray(left.get("x")), np.asarray(left.get("y"))
        if len(x) and (x.shape[1:], y.shape) != ((run.model.x.size,), (len(x), run.model.y.size)):
            raise FileFormatError("The saved cuts do not fit this problem.")
        self.points = [LowerPoint(*pair) for pair in zip(x, y, strict=True)]

    def go_on(
        self,
        run: Run,
        max_nodes: float = math.inf,
        max_programs: float = math.inf,
        longest: float = math.inf,
    ) -> bool:
        """Branch so many nodes, over several rounds if need be; whether value and bound have met.

        A single node may take SCIP minutes: after ``longest`` seconds of the processor's work, which
        other programs do not slow down, the search ends for good. A second proof has as long.
        """
        self._deadline, self._longest = run.deadline, longest
        self._last = time.process_time() + longest
        last, last_program = self.nodes + max_nodes, self.programs + max_programs
        while not self.has_ended and self.nodes < last and self.programs < last_program:
            run.check_limits()
            if self._is_at_the_end(run) or self.is_half_proven(run):
                break  # a second proof has had its share
            if self._deadline.is_over or time.process_time() > self._last:
                self.has_ended = True
                break
            answer = self._relax(run, last - self.nodes, last_program - self.programs)
            self._record(run, answer)
            run.check_limits()
            if answer.status is InnerStatus.UNBOUNDED:
                self.has_ended = True
            elif answer.status is InnerStatus.INFEASIBLE:
                self._program = None
                if run.best() is None and answer.bound == math.inf and self._is_proven_twice(run):
                    run.is_infeasible = self.has_ended = True
                    run.note("the relaxation of the bilevel problem has no point")
            elif answer.point is not None and not self.is_settled(run):
                self._look_below(run, answer)
            self._drop_disproved(run)
            best = run.best()
            if best is None:
                run.step()
            else:
                run.step(value=best.value, gap=best.gap)
        return not self.is_half_proven(run) and self._is_at_the_end(run)

    def _is_at_the_end(self, run: Run) -> bool:
        """Whether value and bound have met, and all that this rests on has been looked at."""
        is_met = self.is_settled(run) or self.is_half_proven(run)
        return is_met and self._is_confirmed(run) and self._is_proven_twice(run)

    def is_half_proven(self, run: Run) -> bool:
        """Whether one statement has shown the best point to be optimal, and the other is being asked."""
        return self._half is not None and self._half.best is run.best()

    def is_settled(self, run: Run) -> bool:
        """Whether no point can be better than the best one by more than the gap."""
        best = run.best()
        return best is not None and run.bound >= best.value - self.gap * (1 + abs(best.value))

    def _is_confirmed(self, run: Run) -> bool:
        """Whether the lower level keeps the best point; one that it would leave is refuted.

        Where it is not convex, the searches that measured the point may have missed a better answer.
        """
        best, model = run.best(), run.model
        assert best is not None
        if best is self._confirmed or model.is_convex_below or model.integer_y.any():
            return True  # lower levels with integers are solved to a proof whenever they are asked
        known, _ = run.solve_lower(best.x, best.y)
        answer, is_sure = self.lower.confirm(best.x, run.p, known, self._deadline)
        if answer.has_point:
            # The certificate measures gaps in units of what g can vary by, where that is little.
            unit = gap_unit(model, best.x, best.y, run.p, answer.value)
            gap = (float(model.g(best.x, best.y, run.p)[0]) - answer.value) / unit
            loss = loss_in_own_units(model, best.x, best.y, answer.y, run.p, run.tolerance)
            gap = max(gap, loss)
            if gap > run.tolerance or (loss > EXACT and self._has_exact_point(run, best)):
                run.refute(best, gap if gap > run.tolerance else math.inf)
                self._add_point(run, best.x, best.y, answer.y, answer.value)
        still = run.best() is best
        if still and is_sure:
            self._confirmed = best
        return still

    def _is_proven_twice(self, run: Run) -> bool:
        """Whether SCIP comes to the same end on another statement of the relaxation.

        On products and powers of several variables it has cut off points that satisfy every row, in
        about one of a thousand problems. Two statements have two trees, which seldom err at one place.
        """
        best = run.best()
        if _is_plain(run) or (best is not None and best is self._proven_twice):
            return True
        half, goal = self._half, self._goal(best)
        if half is None or half.best is not best:
            half = self._begin_second_proof(run, best)
        self._half = None
        begin = time.process_time()
        answer = half.program.solve(
            self.problem.n_values,
            max_nodes=half.nodes,
            gap=INNER_GAP * self.gap,
            enough=goal,
            cutoff=goal,
            deadline=self._deadline,
            processor=self._longest,
        )
        self.nodes += answer.nodes - half.done
        self._last += time.process_time() - begin  # the portion is for the first proof
        if answer.status is InnerStatus.INFEASIBLE or answer.bound >= goal - self.gap * (1 + abs(goal)):
            self._proven_twice = best
            self._keep_bound(run, half.bound)
            return True
        if answer.status is InnerStatus.FAILED and math.isfinite(answer.bound) and best is not None:
            self._half = replace(half, done=answer.nodes)  # it has only met its limit
            shown = min(half.bound, answer.bound)
            self._lower_bound(run, shown)
            self._keep_bound(run, shown)
            return False
        # What only one of the two statements has shown is not known.
        self.doubts += 1
        self._lower_bound(run, answer.bound)
        n_points = len(self.points)
        if answer.point is not None:
            self._look_below(run, answer)
        if len(self.points) == n_points:  # no cut tells the statement that erred what it has missed
            self._is_other, self._program = not self._is_other, None
        if self.doubts >= MOST_DOUBTS or answer.point is None:
            self.has_ended = True
        return False

    def _begin_second_proof(self, run: Run, best: Candidate | None) -> HalfAProof:
        program = self.problem.program(
            self.points, empty=self.empty, finds_points=False, is_other=not self._is_other
        )
        bound = self.bound if best is None else min(self.bound, best.value)
        return HalfAProof(best, program, bound, AGAIN * self.nodes + FEWEST_AGAIN)

    def _keep_bound(self, run: Run, bound: float) -> None:
        """Keep a bound that has been shown, unless it is known already."""
        best, self.bound = run.best(), max(self.bound, bound)
        bound = self.bound if best is None else min(self.bound, best.value)
        run.raise_bound(bound, self.source, BOUND_SLACK, is_lowered=True)

    def _lower_bound(self, run: Run, bound: float) -> None:
        """Keep what both statements have shown."""
        self.bound = min(self.bound, bound)
        if run.bound > self.bound and run.bound_source.startswith(OWN_SOURCE):
            run.bound = self.bound

    def _drop_disproved(self, run: Run) -> None:
        """Take back a bound that a point has disproved, and go on with the other statement."""
        best = run.best()
        if best is None or self.bound <= best.value + DISPROVED * (1 + abs(best.value)):
            return
        if not run.bound_source.startswith(OWN_SOURCE) or not self._is_confirmed(run):
            return  # the bound is another's, or the point is none
        run.bound = self.bound = -math.inf
        run.note("a bound of SCIP's was disproved by a point, and is looked for in another way")
        self.doubts += 1
        self._is_other, self._program = not self._is_other, None
        self.has_ended = self.doubts >= MOST_DOUBTS

    def _relax(self, run: Run, nodes: float, programs: float) -> ScipAnswer:
        """A portion of the search for the relaxation's minimum."""
        best = run.best()
        enough = cutoff = math.inf
        if not math.isfinite(self.bound) and best is not self._known:
            self._program = None  # a better point may bound what went without end
        self._known = best
        if self._program is None:
            # SCIP's own searches for points are dear, and needed only where there is none to begin with.
            self._program = self.problem.program(
                self.points,
                empty=self.empty,
                finds_points=best is None,
                is_other=self._is_other,
            )
            self._before = (0, 0)
            if best is not None:
                self._program.start_from(self.problem.join(best.x, best.y))
        if best is not None:
            enough = best.value - INNER_GAP * self.gap * (1 + abs(best.value))
            # The best point itself stays below the cutoff, so that SCIP may start from it.
            cutoff = best.value + INNER_GAP * self.gap * (1 + abs(best.value))
        answer = self._program.solve(
            self.problem.n_values,
            max_nodes=nodes,
            max_programs=programs,
            gap=INNER_GAP * self.gap,
            enough=enough,
            cutoff=cutoff,
            deadline=self._deadline,
            processor=self._last - time.process_time(),
        )
        self.nodes += max(answer.nodes - self._before[0], 1)
        self.programs += max(answer.programs - self._before[1], 1)
        self._before = answer.nodes, answer.programs
        return answer

    def _record(self, run: Run, answer: ScipAnswer) -> None:
        run.evaluations += 1
        best = run.best()
        if not self._is_in_range(best):
            return
        if self.problem.rests_on_a_pole(answer.bound, answer.point):
            self.has_ended = answer.point is not None
            return
        self._keep_bound(run, min(answer.bound, self._most_shown(run, answer, best)))

    def _most_shown(self, run: Run, answer: ScipAnswer, best: Candidate | None) -> float:
        """What an answer can show at most.

        Where SCIP sees no point at all, not even the best one that is known, it has lost some, or its
        tolerances are smaller than ours. What the second proof will show is then all that is known.
        """
        has_lost = answer.status is InnerStatus.INFEASIBLE and best is not None
        return self._goal(best) if has_lost and not _is_plain(run) else math.inf

    def _goal(self, best: Candidate | None) -> float:
        """The bound that a second proof must reach."""
        return math.inf if best is None else best.value - SHOWN * self.gap * (1 + abs(best.value))

    def can_bound(self, run: Run) -> bool:
        """Whether a bound of SCIP's would count, with the best point as it is."""
        return self._is_in_range(run.best())

    def _is_in_range(self, best: Candidate | None) -> bool:
        """Whether SCIP can count all that points better than the best one have to do with."""
        if not self._stays_in_range and best is not self._range_asked:
            self._range_asked = best
            self._stays_in_range = self.problem.stays_in_range(math.inf if best is None else best.value)
        return self._stays_in_range

    @property
    def source(self) -> str:
        """What the bound rests on, for a person."""
        what = "both levels' constraints"
        if self.problem.has_conditions or not self.problem.stated.conditions.multipliers_are_unknowns:
            what = "the lower level's optimality conditions"
        if self.points:
            what += f" and {counted(len(self.points), 'lower point')}"
        return f"{OWN_SOURCE} over {what}, {counted(self.nodes, 'node')}"

    # -- the lower level at a relaxed point --------------------------------------------------------

    def _look_below(self, run: Run, answer: ScipAnswer) -> None:
        """Propose what the lower level answers at a relaxed point; keep a lower point as a cut."""
        assert answer.point is not None
        p = run.p
        beside = self._away_from_jumps(run, answer.point)
        if beside is None:
            return
        x, y = beside
        has_ended = answer.status is InnerStatus.OPTIMAL
        key = np.concatenate([x, y]).tobytes()
        if key in self._asked and not has_ended:
            return  # the same point as before: only branching helps
        is_new = key not in self._asked
        self._asked.add(key)
        below, is_sure = self.lower.solve(x, p, y, self._deadline)
        if below.has_point:
            self._propose(run, x, y, below.y, below.value, is_sure)
            self._try_round(run, x, y)
        if self.is_settled(run):
            return
        if not below.has_point:
            self.has_ended = has_ended  # nothing is known that would cut this x
            return
        if not (is_new and self._add_point(run, x, y, below.y, below.value)) and has_ended:
            self.has_ended = True

    def _away_from_jumps(self, run: Run, values: Array) -> tuple[Array, Array] | None:
        """A relaxed point, or one beside it where the lower level is about to see another x.

        What the lower level answers at the jump itself tells nothing of the answers before it. None:
        there is no such point, and the next relaxation knows.
        """
        problem = self.problem
        if not problem.floors or not problem.is_at_a_jump(values):
            return problem.split(values)
        seen = problem.seen(values)
        for margin in (MARGIN, THIN):
            program = problem.program(self.points, inside=seen, margin=margin)
            found = program.solve(
                problem.n_values, max_programs=BESIDE, gap=INNER_GAP * self.gap, deadline=self._deadline
            )
            if found.point is not None:
                return problem.split(found.point)
        if found.status is InnerStatus.INFEASIBLE:
            self.empty.append(seen)
            self._program = None
            return None
        return problem.split(values)

    def _add_point(self, run: Run, x: Array, y: Array, own: Array, value: float) -> bool:
        """Keep a lower point that is better than y at x; whether there was one to keep."""
        gain = float(run.model.g(x, y, run.p)[0]) - value
        is_free = run.model.has_integers or len(self.points) < MOST_POINTS
        may_cut = self.problem.takes_lower_points and is_free
        # Where g hardly varies at this x, little is at stake, and little counts.
        change = variation(run.model, x, y, run.p) or math.inf
        unit = change / MAGNIFIED if change < SMALL_UNIT else min(1 + abs(value), change)
        if not may_cut or gain <= KEPT_GAIN * unit:
            return False
        self.points.append(LowerPoint(x, self._inner_point(run, x, own, value, gain)))
        self._program = None  # the next round begins with the new cut
        return True

    def _propose(self, run: Run, x: Array, y: Array, own: Array, value: float, is_sure: bool) -> None:
        """Points at x: the relaxed y, the lower level's own, and its best minimiser for f."""
        model = run.model
        if model.is_convex_below:
            answer_below(run, x, y)
            return
        run.propose(x, y, "relaxation")
        run.propose(x, own, "lower answer at the relaxation's x")
        if is_sure:
            chosen = self._choose(run, x, value)
            if chosen is not None:
                run.propose(x, chosen, "best lower minimiser at the relaxation's x")

    def _choose(self, run: Run, x: Array, value: float) -> Array | None:
        """The lower minimiser at x that the upper level likes best."""
        if not run.model.integer_y.any():
            return self.lower.choose(x, run.p, value, self._deadline)
        chosen = run.model.integer_lower.choose(x, run.p, value, self._deadline)
        return None if chosen is None else chosen.point

    def _has_exact_point(self, run: Run, best: Candidate) -> bool:
        """Whether a round x beside a point has a lower answer about as good, and an exact one.

        The tolerance lets the lower level keep the point's y at its x, where it is no answer of its own.
        """
        most = best.value + WORTH * (1 + abs(best.value))
        for decimals in COARSER:
            x = np.clip(np.round(best.x, decimals), *run.model.bounds(run.p))
            below, is_sure = self.lower.solve(x, run.p, best.y, self._deadline)
            if not below.has_point or not is_sure:
                continue
            for y in (best.y, self._choose(run, x, below.value)):
                if y is None:
                    continue
                found = run.measure(x, y, "exact lower answer at a round x", below)
                is_exact = loss_in_own_units(run.model, x, y, below.y, run.p, run.tolerance) <= EXACT
                if found.value <= most and run.is_acceptable(found) and is_exact and found.gap <= EXACT:
                    run.keep(found)
                    return True
        return False

    def _try_round(self, run: Run, x: Array, y: Array) -> None:
        """Ask at a round x beside a relaxed one: lower answers may change at just that x."""
        rounded = np.clip(np.round(x, ROUND), *run.model.bounds(run.p))
        if run.model.is_convex_below or np.array_equal(rounded, x):
            return
        below, is_sure = self.lower.solve(rounded, run.p, y, self._deadline)
        if below.has_point:
            self._propose(run, rounded, y, below.y, below.value, is_sure)

    def _inner_point(self, run: Run, x: Array, y: Array, value: float, gain: float) -> Array:
        """A lower point nearly as good as the best, away from rows that exclude it beside x."""
        coupled = self.problem.coupled_rows
        if not coupled.any() or self.problem.is_sharp(x, y) or self.problem.is_allowed_everywhere(y):
            return y
        level = value + HALF_WAY * gain
        inside = self.lower.inside(x, run.p, level, coupled, self._deadline)
        return y if inside is None else inside


def _is_plain(run: Run) -> bool:
    """Whether the lower level is a linear or quadratic program, on which SCIP has not erred."""
    model = run.model
    return model.is_convex_below and model.lower_program.kind in ("LP", "QP")
