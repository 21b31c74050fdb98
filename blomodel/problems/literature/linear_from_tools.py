"""Problems of BASBLib and of BilevelJuMP's tests whose lower level is linear in y."""

from __future__ import annotations

import cvxpy as cp
from cvxpy import Variable

from blomodel.problems.entries import Levels, stated


@stated("LP", "BASBLib", 0, (0, 0), start=(0, -5))
def as_2013_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, as_2013_01."""
    return Levels(
        -x - y,
        [-10 <= x, x <= 10],
        y,
        [x <= y, y <= 0, -10 <= y, y <= 10],
    )


@stated("LP", "BASBLib", -2, (0, (0, 1)), start=(5, (5, 5)))
def b_1991_01v(x: Variable, y: Variable) -> Levels:
    """BASBLib, b_1991_01v: a linear example of Bard (1991), changed."""
    return Levels(
        10 * y[0] - x - 2 * y[1],
        [0 <= x, x <= 10],
        -y[0] - y[1],
        [0 <= y, y <= 10, x + y[0] <= 1, x + y[1] <= 1, y[0] + y[1] <= 1],
    )


@stated("LP", "BilevelJuMP", 28 / 9, (8 / 9, 20 / 9), start=(0, 0))
def bard_1998_208(x: Variable, y: Variable) -> Levels:
    """Bard (1998), page 208."""
    return Levels(
        x + y,
        [0 <= x],
        -5 * x - y,
        [0 <= y, 2 <= x + 0.5 * y, y <= 0.25 * x + 2, x + 0.5 * y <= 8, x <= 2 * y + 4],
    )


@stated("LP", "BilevelJuMP", -29.2, ((0, 0.9), (0, 0.6, 0.4)), start=((0, 0), (0, 0, 0)))
def bard_1998_5_3_1(x: Variable, y: Variable) -> Levels:
    """Bard (1998), example 5.3.1."""
    return Levels(
        4 * y[0] - 8 * x[0] - 4 * x[1] - 40 * y[1] - 4 * y[2],
        [0 <= x],
        x[0] + 2 * x[1] + y[0] + y[1] + 2 * y[2],
        [
            0 <= y,
            y[1] + y[2] <= y[0] + 1,
            2 * x[0] + 2 * y[1] <= y[0] + 0.5 * y[2] + 1,
            2 * x[1] + 2 * y[0] <= y[1] + 0.5 * y[2] + 1,
        ],
    )


@stated("LP", "BilevelJuMP", -1, (0, (0, 1)), start=(0.5, (0, 0)))
def bard_1998_8_1_2(x: Variable, y: Variable) -> Levels:
    """Bard (1998), example 8.1.2.

    The lower answer is not unique; the value is the optimistic one.
    """
    return Levels(
        10 * y[0] - 10.1 * x - y[1],
        [0 <= y, 0 <= x],
        -y[0] - y[1],
        [0 <= y, x <= y[0] + 1, x + y[1] <= 1, y[0] + y[1] <= 1],
    )


@stated("LP", "BilevelJuMP", -2, (0, (0, 1)), start=(0.5, (0, 0)))
def bard_1998_8_1_2_changed(x: Variable, y: Variable) -> Levels:
    """Bard (1998), example 8.1.2 with another upper objective.

    The lower answer is not unique.
    """
    return Levels(
        10 * y[0] - x - 2 * y[1],
        [0 <= x],
        -y[0] - y[1],
        [0 <= y, x <= y[0] + 1, x + y[1] <= 1, y[0] + y[1] <= 1],
    )


@stated("LP", "BASBLib", -26, ((0, 0.9), (0, 0.6, 0.4)), start=((5, 5), (5, 5, 5)))
def bf_1982_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, bf_1982_01: Bard and Falk (1982)."""
    return Levels(
        4 * y[0] + 4 * y[2] - 8 * x[0] - 4 * x[1] - 40 * y[1],
        [0 <= x, x <= 10],
        x[0] + 2 * x[1] + y[0] + y[1] + 2 * y[2],
        [
            0 <= y,
            y <= 10,
            y[1] + y[2] <= y[0] + 1,
            2 * x[0] + 2 * y[1] <= y[0] + 0.5 * y[2] + 1,
            2 * x[1] + 2 * y[0] <= y[1] + 0.5 * y[2] + 1,
        ],
    )


