"""The lower level's KKT conditions with relaxed complementarity, by a nonlinear solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from blomodel.methods.requirements.needs import lower_conditions, written_kkt_conditions
from blomodel.methods.run.capabilities import Assumption, Capability, Extra
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start, find_starts
from blomodel.methods.search.pieces import improve_by_pieces
from blomodel.reformulations.mpec import LowerConditions, build_problem
from blomodel.solvers.nlp import nonlinear_modules, nonlinear_solver, solve_nonlinear
from blomodel.solvers.registry import InnerSolver

LEVELS = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)  # of t, from every product allowed to almost none
SAME = 1e-5  # relative distance below which two ends count as one
POLISHING_ROUNDS = 5
ENOUGH_AGREEMENT = 3  # starts that end at the best value found
NONLINEAR_SOLVERS = Extra("nlp", "a nonlinear solver (IPOPT or UNO)", nonlinear_modules())


def chosen_solver(run: Run, method: Any) -> None:
    """The nonlinear solver that the user prefers, or any, installed."""
    nonlinear_solver(method.name)


@method
@dataclass(frozen=True, kw_only=True)
class KKT:
    r"""Minimise f over the lower level's KKT conditions, complementarity relaxed.

    The product of a multiplier :math:`\lambda` and its slack s, which must vanish, may be t at
    first. With a large t the feasible set is connected and smooth, and the local solution found is often
    a good one. Then t goes to zero, each search starting where the last ended, and a few steps
    on the pieces of the conditions make the end exact. A start whose first search ends where an
    earlier one did is not followed further.
    """

    name: ClassVar[str] = "kkt"
    summary: ClassVar[str] = "KKT conditions with relaxed complementarity, by IPOPT or UNO"
    assumes: ClassVar[str] = "lower level smooth or with convex kinks"
    claims: ClassVar[str] = "local solution of the KKT reformulation"
    reference: ClassVar[str] = "relaxation: Scholtes (2001); IPOPT: Waechter and Biegler (2006)"
    costs: ClassVar[str] = "one nonlinear program for each start and each level of relaxation"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.NONCONVEX_LOWER,
            Capability.COUPLED_LOWER,
            Capability.COUPLED_UPPER,
            Capability.LOWER_CONSTRAINTS,
            Capability.PROX_TERMS,
            Capability.KINKS,
        }
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (chosen_solver, written_kkt_conditions)
    packages: ClassVar[tuple[Extra, ...]] = (NONLINEAR_SOLVERS,)

    n_starts: int = setting(5, "start points", minimum=1)

    def run(self, run: Run) -> None:
        """Follow t to zero from several starts."""
        solver = nonlinear_solver(f"method {self.name!r}")
        conditions = lower_conditions(run)
        problem = build_problem(conditions)
        run.note(f"nonlinear solver: {solver.name}")
        first_ends: list[np.ndarray] = []
        agreement = 0
        for start in find_starts(run, self.n_starts):
            before = run.best()
            reached = self._follow(run, solver, conditions, problem, start, first_ends)
            best = run.best()
            if best is None or reached is None:
                continue
            small = run.tolerance * (1 + abs(best.value))
            has_improved = before is None or best.value < before.value - small
            agreement = 1 if has_improved else agreement + (abs(reached - best.value) <= small)
            if agreement >= ENOUGH_AGREEMENT:
                run.note(f"{agreement} starts ended at the best value, so the others were left out")
                return

    def _follow(
        self,
        run: Run,
        solver: InnerSolver,
        conditions: LowerConditions,
        problem: cp.Problem,
        start: Start,
        first_ends: list[np.ndarray],
    ) -> float | None:
        """Drive t to zero from one start; the upper objective reached, None if there is none."""
        conditions.start(*start, run.p)
        # A lower level that is not convex is searched from many starts, so only the end pays for it.
        is_convex = run.model.is_convex_below
        if is_convex:
            self._answer_below(run, *start)
        levels = LEVELS if conditions.has_complementarity else LEVELS[-1:]
        point = None
        for level in levels:
            conditions.relaxation.value = level
            answer = solve_nonlinear(problem, solver, run.deadline)
            run.evaluations += 1
            if answer.has_point:
                point = conditions.point() or point
                if point is not None and is_convex:  # so that a limit or Ctrl-C leaves the best x so far
                    self._answer_below(run, *point)
                run.step(value=answer.value, relaxation=level)
            else:
                run.check_limits()
            if level == levels[0] and point is not None:
                end = np.concatenate(point)
                reach = SAME * (1 + np.abs(end).max(initial=0))
                if any(np.abs(end - other).max(initial=0) <= reach for other in first_ends):
                    return None
                first_ends.append(end)
        if point is None:
            return None
        reached = run.propose(*point, "KKT conditions")
        if not is_convex:
            self._answer_below(run, *point)
            return reached.value
        # A product of 1e-8 leaves digits to gain, which the pieces around the end have exactly.
        polished = improve_by_pieces(run, *point, max_rounds=POLISHING_ROUNDS)
        return min(reached, polished, key=lambda candidate: candidate.cautious_value).value

    @staticmethod
    def _answer_below(run: Run, x: np.ndarray, y: np.ndarray) -> None:
        """Propose x with the lower level's own answer, which t > 0 leaves y away from."""
        x = np.clip(x, *run.model.bounds(run.p))
        answer, _ = run.solve_lower(x, y)
        if answer.status.has_point:
            run.propose(x, answer.y, "lower answer at the x of the KKT conditions")
        else:
            run.tried.append((x, answer.status))
