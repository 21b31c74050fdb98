"""Followers that see one another: a Nash game below."""

from __future__ import annotations

from collections.abc import Sequence

from blomodel.declare.followers import Lower, check_followers
from blomodel.errors import ModelError


class Nash:
    """Followers in equilibrium: each does its best against what the others do.

    Unlike a plain list of followers, each objective and constraint may contain the other followers'
    variables. Of several equilibria the upper level takes the one that it likes best.

    Parameters
    ----------
    followers : list of Lower
        Each convex in its own variables. Where their cross derivatives agree, a potential stands for all
        of them; otherwise their objectives must be quadratic and their constraints affine in the
        followers' variables.

    Examples
    --------
    Two firms sell at the price 10 - q1 - q2; a regulator's tax shall bring in as much as it can.

    >>> import cvxpy as cp, blomodel as bm
    >>> tax, q1, q2 = cp.Variable(name="tax"), cp.Variable(name="q1"), cp.Variable(name="q2")
    >>> firms = [bm.Lower(cp.Maximize((10 - q1 - q2 - tax) * q), [q >= 0], [q]) for q in (q1, q2)]
    >>> problem = bm.BilevelProblem(cp.Maximize(tax * (q1 + q2)), [0 <= tax, tax <= 10], bm.Nash(firms))
    >>> round(problem.solve(), 4), round(float(tax.value), 4)
    (16.6667, 5.0)
    """

    def __init__(self, followers: Sequence[Lower]) -> None:
        if isinstance(followers, Lower):
            raise ModelError("bm.Nash takes a list of followers; a single one needs no game.")
        self.followers: tuple[Lower, ...] = check_followers(followers, see_each_other=True)
        for variable in (v for follower in self.followers for v in follower.variables):
            if variable.attributes["integer"] or variable.attributes["boolean"]:
                raise ModelError(
                    f"'{variable.name()}' is declared integer or boolean, and a game of whole numbers "
                    "need not have an equilibrium; bm.Nash takes followers with real variables."
                )

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.followers))

    def __repr__(self) -> str:
        return f"Nash({', '.join(map(repr, self.followers))})"
