"""SCIP: global optima and bounds of nonlinear mixed-integer programs, by spatial branch and bound.

pyscipopt is imported when it is first used. A program is stated once, row by row, and may then be solved
in portions of nodes: SCIP goes on where it ended. Bounds that leave this file are lowered by a stated
slack for the tolerances with which SCIP works.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from blomodel.basics.alarm import enter_shelter, leave_shelter
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.basics.troubles import count_trouble
from blomodel.compiler.tape import Tape
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.branching.scip_expressions import INFINITE, Formula, formulas, is_number
from blomodel.solvers.choice import count

Array = np.ndarray

FEASIBLE = 1e-7  # violation of a row that SCIP may leave; LPs below are ten times as exact
BOUND_SLACK = 1e-6  # relative: what SCIP's tolerances may have raised a bound by
WHOLE = 1e9  # beyond it a bound of a variable is as good as none
LARGE = 1e4  # up to it the largest value of a row is a good factor of its switch
HOPELESS = 1e-6  # violation of a row without variables from which there is no point at all
STACK = 1 << 26  # bytes for SCIP's thread: as much as a main thread has, and more than some systems give
BETWEEN_LOOKS = 0.1  # seconds
# For points; without bounds on the variables a single one may take seconds.
LEFT_OUT_SEARCHES = ("multistart", "mpec", "undercover", "nlpdiving", "alns")
_OPTIONS: dict[str, Any] = {
    "numerics/feastol": FEASIBLE,
    "numerics/dualfeastol": 1e-7,
    "propagating/obbt/dualfeastol": 1e-7,  # sharpened further, LPs would say that they cannot
    "misc/catchctrlc": False,  # Python does
    "misc/usesymmetry": 0,
    "constraints/nonlinear/tightenlpfeastol": False,  # beyond what its LPs can do it would complain
    "lp/threads": 1,
}


def is_installed() -> bool:
    """Whether SCIP's Python package is there; it is not imported for that."""
    return importlib.util.find_spec("pyscipopt") is not None


@dataclass(frozen=True)
class ScipAnswer:
    """What a portion of the search has found.

    Attributes
    ----------
    status : InnerStatus
        OPTIMAL once the search has ended, INACCURATE where a limit came first and there is a point,
        FAILED where there is none yet.
    value : float
        Of the best point; infinite without one.
    bound : float
        No point has a smaller objective; lowered by the slack for SCIP's tolerances.
    point : array or None
        Values of the variables that were asked for.
    nodes, programs : int
        Nodes and linear programs of the whole search so far.
    """

    status: InnerStatus
    value: float
    bound: float
    point: Array | None
    nodes: int
    programs: int = 0


def safe_bound(bound: float) -> float:
    """A bound of SCIP's less what its tolerances may have raised it by."""
    if bound >= INFINITE:
        return math.inf
    return -math.inf if bound <= -INFINITE else bound - BOUND_SLACK * (1 + abs(bound))


@lru_cache(maxsize=1)
def _watch_class() -> Any:
    """A handler of SCIP's events, made when SCIP is first used."""
    from pyscipopt import SCIP_EVENTTYPE, Eventhdlr

    class Watch(Eventhdlr):  # type: ignore[misc]
        """Counts linear programs, and ends the search after so many."""

        def __init__(self) -> None:
            self.count, self.most = 0, math.inf

        def eventinit(self) -> None:
            self.model.catchEvent(SCIP_EVENTTYPE.LPEVENT, self)

        def eventexec(self, event: Any) -> None:
            self.count += 1
            if self.count >= self.most:
                self.model.interruptSolve()

    return Watch


@lru_cache(maxsize=1)
def _workshop(process: int) -> ThreadPoolExecutor:
    """The one thread in which SCIP works in a process: its derivatives allow for few threads only."""
    before = threading.stack_size(STACK)
    try:
        workshop = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scip")
        workshop.submit(os.getpid).result()  # threads are started with the first work
    finally:
        threading.stack_size(before)
    return workshop