@stated("LP", "BilevelJuMP", -8, (2, 0), start=(0, 0))
def bilevel_jump_1(x: Variable, y: Variable) -> Levels:
    """A linear problem from the tests of BilevelJuMP.

    Rows of the lower level with x alone restrict x.
    """
    return Levels(
        -4 * x - 3 * y,
        [],
        y,
        [2 * x + y <= 4, x + 2 * y <= 4, 0 <= x, 0 <= y],
    )


@stated("LP", "BilevelJuMP", -22, (6, 8), start=(0, 0))
def bilevel_jump_11_b(x: Variable, y: Variable) -> Levels:
    """A linear problem from the tests of BilevelJuMP, all rows at the lower level."""
    return Levels(
        -x - 2 * y,
        [],
        -y,
        [3 * y <= 2 * x + 12, x + y <= 14, y <= 3 * x - 3, 3 * x + y <= 30],
    )


@stated("LP", "BilevelJuMP", -10, (2, 0), start=(0, 0))
def bilevel_jump_1_changed(x: Variable, y: Variable) -> Levels:
    """A linear problem from the tests of BilevelJuMP, with other objectives."""
    return Levels(
        -5 * x - 3 * y,
        [],
        x + y,
        [2 * x + y <= 4, x + 2 * y <= 4, 0 <= x, 0 <= y],
    )


@stated("LP", "BilevelJuMP", -8, (2, 0), start=(0, 0))
def bilevel_jump_1_redundant(x: Variable, y: Variable) -> Levels:
    """A linear problem from the tests of BilevelJuMP, with redundant rows."""
    return Levels(
        -4 * x - 3 * y,
        [0 <= x],
        y,
        [2 * x + y <= 4, x + 2 * y <= 4, 2 * x + y <= 8, x + 2 * y <= 8, 0 <= y],
    )


@stated("LP", "BilevelJuMP", 92 / 15, (8 / 15, 28 / 15), start=(0, 0))
def bilevel_jump_4(x: Variable, y: Variable) -> Levels:
    """A linear problem with a bounded lower level, from the tests of BilevelJuMP."""
    return Levels(
        3 * y + x,
        [x <= 8, 0 <= x],
        -y,
        [y + x <= 8, 8 <= 4 * y + x, 2 * y + x <= 13, 2 * y <= 7 * x, y <= 5],
    )


@stated("LP", "BilevelJuMP", -2, (2, 0), start=(1, 1))
def bilevel_jump_nlp_1(x: Variable, y: Variable) -> Levels:
    """A nonlinear upper constraint, from the tests of BilevelJuMP."""
    return Levels(
        3 * y - x,
        [0 <= x, x**2 <= 4],
        y,
        [0 <= y],
    )


@stated("LP", "BilevelJuMP", -2, (2, 0), start=(1, 1))
def bilevel_jump_nlp_2(x: Variable, y: Variable) -> Levels:
    """Nonlinear upper constraints that hold y, from the tests of BilevelJuMP."""
    return Levels(
        3 * y - x,
        [0 <= x, x**2 <= 4, 4 <= x**2 + y + 2, 1 <= x**3 + 18 * y, -1 <= x * y, x * y <= 1],
        y,
        [0 <= y],
    )


@stated("LP", "BilevelJuMP", -3, (3, 0), start=(1, 1))
def bilevel_jump_nlp_4(x: Variable, y: Variable) -> Levels:
    """A nonlinear upper constraint with another right-hand side, from the tests of BilevelJuMP."""
    return Levels(
        3 * y - x,
        [0 <= x, x**2 <= 9],
        y,
        [0 <= y],
    )


@stated("LP", "BilevelJuMP", 2, (0, (1, 1)), start=(0.5, (0, 0)))
def dempe_2015_3_3(x: Variable, y: Variable) -> Levels:
    """Dempe, Kalashnikov, Perez-Valdes and Kalashnykova (2015), example 3.3 with alpha = 0."""
    return Levels(
        0.5 * x - y[0] + 3 * y[1],
        [],
        -y[0] - y[1],
        [x + y[0] <= 1, y[0] <= x + 1, y[1] <= 1, 0 <= y[1]],
    )


