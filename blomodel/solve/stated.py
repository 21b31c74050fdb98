"""The two levels as a user states them, checked, and the models that are compiled from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.leaf_ids import reserve_leaf_ids
from blomodel.declare.followers import Lower, Objective, check_followers
from blomodel.declare.forgotten import warn_of_forgotten
from blomodel.declare.leaves import Leaves
from blomodel.declare.levels import (
    Levels,
    check_computed,
    check_constraints,
    check_objective,
    check_parameters,
    warn_of_levels,
)
from blomodel.declare.nash import Nash
from blomodel.declare.statement import state
from blomodel.errors import ModelError, NotSolvedError
from blomodel.solution import Solution
from blomodel.solve.copying import deep_copy, portable_state
from blomodel.solve.starts import UserStart
from blomodel.status import Status
from blomodel.transformations.attributes import PlainVariables
from blomodel.transformations.chain import Chain
from blomodel.transformations.followers import JoinFollowers
from blomodel.transformations.kinked_rows import RowsWithoutKinks
from blomodel.transformations.multipliers import MultipliersInAnswer
from blomodel.transformations.transformation import Transformation

if TYPE_CHECKING:
    from blomodel.certification.certificate import Certificate
    from blomodel.model.model import Model
    from blomodel.problem import BilevelProblem
    from blomodel.solve.route import Route


class StatedProblem:
    """A problem as it was stated, and what is compiled from it on first use.

    ``BilevelProblem`` adds what users ask of a problem.
    """

    def __init__(
        self,
        objective: Objective,
        constraints: Iterable[Constraint] = (),
        lower: Lower | Sequence[Lower] | Nash | None = None,
        variables: Sequence[cp.Variable] | None = None,
        transformations: Sequence[Transformation] = (),
    ) -> None:
        self.objective: Objective = check_objective(objective, "upper")
        self.constraints: list[Constraint] = check_constraints(constraints, "upper")
        self.is_game: bool = isinstance(lower, Nash)
        stated = lower.followers if isinstance(lower, Nash) else check_followers(lower)
        self.followers: tuple[Lower, ...] = stated
        self.transformations: tuple[Transformation, ...] = tuple(transformations)
        self.declared: tuple[cp.Variable, ...] | None = None if variables is None else tuple(variables)
        self._derive()
        lower_parts = [part for f in self.followers for part in (f.objective.args[0], *f.constraints)]
        upper_parts = [self.objective.args[0], *self.constraints]
        is_told = warn_of_levels(self.levels, upper_parts, lower_parts, variables, stacklevel=3)
        if variables is None and not is_told:
            warn_of_forgotten(self.levels, upper_parts, self.followers, stacklevel=3)
        self.status: Status | None = None
        self.solution: Solution | None = None
        self._certificate: Certificate | None = None
        self.user_start: UserStart = UserStart()

    def _derive(self) -> None:
        """Whose variable is whose, and one lower level for all followers."""
        join, has_multipliers = _how_to_join(self.followers, self.is_game)
        stated = state(
            self.objective,
            self.constraints,
            self.followers,
            self.declared,
            is_game=self.is_game,
            has_multipliers=has_multipliers,
        )
        self.levels: Levels = stated.levels
        # Nothing is compiled for this, unless the upper level uses multipliers: whether the lower level
        # has any that it can use is said here, where the mistake would be.
        chain = Chain(stated).then(join) if self.is_game else Chain(stated).where_accepted(join)
        self._joint = chain.where_accepted(MultipliersInAnswer())
        self.lower: Lower = self._joint.end.lower
        self._rows = self._present_rows()

    def _present_rows(self) -> list[int]:
        stated = [self.constraints, *(follower.constraints for follower in self.followers)]
        return [row.id for constraints in stated for row in constraints]

    def __getstate__(self) -> dict[str, Any]:
        return portable_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        reserve_leaf_ids(state.pop("first_free_id"))
        values = state.pop("values")
        vars(self).update(state)
        if self.solution is not None:
            whole = cast("BilevelProblem", self)
            self.solution = replace(self.solution, problem=whole)
        self._derive()
        for leaf, value in zip(self.variables, values, strict=True):
            leaf.save_value(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return deep_copy(self, memo)

    def __copy__(self) -> Self:
        made = object.__new__(type(self))  # the same variables and compiled models
        vars(made).update(vars(self))
        return made

    @property
    def certificate(self) -> Certificate | None:
        """The check of the last solve's answer; None where that left no point to check.

        Raises
        ------
        NotSolvedError
            Before the first ``solve()``.
        """
        if self.status is None and self._certificate is None:
            raise NotSolvedError(
                "There is no certificate yet: a certificate is the check of an answer. Call solve() "
                "first, or bm.certify(problem, x, y) for a point of your own."
            )
        return self._certificate

    @certificate.setter
    def certificate(self, certificate: Certificate | None) -> None:
        self._certificate = certificate

    @contextmanager
    def kept_result(self) -> Iterator[None]:
        """Put back status, solution and certificate at the end of a block."""
        saved = self.status, self.solution, self._certificate
        try:
            yield
        finally:
            self.status, self.solution, self._certificate = saved

    @property
    def sign(self) -> float:
        """+1 when the upper level minimises, -1 when it maximises."""
        return 1.0 if isinstance(self.objective, cp.Minimize) else -1.0

    @property
    def value(self) -> float | None:
        """Upper objective at the answer, as the user wrote it; None before solve()."""
        return None if self.solution is None else self.solution.value

    @property
    def variables(self) -> Leaves[cp.Variable]:
        """Variables of both levels, upper first; cvxpy's call ``variables()`` gives them as a list."""
        return Leaves((*self.levels.upper, *self.levels.lower))

    @property
    def parameters(self) -> Leaves[cp.Parameter]:
        """Parameters that occur at either level; ``parameters()`` gives them as a list."""
        return Leaves(self.levels.parameters)

    _fitted: tuple[Chain, Model | None] | None = None  # what was put aside by in_stated_units

    @cached_property
    def plain_chain(self) -> Chain:
        """What is done to every problem: followers joined, multipliers answered, all rows plain."""
        from blomodel.transformations.equal_parts import EqualPartsTogether  # brings the compiler

        kinks, equal, joint = RowsWithoutKinks(), EqualPartsTogether(), self._joint
        # One long vector costs little to rewrite. But rows that are to be taken apart come first, and
        # where rows have partners those of attributes must be among them.
        if not joint.end.partners and not kinks.accepts(joint.end):
            joint = joint.where_accepted(equal)
        return joint.where_accepted(PlainVariables(), kinks, equal)

    @cached_property
    def chain(self) -> Chain:
        """All that is done to the problem before it is compiled; ``print`` it for a line on each step.

        Examples
        --------
        >>> import cvxpy as cp, blomodel as bm
        >>> x, y = cp.Variable(name="x"), cp.Variable(nonneg=True, name="y")
        >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
        >>> print(bm.BilevelProblem(cp.Minimize((x + 1) ** 2 + y), [], lower).chain)
        attributes as rows: what is compiled has no attributes, so 'y' is free and rows say the rest
        """
        if self.transformations:  # which know best what is good for the problem
            return self.plain_chain.then(*self.transformations)
        if not self.levels.p.has_values:
            return self.plain_chain
        route = self._route
        scaled = route.base.where_accepted(route.scales)  # with objectives in their own units too
        return route.base.where_accepted(route.units) if scaled is route.base else scaled

    @cached_property
    def _route(self) -> Route:
        """What the parameters' values have decided: origins, units, and what is convex."""
        from blomodel.solve.route import find_route  # brings the compiler

        return find_route(self.plain_chain, self.plain_model, self.parameter_values())

    def _follow_parameters(self) -> None:
        """Forget what other values of the parameters have decided, where these decide otherwise.

        So an answer does not depend on the values for which the problem was solved before.
        """
        if not self.levels.parameters or self.transformations or "chain" not in vars(self):
            return
        known = vars(self).get("_route")
        if known is not None:
            p = self.parameter_values()
            if known.p == p.tobytes():
                return
            from blomodel.solve.route import find_route

            found = find_route(self.plain_chain, self.plain_model, p)
            if found.is_same_as(known):
                vars(self)["_route"] = replace(known, p=found.p)
                return
        for name in ("_route", "chain"):
            vars(self).pop(name, None)
        self.forget_models()

    @cached_property
    def model(self) -> Model:
        """What methods solve, compiled from the end of the chain, once for all parameters' values."""
        if len(self.chain) == len(self.plain_chain):
            return self.plain_model
        route: Route | None = vars(self).get("_route")
        if route is not None and self.chain is route.base:
            return route.model
        return self._compile(self.chain)

    @cached_property
    def plain_model(self) -> Model:
        """The problem in the variables and units that it was stated in, compiled.

        It is ``model`` itself, unless there are further transformations. Certificate, studies and
        pictures speak of it; its vectors hold the variables of ``levels``.
        """
        return self._compile(self.plain_chain)

    @property
    def judged_chain(self) -> Chain:
        """What the certificate does to the problem first: its units, no transformation of the user's."""
        if self._fitted is not None:
            return self._fitted[0]
        return self.plain_chain if self.transformations else self.chain

    @property
    def judged_model(self) -> Model:
        """The problem in the units in which the certificate judges."""
        if self._fitted is not None:
            chain, model = self._fitted
            self._fitted = chain, model or self._compile(chain)
            return self._fitted[1]
        return self.plain_model if self.transformations else self.model

    @contextmanager
    def in_stated_units(self) -> Iterator[None]:
        """Let a method see the problem in the units in which it was stated.

        A step or a weight that a user gives, or a paper prints, is a number in these. The certificate
        judges in fitting units all the same.
        """
        self.check_data()
        if self.transformations or len(self.chain) == len(self.plain_chain):
            yield
            return
        fitted = self.chain
        self._fitted = fitted, vars(self).pop("model", None)
        vars(self)["chain"] = self.plain_chain
        try:
            yield
        finally:
            model = self._fitted[1]
            self._fitted = None
            vars(self)["chain"] = fitted
            vars(self).pop("model", None)
            if model is not None:
                vars(self)["model"] = model

    @staticmethod
    def _compile(chain: Chain) -> Model:
        from blomodel.model.model import Model

        return Model(chain.end)

    def forget_models(self) -> None:
        """Compile anew when a model is next asked for."""
        for name in ("model", "plain_model"):
            vars(self).pop(name, None)

    def check_data(self) -> None:
        """Raise when a parameter has no value or one that is not finite, or the constraints changed.

        Parameters that have other values than before may ask for another way to solve the problem.
        """
        if self._rows != self._present_rows():
            raise ModelError(
                "A constraint was added, removed or replaced after the problem was made, which is not "
                "seen by what is solved; make a new bm.BilevelProblem(...) with all constraints (for "
                "data that change, use a cp.Parameter)."
            )
        check_parameters(self.levels.parameters)
        if self.levels.parameters:
            levels = [(f.objective, f.constraints) for f in self.followers]
            for objective, rows in [(self.objective, self.constraints), *levels]:
                check_computed([objective.args[0], *rows])
        self._follow_parameters()

    def parameter_values(self) -> np.ndarray:
        """The parameters' present values as one vector."""
        return self.levels.p.pack()


def _how_to_join(followers: tuple[Lower, ...], is_game: bool) -> tuple[Transformation, bool]:
    """What makes one lower level of the followers, and whether it answers with multipliers."""
    if not is_game:
        return JoinFollowers(), False
    # The derivatives of a game are compiled here, since they decide what the variables are.
    from blomodel.transformations.nash import EquilibriumConditions, PotentialGame, find_potential

    potential = find_potential(followers)
    return (EquilibriumConditions(), True) if potential is None else (PotentialGame(potential), False)