class ScipProgram:
    """Variables, rows and an objective, as SCIP holds them.

    Parameters
    ----------
    finds_points : bool
        Whether to look for good points early. Without, only branching finds some: enough where the
        question is whether there are any.
    is_other : bool
        Whether complementarity is stated by switches, and rows are taken in another order: the same
        program, for a second proof of what it says.
    """

    def __init__(self, *, finds_points: bool = True, is_other: bool = False) -> None:
        import pyscipopt

        self._scip: Any = pyscipopt.Model()
        self._scip.hideOutput()
        for name, value in _OPTIONS.items():
            self._scip.setParam(name, value)
        if not finds_points:
            self._scip.setHeuristics(pyscipopt.SCIP_PARAMSETTING.OFF)
        for name in LEFT_OUT_SEARCHES:
            self._scip.setParam(f"heuristics/{name}/freq", -1)
        self._is_other = is_other
        if is_other:
            self._scip.setParam("randomization/permutationseed", 1)
            self._scip.setParam("randomization/randomseedshift", 1)
        self._watch = _watch_class()()
        self._scip.includeEventhdlr(self._watch, "watch", "counts linear programs")
        self._variables: list[Any] = []  # the first ones are those a point is made of
        self._is_contradictory = False
        self._is_broken = False  # whether SCIP gave up with an error
        self._cutoff = math.inf

    # -- stating ---------------------------------------------------------------------------------

    def variables(self, low: Array, high: Array, is_integer: Array | None = None) -> list[Any]:
        """New variables between bounds, which may be infinite."""
        whole = np.zeros(len(low), dtype=bool) if is_integer is None else is_integer
        made = [
            self._scip.addVar(
                vtype="I" if is_whole else "C",
                lb=float(math.ceil(least - FEASIBLE) if is_whole else least) if least > -WHOLE else None,
                ub=float(math.floor(most + FEASIBLE) if is_whole else most) if most < WHOLE else None,
            )
            for least, most, is_whole in zip(low, high, whole, strict=True)
        ]
        self._variables += made
        return made

    def formulas(self, tape: Tape | None, inputs: Mapping[str, Sequence[Formula]]) -> list[Formula]:
        """The outputs of a tape in terms of variables."""
        return [] if tape is None else formulas(tape, inputs, self.named, self.within_a_turn)

    def at_most_zero(self, rows: Iterable[Formula]) -> None:
        """Rows ``<= 0``."""
        for row in rows:
            if is_number(row):
                self._is_contradictory |= not row <= HOPELESS
            else:
                self._scip.addCons(row <= 0.0)

    def equal_zero(self, rows: Iterable[Formula]) -> None:
        """Rows ``== 0``."""
        for row in rows:
            if is_number(row):
                self._is_contradictory |= not abs(row) <= HOPELESS
            else:
                self._scip.addCons(row == 0.0)

    def named(self, formula: Formula, *, at_least: bool = False) -> Any:
        """A variable that equals a formula, or is at least as large."""
        variable = self._scip.addVar(lb=None, ub=None)
        self._scip.addCons(variable >= formula if at_least else variable == formula)
        return variable

    def within_a_turn(self, angle: Formula, low: float, high: float) -> Any:
        """A variable in [0, 2 pi] that differs from an angle by whole turns."""
        full = 2 * math.pi
        turns = self._scip.addVar(
            vtype="I",
            lb=float(math.floor(low / full)) if math.isfinite(low) else None,
            ub=float(math.floor(high / full)) if math.isfinite(high) else None,
        )
        rest = self._scip.addVar(lb=0.0, ub=full)
        self._scip.addCons(angle - rest - full * turns == 0.0)
        return rest

    def slack_of(self, row: Formula) -> Any:
        """A nonnegative variable by which a row ``<= 0`` is below zero."""
        if is_number(row):
            self._is_contradictory |= not row <= HOPELESS
            return self._scip.addVar(lb=max(-row, 0.0), ub=max(-row, 0.0))
        slack = self._scip.addVar(lb=0.0, ub=None)
        self._scip.addCons(row + slack == 0.0)
        return slack

    def one_is_zero(self, first: Any, second: Any) -> None:
        """Of two nonnegative variables one must vanish."""
        if not self._is_other:
            self._scip.addConsSOS1([first, second])
            return
        switches = [self._scip.addVar(vtype="B") for _ in range(2)]
        for variable, switch in zip((first, second), switches, strict=True):
            self._scip.addConsIndicator(variable <= 0.0, binvar=switch)
        self._scip.addCons(switches[0] + switches[1] >= 1.0)

    def one_holds(self, rows: Sequence[Formula]) -> None:
        """One of several rows is ``<= 0``, at least."""
        numbers = [row for row in rows if is_number(row)]
        others = [row for row in rows if not is_number(row)]
        if any(row <= 0.0 for row in numbers):
            return
        if len(others) <= 1:
            self.at_most_zero(others or [math.inf])
            return
        switches = [self._switch(row) for row in others]
        self._scip.addCons(sum(switches[1:], switches[0]) >= 1.0)

    def _switch(self, row: Formula) -> Any:
        """What can be 1 only where a row is ``<= 0``: a 0-1 variable of its own, or a new one."""
        constant, slopes = _linear_parts(row)
        if slopes is None:
            switch = self._scip.addVar(vtype="B")
            self._scip.addConsIndicator(self.named(row) <= 0.0, binvar=switch)
            return switch
        ends = [(variable.getLbOriginal(), variable.getUbOriginal()) for variable, _ in slopes]
        if len(slopes) == 1 and slopes[0][0].vtype() in ("BINARY", "INTEGER") and ends[0] == (0.0, 1.0):
            variable, slope = slopes[0]
            if constant > 0.0 >= constant + slope:
                return variable
            if constant <= 0.0 < constant + slope:
                return 1.0 - variable
        switch = self._scip.addVar(vtype="B")
        worst = constant + sum(
            max(slope * low, slope * high) for (_, slope), (low, high) in zip(slopes, ends, strict=True)
        )
        if worst <= LARGE:
            self._scip.addCons(row <= max(worst, 0.0) * (1.0 - switch))
        else:
            self._scip.addConsIndicator(row <= 0.0, binvar=switch)
        return switch

    def minimise(self, objective: Formula) -> None:
        """State the objective; a variable stands for it where it is not linear."""
        is_linear = not is_number(objective) and getattr(objective, "terms", None) is not None
        if is_linear and objective.degree() <= 1:
            self._scip.setObjective(objective)
        elif is_number(objective):
            self._scip.setObjective(self.named(objective))
        else:
            self._scip.setObjective(self.named(objective, at_least=True))

    # -- solving ---------------------------------------------------------------------------------

    def start_from(self, values: Array) -> None:
        """Values of the first variables, from which SCIP completes a first point if it can."""
        solution = self._scip.createPartialSol()
        for variable, value in zip(self._variables, values, strict=False):
            self._scip.setSolVal(solution, variable, float(value))
        self._scip.addSol(solution)

    def solve(
        self,
        n_values: int,
        *,
        max_nodes: float = math.inf,
        max_programs: float = math.inf,
        gap: float = 0.0,
        enough: float = math.inf,
        cutoff: float = math.inf,
        deadline: Deadline = NEVER,
        processor: float = math.inf,
    ) -> ScipAnswer:
        """Branch until the bound meets the best point, or a limit is reached.

        Parameters
        ----------
        n_values : int
            How many of the first variables the point shall hold.
        max_nodes, max_programs : float
            Nodes, and linear programs, of this portion.
        gap : float
            Relative difference of value and bound at which the search ends.
        enough : float
            A bound that is large enough.
        cutoff : float
            Points that are not better than this are of no interest.
        deadline : Deadline
        processor : float
            Seconds of the processor's work, which do not depend on what else a machine does.
        """
        scip = self._scip
        if self._is_contradictory:
            return ScipAnswer(InnerStatus.INFEASIBLE, math.inf, math.inf, None, 0)
        if self._is_broken:
            return ScipAnswer(InnerStatus.FAILED, math.inf, -math.inf, None, 0)
        if self._cutoff < cutoff or scip.getStageName() == "SOLVED":
            scip.freeTransform()  # a search that has ended, or had thrown away too much, begins anew
        done = scip.getNTotalNodes() if scip.getStageName() in ("SOLVING", "SOLVED") else 0
        scip.setParam("limits/totalnodes", -1 if math.isinf(max_nodes) else int(done + max_nodes))
        scip.setParam("limits/gap", gap)
        if math.isfinite(enough):
            scip.setParam("limits/dual", enough + BOUND_SLACK * (1 + 2 * abs(enough)))
        deadline = min(deadline, end_of_work())
        seconds = scip.getSolvingTime() + max(deadline.remaining, 0.0)
        scip.setParam("limits/time", INFINITE if deadline.is_never else seconds)
        scip.setObjlimit(min(cutoff, INFINITE))
        self._cutoff = cutoff
        self._watch.most = self._watch.count + max_programs
        self._optimise(processor)
        count("scip")
        if self._is_broken:
            count_trouble("scip")
            return ScipAnswer(InnerStatus.FAILED, math.inf, -math.inf, None, 0)
        return self._answer(n_values, cutoff)

    def _optimise(self, processor: float) -> None:
        """Let SCIP work in a thread of its own, so that a Ctrl-C or a limit is noticed here."""
        end = time.process_time() + processor
        work = _workshop(os.getpid()).submit(self._scip.optimizeNogil)
        try:
            while not work.done():
                wait([work], BETWEEN_LOOKS)
                if time.process_time() > end:
                    self._stop()
        except BaseException:
            enter_shelter()  # nothing may leave SCIP at work
            try:
                while not work.done():
                    self._stop()
                    wait([work], BETWEEN_LOOKS)
            finally:
                leave_shelter()
            raise
        # Its own linear programs may fail, after which nothing that it holds can be trusted.
        self._is_broken = work.exception() is not None

    def _stop(self) -> None:
        """Ask SCIP to end; between two of its stages it refuses, and has to be asked again."""
        with contextlib.suppress(Exception):
            self._scip.interruptSolve()

    def _answer(self, n_values: int, cutoff: float) -> ScipAnswer:
        scip = self._scip
        status = scip.getStatus()
        nodes, programs = int(scip.getNTotalNodes()), int(self._watch.count)
        if status == "infeasible":
            # Nothing at all, or nothing below the cutoff.
            return ScipAnswer(
                InnerStatus.INFEASIBLE, math.inf, safe_bound(cutoff), None, nodes, programs
            )
        if status in ("unbounded", "inforunbd"):
            return ScipAnswer(InnerStatus.UNBOUNDED, -math.inf, -math.inf, None, nodes, programs)
        bound = safe_bound(min(scip.getDualbound(), cutoff))
        if not scip.getNSols():
            return ScipAnswer(InnerStatus.FAILED, math.inf, bound, None, nodes, programs)
        best = scip.getBestSol()
        point = np.array([scip.getSolVal(best, v) for v in self._variables[:n_values]])
        ended = status in ("optimal", "gaplimit")
        return ScipAnswer(
            InnerStatus.OPTIMAL if ended else InnerStatus.INACCURATE,
            float(scip.getPrimalbound()),
            bound,
            point,
            nodes,
            programs,
        )

    @property
    def is_unsettled(self) -> bool:
        """Whether a further portion would go on with the search."""
        return str(self._scip.getStageName()) in ("PROBLEM", "SOLVING", "PRESOLVED", "TRANSFORMED")


def _linear_parts(row: Formula) -> tuple[float, list[tuple[Any, float]] | None]:
    """Constant and slopes of a row that is linear; None in place of the slopes of any other."""
    terms = getattr(row, "terms", None)
    if terms is None:
        is_variable = hasattr(row, "getLbOriginal")
        return 0.0, [(row, 1.0)] if is_variable else None
    constant, slopes = 0.0, []
    for term, factor in terms.items():
        if len(term) > 1:
            return 0.0, None
        if len(term) == 0:
            constant += factor
        elif factor:
            slopes.append((term[0], float(factor)))
    return constant, slopes