@stated("LP", "BilevelJuMP", -15, ((0, 10), 5), start=((0, 0), 0))
def dempe_2015_8_2(x: Variable, y: Variable) -> Levels:
    """Dempe, Kalashnikov, Perez-Valdes and Kalashnykova (2015), example 8.2.

    The upper constraints hold y.
    """
    return Levels(
        x[0] - 2 * x[1] + y,
        [0 <= x, x <= 10, 15 <= x[0] + x[1] + y, y <= 10, 0 <= y],
        2 * x[0] - x[1] + y,
        [x[0] + x[1] <= y + 5, 0 <= y, y <= 10],
    )


@stated(
    "LP",
    "BilevelJuMP",
    -1,
    ((1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1), (0,) * 7),
    start=((0.5,) * 15, (0,) * 7),
)
def dempe_3sat(x: Variable, y: Variable) -> Levels:
    """Dempe (2002), section 3.7: satisfiability as a linear bilevel problem.

    The value is -1 just when the formula can be satisfied; x holds seven literals, their negations, and
    z.
    """
    holds, fails, z = x[:7], x[7:14], x[14]
    return Levels(
        cp.sum(y) - z,
        [
            0 <= x,
            x <= 1,
            holds + fails == 1,
            z <= holds[0] + holds[1] + holds[2],
            z <= fails[0] + fails[3] + holds[2],
            z <= holds[6] + fails[5] + holds[3],
            z <= holds[4] + holds[5] + holds[6],
        ],
        -cp.sum(y),
        [0 <= y, y <= holds, y <= fails],
    )


@stated("LP", "BilevelJuMP", 0, (0, 0), start=(1, 0))
def dempe_quadratic_1(x: Variable, y: Variable) -> Levels:
    """Dempe (2002), section 5.1.

    The upper constraint holds y.
    """
    return Levels(
        y**2 + x,
        [0 <= y + x],
        y,
        [0 <= y],
    )


@stated(
    "LP", "BilevelJuMP", -20000, (20, (20, 40, 40, 0, 1000, 1000, 950, 900, 0)), start=(10, (0,) * 9)
)
def fanzeres_2017(x: Variable, y: Variable) -> Levels:
    """Fanzeres (2017), strategic bidding, from the tests of BilevelJuMP.

    The market's price is a multiplier; the lower level chooses outputs and multipliers together and
    closes its duality gap.
    """
    return Levels(
        -y[4] * y[0],
        [0 <= x, x <= 100, 0 <= y[4]],
        50 * y[1]
        + 100 * y[2]
        + 1000 * y[3]
        - 100 * y[4]
        + x * y[5]
        + 40 * y[6]
        + 40 * y[7]
        + 100 * y[8],
        [
            y[0] <= x,
            y[1] <= 40,
            y[2] <= 40,
            y[3] <= 100,
            0 <= y[0],
            0 <= y[1],
            0 <= y[2],
            0 <= y[3],
            y[4] <= y[5],
            y[4] <= y[6] + 50,
            y[4] <= y[7] + 100,
            y[4] <= y[8] + 1000,
            0 <= y[5],
            0 <= y[6],
            0 <= y[7],
            0 <= y[8],
            y[0] + y[1] + y[2] + y[3] == 100,
        ],
    )


@stated("LP", "BilevelJuMP", 0, (0.1, (3, 6, 0, 0, 0, 0)), start=(0.05, (0,) * 6))
def fruit_prices(x: Variable, y: Variable) -> Levels:
    """Prices of a fruit market, from a question to BilevelJuMP.

    An upper equality holds y alone; only prices from 0.09 to 0.1 are feasible.
    """
    return Levels(
        -0.01 * y[4] - 0.003 * y[2] - 0.01 * y[5] - 0.003 * y[3],
        [0 <= x, x <= 0.1, y[2] + y[3] == y[4] + y[5]],
        0.1 * y[0]
        + y[4] * (x + 0.01)
        - y[2] * (x - 0.003)
        + 0.1 * y[1]
        + y[5] * (x + 0.01)
        - y[3] * (x - 0.003),
        [0 <= y, y <= 10, y[2] == y[0] + y[4] - 3, y[3] == y[1] + y[5] - 6],
    )


@stated("LP", "BilevelJuMP", 28 / 9, (8 / 9, 20 / 9), start=(0, 0))
def handbook_9_2_10(x: Variable, y: Variable) -> Levels:
    """Problem 9.2.10 of the Handbook of Test Problems (Floudas et al., 1999)."""
    return Levels(
        x + y,
        [0 <= x, 0 <= y],
        -5 * x - y,
        [2 <= x + 0.5 * y, y <= 0.25 * x + 2, x + 0.5 * y <= 8, x <= 2 * y + 2, 0 <= y],
    )


