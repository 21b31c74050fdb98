r"""A Nash game below as one lower level.

With :math:`g_i(x, y)` the objective of follower i, who decides :math:`y_i`:

Potential games.
    Where one function P has :math:`\nabla_{y_i} P = \nabla_{y_i} g_i` for every i, and each follower's
    rows hold its own variables alone, the minimisers of a convex P are the equilibria. P is found by
    letting the followers move from zero to y one after another.
Other games.
    With quadratic objectives and affine rows, the followers' KKT conditions are
    :math:`M y + q(x) + A'\lambda = 0` and complementarity. The lower level answers with y and
    :math:`\lambda` and minimises :math:`-\lambda\cdot c`, written as
    :math:`y\cdot(My + q) - \lambda\cdot c|_{y_i = 0}`, which is never negative, and zero at the
    equilibria. It is convex where M is monotone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jacobian
from blomodel.compiler.passes.polynomial import AFFINE, CONSTANT, polynomial
from blomodel.compiler.tape import Tape
from blomodel.declare.followers import Lower, follower_name, joint_name
from blomodel.declare.statement import Partner, Statement
from blomodel.errors import BlomodelError, ModelError
from blomodel.text.shorten import shorten, some_of
from blomodel.transformations.multipliers import WithMultipliers
from blomodel.transformations.transformation import Applied, Transformation

SAME = 1e-9  # relative difference of derivatives that count as equal
CONVEX = 1e-9  # relative: smallest eigenvalue of a Hessian that counts as zero
N_POINTS = 8  # at which derivatives are compared


class Game:
    """The derivatives of a game: each follower's slope in its own variables."""

    followers: tuple[Lower, ...]
    variables: list[cp.Variable]
    given: Block
    block: Block
    blocks: tuple[Block, Block]
    objectives: list[Tape]

    def __init__(self, followers: Sequence[Lower]) -> None:
        self.followers = tuple(followers)
        self.variables = [v for follower in followers for v in follower.variables]
        decided = {variable.id for variable in self.variables}
        parts = [part for f in followers for part in (f.minimised, *f.constraints)]
        given = {v.id: v for part in parts for v in (*part.variables(), *part.parameters())}
        self.given = Block("x", [leaf for key, leaf in given.items() if key not in decided])
        self.block = Block("y", self.variables)
        self.blocks = (self.given, self.block)
        self.y: cp.Expression = cp.hstack([cp.vec(leaf, order="F") for leaf in self.block.leaves])
        self.objectives = [lower([follower.minimised], self.blocks) for follower in followers]

    def own(self, follower: Lower) -> np.ndarray:
        """Where a follower's variables lie in y."""
        every = np.arange(self.block.size)
        return np.concatenate([every[self.block.slice_of(leaf)] for leaf in follower.variables])

    def slope(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Each follower's slope in its own variables, side by side."""
        found = np.zeros(self.block.size)
        for follower, objective in zip(self.followers, self.objectives, strict=True):
            own = self.own(follower)
            found[own] = gradient(objective, ("y",))(x, y)[own]
        return found

    @property
    def why_not_quadratic(self) -> str | None:
        """What keeps the KKT conditions from being linear in y and the multipliers."""
        for k, (follower, objective) in enumerate(zip(self.followers, self.objectives, strict=True)):
            facts = polynomial(objective)
            name = follower_name(self.followers, k)
            if facts.degree[0] > 2 or facts.coefficient_class[0, 2] > CONSTANT:
                return (
                    f"the objective {shorten(follower.objective.args[0])!r} of {name} is not quadratic "
                    "in the followers' variables with coefficients that are numbers"
                )
            for constraint in follower.constraints:
                if polynomial(lower([as_row(constraint)[1]], self.blocks)).degree.max(initial=0) > 1:
                    return f"the constraint {shorten(constraint)!r} of {name} is not affine"
        return None

    @property
    def matrix(self) -> np.ndarray:
        """M: how the slopes move with y, where the objectives are quadratic."""
        origin = np.zeros(self.given.size), np.zeros(self.block.size)
        found = np.zeros((self.block.size, self.block.size))
        for follower, objective in zip(self.followers, self.objectives, strict=True):
            own = self.own(follower)
            found[own] = jacobian(gradient(objective, ("y",)), ("y",), origin).toarray()[own]
        return found

    @property
    def shares_rows(self) -> bool:
        """Whether some follower's constraint holds another one's variable."""
        decided = {variable.id for variable in self.variables}
        for follower in self.followers:
            mine = {variable.id for variable in follower.variables}
            for constraint in follower.constraints:
                if any(v.id in decided - mine for v in constraint.variables()):
                    return True
        return False

    def check_own_convexity(self) -> None:
        """Refuse a follower whose KKT point need not be its best answer."""
        matrix = self.matrix
        for k, follower in enumerate(self.followers):
            own = self.own(follower)
            lowest = np.linalg.eigvalsh(_symmetric(matrix[np.ix_(own, own)])).min(initial=0.0)
            if lowest < -CONVEX * (1 + np.abs(matrix).max(initial=0.0)):
                raise ModelError(
                    f"The objective {shorten(follower.objective.args[0])!r} of "
                    f"{follower_name(self.followers, k)} is not convex in its own variables (its "
                    f"Hessian has the eigenvalue {lowest:.3g}), so that its optimality conditions do "
                    "not tell its best answer."
                )


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2


def find_potential(followers: Sequence[Lower]) -> cp.Expression | None:
    """A convex potential of a game; None where none is found, or rows are shared."""
    game = Game(followers)
    if game.shares_rows:
        return None
    terms = []
    for k, follower in enumerate(followers):
        later = [v for other in followers[k + 1 :] for v in other.variables]
        arrived = _at_zero(follower.minimised, later)
        terms.append(arrived - _at_zero(follower.minimised, [*later, *follower.variables]))
    potential = cp.sum(cp.hstack(terms))
    try:
        tape = lower([potential], game.blocks)
    except BlomodelError:
        return None
    if not _has_slopes(tape, game) or not _is_convex(potential, game):
        return None
    return potential


def _at_zero(expression: cp.Expression, variables: Sequence[cp.Variable]) -> cp.Expression:
    zeros = [cp.Constant(np.zeros(variable.shape)) for variable in variables]
    return Substitution(variables, zeros)(expression)


def _has_slopes(potential: Tape, game: Game) -> bool:
    """Whether the gradient of a function holds every follower's own slope."""
    slope = gradient(potential, ("y",))
    draw, compared = np.random.default_rng(0), 0
    for k in range(2 * N_POINTS):
        scale = 3.0 ** (k % 3 - 1)
        x, y = scale * draw.normal(size=game.given.size), scale * draw.normal(size=game.block.size)
        if k % 2:
            x, y = np.abs(x), np.abs(y)  # logarithms and roots have no value elsewhere
        with np.errstate(all="ignore"):
            ours, theirs = slope(x, y), game.slope(x, y)
        if not (np.all(np.isfinite(ours)) and np.all(np.isfinite(theirs))):
            continue
        compared += 1
        if np.abs(ours - theirs).max(initial=0.0) > SAME * (1 + np.abs(theirs).max(initial=0.0)):
            return False
    return compared >= N_POINTS // 2


def _is_convex(potential: cp.Expression, game: Game) -> bool:
    """Whether a potential is convex in y: by its Hessian if it is quadratic, else by cvxpy's rules."""
    if game.why_not_quadratic is None:
        values = np.linalg.eigvalsh(_symmetric(game.matrix))
        return bool(values.min(initial=0.0) >= -CONVEX * (1 + np.abs(values).max(initial=0.0)))
    fixed = [cp.Parameter(leaf.shape) for leaf in game.given.leaves]
    return bool(Substitution(game.given.leaves, fixed)(potential).is_convex())


class PotentialGame(Transformation):
    """One convex lower level whose minimisers are the equilibria.

    Parameters
    ----------
    potential : cvxpy expression
        See ``find_potential``.
    """

    name: ClassVar[str] = "potential of a game"

    def __init__(self, potential: cp.Expression) -> None:
        self.potential = potential

    def obstacle(self, statement: Statement) -> str | None:
        """The followers must play a game."""
        return None if statement.is_game else "the followers play no game"

    def apply(self, statement: Statement) -> Applied:
        """The potential in place of the objectives."""
        followers = statement.followers
        joint = Lower(
            cp.Minimize(self.potential),
            [constraint for follower in followers for constraint in follower.constraints],
            [variable for follower in followers for variable in follower.variables],
            name=joint_name(followers),
        )
        for follower in followers:
            joint.multipliers.update(follower.multipliers)
        names = some_of(follower_name(followers, k) for k in range(len(followers)))
        reason = (
            f"the cross derivatives of {names} agree, so the minimisers of one convex function are "
            "their equilibria"
        )
        after = replace(statement, followers=(joint,), is_game=False)
        return Applied(self.name, reason, statement, after)


class EquilibriumConditions(Transformation):
    """A lower level that answers with the followers' decisions and multipliers."""

    name: ClassVar[str] = "conditions of a game"

    def obstacle(self, statement: Statement) -> str | None:
        """The followers must play a game, with multipliers among the variables."""
        if not statement.is_game:
            return "the followers play no game"
        return Game(statement.followers).why_not_quadratic

    def apply(self, statement: Statement) -> Applied:
        """The followers' KKT conditions, with products of rows and multipliers to minimise."""
        followers, rows = statement.followers, statement.priced_rows
        game = Game(followers)
        game.check_own_convexity()
        owner = {v.id: k for k, follower in enumerate(followers) for v in follower.variables}
        owner |= {c.id: k for k, follower in enumerate(followers) for c in follower.constraints}
        matrix, slope = game.matrix, _slope_at_zero(game)
        lowest = np.linalg.eigvalsh(_symmetric(matrix)).min(initial=0.0)
        is_monotone = bool(lowest >= -CONVEX * (1 + np.abs(matrix).max(initial=0.0)))
        value = cp.quad_form(game.y, _symmetric(matrix), assume_PSD=is_monotone) + game.y @ slope
        pressure: cp.Expression = cp.Constant(np.zeros(game.block.size))
        for row in rows:
            held = [owner[v.id] for v in row.expression.variables() if v.id in owner]
            # What an attribute demands belongs to the follower that decides the variable.
            mine = followers[owner.get(row.constraint.id, held[0] if held else 0)]
            value -= cp.sum(cp.multiply(row.multiplier, _at_zero(row.expression, mine.variables)))
            pressure = pressure + _pressure(game, mine, row.expression, row.multiplier)
        stationarity = sp.csr_array(matrix) @ game.y + slope + pressure == 0
        n_stated = sum(len(follower.constraints) for follower in followers)
        partners = [Partner(n_stated, tuple(game.variables))]
        for position, row in enumerate(rows):
            place = position if position < n_stated else position + 1
            partners.append(Partner(place, (row.multiplier,)))
        joint = Lower(
            cp.Minimize(value),
            [*(c for follower in followers for c in follower.constraints), stationarity],
            [*game.variables, *(row.multiplier for row in rows)],
            name=joint_name(followers),
        )
        after = replace(
            statement,
            followers=(joint,),
            priced_rows=(),
            partners=tuple(partners),
            is_game=False,
            is_equilibrium=True,
        )
        kind = (
            "one convex program" if is_monotone else "no convex program: there may be several equilibria"
        )
        reason = (
            "the followers' optimality conditions, each with its own multipliers, take the place of "
            f"their objectives; {kind}"
        )
        return WithMultipliers(self.name, reason, statement, after)


def _slope_at_zero(game: Game) -> cp.Expression:
    """q(x): every follower's slope at y = 0, by numbers where it is affine in x."""
    origin = np.zeros(game.given.size), np.zeros(game.block.size)
    parts: list[cp.Expression] = []
    order: list[np.ndarray] = []
    for follower, objective in zip(game.followers, game.objectives, strict=True):
        own = game.own(follower)
        order.append(own)
        if polynomial(objective).coefficient_class[0, 1] <= AFFINE:
            slope = gradient(objective, ("y",))
            part: cp.Expression = cp.Constant(slope(*origin)[own])
            if game.given.size:
                moves = sp.csr_array(jacobian(slope, ("x",), origin))[own]
                part = part + moves @ cp.hstack([cp.vec(leaf, order="F") for leaf in game.given.leaves])
            parts.append(part)
            continue
        at_zero = _at(game, follower.minimised, np.zeros(game.block.size))
        curvature = game.matrix.diagonal()
        entries = []
        for place in own:
            unit = np.zeros(game.block.size)
            unit[place] = 1.0
            entries.append(_at(game, follower.minimised, unit) - at_zero - 0.5 * curvature[place])
        parts.append(cp.hstack(entries))
    back = np.argsort(np.concatenate(order))
    return cp.hstack(parts)[back]


def _at(game: Game, expression: cp.Expression, y: np.ndarray) -> cp.Expression:
    values = [cp.Constant(value.copy()) for value in game.block.unpack(y).values()]
    return Substitution(game.block.leaves, values)(expression)


def _pressure(game: Game, follower: Lower, row: cp.Expression, multiplier: cp.Variable) -> cp.Expression:
    """What a row's multiplier adds to the slope of the follower whose row it is."""
    tape = lower([row], game.blocks)
    if np.any(polynomial(tape).coefficient_class[:, 1] > CONSTANT):
        raise ModelError(
            f"The constraint {shorten(row)!r} of a game has coefficients of the followers' variables "
            "that depend on upper variables or parameters; they must be numbers."
        )
    origin = np.zeros(game.given.size), np.zeros(game.block.size)
    matrix = jacobian(tape, ("y",), origin).toarray()
    own = np.zeros(game.block.size, dtype=bool)
    own[game.own(follower)] = True
    kept = sp.csr_array(np.where(own, matrix, 0.0).T)
    return kept @ cp.vec(multiplier, order="F")
