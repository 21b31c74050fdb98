"""What the choice of ``auto`` depends on: facts of structure and size, each found once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio import proximal
from blomodel.methods.portfolio.smoothing import SmoothedSearch
from blomodel.methods.search.pieces import is_large, size_of
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import PieceObjective, convex_objective

CHEAP_SEARCHES = 12  # local searches for one lower answer, up to which it counts as cheap


class Situation:
    """What the choice of steps depends on: the model, its parameters' values, the starts wanted.

    ``stated``: the problem itself, where the model has variables for its kinks.
    """

    model: Model
    p: np.ndarray
    wanted: int | None
    n_starts: int
    size: int
    stated: Model | None

    def __init__(
        self, model: Model, p: np.ndarray, n_starts: int | None = None, stated: Model | None = None
    ) -> None:
        self.model, self.p, self.wanted, self.stated = model, p, n_starts, stated
        self.n_starts = n_starts or default_number_of_starts(model.x.size)
        self.size = size_of(model)

    @cached_property
    def objective(self) -> PieceObjective | None:
        """The upper objective on the pieces, where they are convex quadratic programs."""
        return convex_objective(self.model, self.p)

    @cached_property
    def has_dear_answers(self) -> bool:
        """Whether each lower answer takes many local searches, so that few can be asked for."""
        if self.model.is_convex_below:
            return False
        x = np.clip(np.zeros(self.model.x.size), *self.model.bounds(self.p))
        if self.model.fewest_searches(x, self.p) > CHEAP_SEARCHES:
            return True  # told without a search, which the steps may not need at this x
        answer, is_proven = self.model.solve_lower(x, self.p, np.zeros(self.model.y.size))
        count = answer.solver.split(" ")[0]
        return not is_proven and (not count.isdigit() or int(count) > CHEAP_SEARCHES)

    @cached_property
    def is_large(self) -> bool:
        """Whether one convex program over the KKT pieces would cost seconds."""
        return is_large(self.model)

    @property
    def first_level(self) -> int:
        """The level at which searches on exact pieces begin: a later one for each doubling of size."""
        return limits.PIECE_UNKNOWNS.doublings(self.size)

    @cached_property
    def why_no_pieces(self) -> str:
        """What keeps the pieces from being convex quadratic programs."""
        if not self.model.has_linear_kkt:
            return "the KKT conditions of the lower level, or upper constraints, are not linear"
        return "the upper objective is not a convex quadratic on the KKT pieces"

    @cached_property
    def why_not_smoothed(self) -> str | None:
        """What keeps descent on the smoothed lower level from this problem."""
        return SmoothedSearch.why_not(self.model)

    @cached_property
    def why_not_proximal(self) -> str | None:
        """What keeps the single loop of meha from this problem."""
        return proximal.why_not(self.model, self.p)


def default_number_of_starts(n_x: int) -> int:
    """Many starts in few dimensions, one where a start is expensive."""
    by_size = {limits.TEN_STARTS: 10, limits.SIX_STARTS: 6, limits.THREE_STARTS: 3}
    return next((count for limit, count in by_size.items() if limit.allows(n_x)), 1)