@stated("LP", "BilevelJuMP", -49, (16, 11), start=(0, 0))
def handbook_9_2_7(x: Variable, y: Variable) -> Levels:
    """Problem 9.2.7 of the Handbook of Test Problems (Floudas et al., 1999)."""
    return Levels(
        -x - 3 * y,
        [0 <= x, 0 <= y],
        3 * y - x,
        [10 <= x + 2 * y, x <= 2 * y + 6, 2 * x <= y + 21, x + 2 * y <= 38, 2 * y <= x + 18, 0 <= y],
    )


@stated("LP", "BilevelJuMP", -3.25, ((2, 0), (1.5, 0)), start=((0, 0), (0, 0)))
def handbook_9_2_9(x: Variable, y: Variable) -> Levels:
    """Problem 9.2.9 of the Handbook of Test Problems (Floudas et al., 1999)."""
    return Levels(
        x[1] + 0.5 * y[0] - 2 * x[0],
        [0 <= x, 0 <= y],
        x[0] + x[1] - 4 * y[0] + y[1],
        [0 <= y, y[0] <= 2 * x[0] + y[1] - 2.5, x[0] + y[1] <= 3 * x[1] + 2, x[0] + x[1] <= 2],
    )


@stated("LP", "BilevelJuMP", 2, (2, (6, 0)), start=(0, (0, 0)))
def handbook_9_3_10(x: Variable, y: Variable) -> Levels:
    """Problem 9.3.10 of the Handbook of Test Problems (Floudas et al., 1999).

    At the best x the follower switches, and the value is the optimistic one.
    """
    return Levels(
        x + y[1],
        [0 <= y, 0 <= x],
        2 * y[0] + x * y[1],
        [0 <= y, x <= y[0] + y[1] - 4],
    )


@stated(
    "LP",
    "BilevelJuMP",
    15.400071,
    (
        (1.5750356463878326, 0.8366801330798487, 0.18880703422053136, 2.1709244296577936),
        (1.887654467680608, 0),
    ),
    start=((1,) * 4, (1, 1)),
)
def moshirvaziri_1996(x: Variable, y: Variable) -> Levels:
    """Moshirvaziri, Amouzegar and Jacobsen (1996), a random linear problem.

    Many upper constraints hold y.
    """
    return Levels(
        8 * x[1] + x[2] + 9 * y[0] - 4 * x[0] - x[3] - 9 * y[1],
        [
            0 <= x,
            0 <= y,
            3 * x[1] + 3 * x[3] + 3 * y[0] <= 9 * x[0] + 8 * x[2] - 1,
            4 * x[0] + 3 * x[2] + 5 * x[3] + 8 * y[0] + 8 * y[1] <= 10 * x[1] + 25,
            4 * x[0] + 10 * x[3] + 8 * y[1] <= 2 * x[1] + 2 * x[2] + 5 * y[0] + 21,
            9 * x[0] + 4 * x[2] <= 9 * x[1] + 3 * x[3] + y[0] + 9 * y[1] - 1,
            8 * x[2] + 5 * y[0] + 8 * y[1] <= 2 * x[0] + 2 * x[1] + 5 * x[3] + 20,
            7 * x[0] + 2 * x[1] + 4 * x[3] <= 5 * x[2] + 5 * y[0] + 11,
        ],
        9 * y[1] - 9 * y[0],
        [
            0 <= y,
            x[1] + x[2] <= 6 * x[0] + 3 * x[3] + 9 * y[0] + 7 * y[1] - 15,
            4 * x[1] + 5 * x[2] + 10 * x[3] <= 26,
            9 * x[1] + 5 * x[3] <= 9 * x[0] + 9 * x[2] + 5 * y[0] + 4 * y[1] - 5,
            5 * x[0] + 3 * x[1] + x[2] + 9 * x[3] + y[0] + 5 * y[1] <= 32,
        ],
    )


@stated("LP", "BASBLib", 22.5, (1.5, 4.5), start=(5, 5))
def tmh_2007_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, tmh_2007_01: Tuy, Migdalas and Hoai-Phuong (2007)."""
    return Levels(
        x**2 + y**2,
        [0 <= x, x <= 10],
        -y,
        [3 * x + y <= 15, x + y <= 7, x + 3 * y <= 15, 0 <= y, y <= 10],
    )
