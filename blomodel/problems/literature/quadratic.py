"""Problems whose lower level is a convex quadratic program in y."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from cvxpy import Variable

from blomodel.problems.entries import Levels, stated


@stated("QP", "BASBLib", 1, (1, 0), start=(0, 50))
def b_1998_05(x: Variable, y: Variable) -> Levels:
    """BASBLib, b_1998_05: Bard (1998).

    The objectives of Macal and Hurter with bounds.
    """
    return Levels(
        (x - 1) ** 2 + (y - 1) ** 2,
        [-100 <= x, x <= 100],
        0.5 * y**2 + 500 * y - 50 * x * y,
        [0 <= y, y <= 100],
    )


@stated("QP", "BilevelJuMP", 17, (1, 0), start=(0, 0))
def bard_1988_1(x: Variable, y: Variable) -> Levels:
    """Bard (1988), example 1; problem 9.3.8 of the Handbook of Test Problems (Floudas et al., 1999).

    At the best x the lower level has a single feasible point.
    """
    return Levels(
        (x - 5) ** 2 + (2 * y + 1) ** 2,
        [0 <= x, 0 <= y],
        (y - 1) ** 2 - 1.5 * x * y,
        [y <= 3 * x - 3, x <= 0.5 * y + 4, x + y <= 7, 0 <= y],
    )


@stated("QP", "BOLIB", -6600, ((7, 3, 12, 18), (0, 10, 30, 0)), start=((5, 5, 15, 15), (0,) * 4))
def bard_1988_2(x: Variable, y: Variable) -> Levels:
    """Bard (1988), example 2.

    Two plants answer with a projection onto what x lets them make.
    """
    return Levels(
        -(200 - (y[0] + y[2])) * (y[0] + y[2]) - (160 - (y[1] + y[3])) * (y[1] + y[3]),
        [0 <= x, x <= np.array([10, 5, 15, 20]), cp.sum(x) <= 40],
        (y[0] - 4) ** 2 + (y[1] - 13) ** 2 + (y[2] - 35) ** 2 + (y[3] - 2) ** 2,
        [
            0 <= y,
            y <= np.array([20, 20, 40, 40]),
            0.4 * y[0] + 0.7 * y[1] <= x[0],
            0.6 * y[0] + 0.3 * y[1] <= x[1],
            0.4 * y[2] + 0.7 * y[3] <= x[2],
            0.6 * y[2] + 0.3 * y[3] <= x[3],
        ],
    )


@stated("QP", "BOLIB", 0.3125, ((1.25, 0.5, 1, 1), (0.25, 0.5)), start=((1,) * 4, (1, 1)))
def calamai_vicente_1994_b(x: Variable, y: Variable) -> Levels:
    """Calamai and Vicente (1994), second family."""
    return Levels(
        ((x[0] - 1) ** 2 + (x[1] - 1) ** 2 + (x[2] - 1) ** 2 + (x[3] - 1) ** 2) / 2
        + (y[0] ** 2 + y[1] ** 2) / 2,
        [],
        (y[0] ** 2 + y[1] ** 2) / 2 - x[0] * y[0] - x[1] * y[1],
        [
            x[0] <= y[0] + 1,
            x[1] <= y[1] + 1,
            x[0] + y[0] <= 1.5,
            x[1] + y[1] <= 3,
            1 <= x[0] + y[0],
            1 <= x[1] + y[1],
        ],
    )


@stated("QP", "BOLIB", 5, (1, 3), start=(1, 1))
def clark_westerberg_1990_a(x: Variable, y: Variable) -> Levels:
    """Clark and Westerberg (1990), quadratic example.

    There is a worse local solution.
    """
    return Levels(
        (x - 3) ** 2 + (y - 2) ** 2,
        [x <= 8, 0 <= x],
        (y - 5) ** 2,
        [y <= 2 * x + 1, x <= 2 * y - 2, x + 2 * y <= 14],
    )


@stated("QP", "BASBLib", -1, ((0.5, 0.5), (0.5, 0.5)), start=((5, 5), (1, 1)))
def d_1978_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, d_1978_01: De Silva (1978), with bounds."""
    return Levels(
        x[0] ** 2 - 2 * x[0] + x[1] ** 2 - 2 * x[1] + y[0] ** 2 + y[1] ** 2,
        [0 <= x, x <= 10],
        (y[0] - x[0]) ** 2 + (y[1] - x[1]) ** 2,
        [0.5 <= y, y <= 1.5],
    )


@stated("QP", "BOLIB", 1, ((), (1, 0)), start=(1, (1, 1)))
def franke_2018_5_3(x: Variable, y: Variable) -> Levels:
    """Franke, Mehlitz and Pilecka (2018), example 5.3.

    A simple bilevel problem: x occurs nowhere; the upper level only chooses among the lower minima.
    """
    return Levels(
        y[0] ** 2 + y[1] ** 2,
        [0 <= y, y <= 1],
        (y[0] - 2) ** 2,
        [0 <= y, y <= 1],
    )


@stated("QP", "BilevelJuMP", 17, (1, 0), start=(0, 0))
def handbook_9_3_2(x: Variable, y: Variable) -> Levels:
    """Problem 9.3.2 of the Handbook of Test Problems (Floudas et al., 1999).

    y >= 0 holds at the upper level only.
    """
    return Levels(
        (x - 5) ** 2 + (2 * y + 1) ** 2,
        [0 <= x, 0 <= y],
        (y - 1) ** 2 - 1.5 * x * y,
        [y <= 3 * x - 3, x <= 0.5 * y + 4, x + y <= 7],
    )


@stated("QP", "BilevelJuMP", 0, ((0, 0), (-10, -10)), start=((25, 25), (0, 0)))
def handbook_9_3_4(x: Variable, y: Variable) -> Levels:
    """Problem 9.3.4 of the Handbook of Test Problems (Floudas et al., 1999).

    The book prints 20 where 40 is meant. x = (0, 30), y = (-10, 10) is as good.
    """
    return Levels(
        2 * x[0] + 2 * x[1] - 3 * y[0] - 3 * y[1] - 60,
        [0 <= x, x <= 50, -10 <= y, y <= 20, x[0] + x[1] + y[0] <= 2 * y[1] + 40],
        (-x[0] + y[0] + 40) ** 2 + (-x[1] + y[1] + 20) ** 2,
        [-10 <= y, y <= 20, 2 * y[0] <= x[0] - 10, 2 * y[1] <= x[1] - 10],
    )


@stated("QP", "BilevelJuMP", 5, (1, 3), start=(0, 0))
def handbook_9_3_6(x: Variable, y: Variable) -> Levels:
    """Problem 9.3.6 of the Handbook of Test Problems (Floudas et al., 1999).

    There are worse local solutions.
    """
    return Levels(
        (x - 3) ** 2 + (y - 2) ** 2,
        [0 <= x, x <= 8],
        (y - 5) ** 2,
        [y <= 2 * x + 1, x <= 2 * y + 2, x + 2 * y <= 14, 0 <= y],
    )


@stated("QP", "BilevelJuMP", -1, ((0.5, 0.5), (0.5, 0.5)), start=((0, 0), (0, 0)))
def handbook_9_3_7(x: Variable, y: Variable) -> Levels:
    """Problem 9.3.7 of the Handbook of Test Problems (Floudas et al., 1999).

    The lower level projects onto a box.
    """
    return Levels(
        x[0] ** 2 - 2 * x[0] + x[1] ** 2 - 2 * x[1] + y[0] ** 2 + y[1] ** 2,
        [0 <= y],
        (-x[0] + y[0]) ** 2 + (-x[1] + y[1]) ** 2,
        [0.5 <= y, y <= 1.5],
    )


@stated("QP", "BOLIB", 0, (0, 0), start=(1, 1))
def henrion_surowiec_2011(x: Variable, y: Variable) -> Levels:
    """Henrion and Surowiec (2011), with c = 0."""
    return Levels(
        x**2,
        [],
        (y / 2 - x) * y,
        [],
    )


@stated("QP", "BOLIB", 81.327869, (10.016393, 0.81967213), start=(1, 1))
def macal_hurter_1997(x: Variable, y: Variable) -> Levels:
    """Macal and Hurter (1997)."""
    return Levels(
        (x - 1) ** 2 + (y - 1) ** 2,
        [],
        0.5 * y**2 + 500 * y - 50 * x * y,
        [],
    )


@stated(
    "QP",
    "BOLIB",
    -8.917203,
    ((1.0315665, 3.0977972), (2.5970479, 1.7929367)),
    start=((0, 0), (3, 3)),
    is_optimal=False,
)
def outrata_1990_1_a(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 1 a."""
    return Levels(
        0.1 * (x[0] ** 2 + x[1] ** 2) + 0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2) - 12.5,
        [],
        0.5 * ((y[0] - 2 * y[1]) * y[0] + (-(2 * y[0]) + 5 * y[1]) * y[1]) - x[0] * y[0] - x[1] * y[1],
        [0 <= y, y[1] <= 0.333 * y[0] + 2, y[0] <= 0.333 * y[1] + 2],
    )


@stated(
    "QP",
    "BOLIB",
    -7.5784582,
    ((0.27883915, 0.47481171), (2.3438192, 1.03249)),
    start=((0, 0), (3, 3)),
    is_optimal=False,
)
def outrata_1990_1_b(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 1 b."""
    return Levels(
        x[0] ** 2 + x[1] ** 2 + 0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2) - 12.5,
        [],
        0.5 * ((y[0] - 2 * y[1]) * y[0] + (-(2 * y[0]) + 5 * y[1]) * y[1]) - x[0] * y[0] - x[1] * y[1],
        [0 <= y, y[1] <= 0.333 * y[0] + 2, y[0] <= 0.333 * y[1] + 2],
    )


@stated(
    "QP",
    "BOLIB",
    -11.998499,
    ((20.26, 42.81), (2.9985007496251876, 2.9985007496251876)),
    start=((0, 0), (3, 3)),
    is_optimal=False,
)
def outrata_1990_1_c(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 1 c."""
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2) - 12.5,
        [],
        0.5 * ((y[0] + 3 * y[1]) * y[0] + (3 * y[0] + 10 * y[1]) * y[1]) - x[0] * y[0] - x[1] * y[1],
        [0 <= y, y[1] <= 0.333 * y[0] + 2, y[0] <= 0.333 * y[1] + 2],
    )


@stated("QP", "BOLIB", -3.92, ((-0.4, 0.8), (2, 0)), start=((6, -3), (3, 3)))
def outrata_1990_1_e(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 1 e.

    The point that is often listed (-3.15) is not a lower minimum. Local searches end at -3.7895 or
    at the value here, which a bound proves.
    """
    return Levels(
        0.1 * (x[0] ** 2 + x[1] ** 2) + 0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2) - 12.5,
        [],
        0.5 * ((y[0] + 3 * y[1]) * y[0] + (3 * y[0] + 10 * y[1]) * y[1])
        - (-y[0] + 3 * y[1]) * x[0]
        - (2 * y[0] - 3 * y[1]) * x[1],
        [0 <= y, y[1] <= 0.333 * y[0] + 2, y[0] <= 0.333 * y[1] + 2],
    )


@stated(
    "QP",
    "BOLIB",
    0.50150084,
    (6.3, (2.998501149179843, 2.9985014044028278)),
    start=(1, (1, 1)),
    is_optimal=False,
)
def outrata_1990_2_a(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 2 a.

    Many x are optimal.
    """
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2),
        [0 <= x],
        0.5 * (y[0] ** 2 + y[1] ** 2) - (3 + 1.333 * x) * y[0] - x * y[1],
        [0 <= y, y[1] <= 0.333 * y[0] + 2, y[0] <= 0.333 * y[1] + 2],
    )


@stated(
    "QP", "BOLIB", 1.8604624, (3.4561622, (1.7070887, 2.5684605)), start=(0, (0, 0)), is_optimal=False
)
def outrata_1990_2_c(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 2 c."""
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2),
        [0 <= x],
        0.5 * (y[0] * (1 + x) * y[0] + y[1] * (1 + 0.1 * x) * y[1]) - (3 + 1.333 * x) * y[0] - x * y[1],
        [0 <= y, y[1] <= 0.333 * y[0] + 2, y[0] <= 0.333 * y[1] + 2],
    )


@stated(
    "QP", "BOLIB", 0.84850542, (2.856343, (3.8807456, 3.0401573)), start=(0, (0, 0)), is_optimal=False
)
def outrata_1990_2_d(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 2 d.

    The listed 0.92 is not the best: a scan over x with exact lower solves gives 0.8485.
    """
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2),
        [0 <= x],
        0.5 * (y[0] ** 2 + y[1] ** 2) - (3 + 1.333 * x) * y[0] - x * y[1],
        [0 <= y, (-0.333 + 0.1 * x) * y[0] + y[1] <= x, y[0] + (-0.333 - 0.1 * x) * y[1] <= 2],
    )


@stated(
    "QP", "BOLIB", 0.89745982, (3.9985352, (1.6650089, 3.8872235)), start=(0, (0, 0)), is_optimal=False
)
def outrata_1990_2_e(x: Variable, y: Variable) -> Levels:
    """Outrata (1990), example 2 e."""
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2),
        [0 <= x],
        0.5 * (y[0] * (1 + x) * y[0] + y[1] ** 2) - (3 + 1.333 * x) * y[0] - x * y[1],
        [0 <= y, (-0.333 + 0.1 * x) * y[0] + y[1] <= x, y[0] + (-0.333 - 0.1 * x) * y[1] <= 2],
    )


@stated(
    "QP", "BOLIB", 1.5628738, (1.909518, (2.9785879, 2.2321513)), start=(0, (0, 0)), is_optimal=False
)
def outrata_1993_3_1(x: Variable, y: Variable) -> Levels:
    """Outrata (1993), example 3.1."""
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2),
        [0 <= x],
        0.5 * (1 + 0.2 * x) * y[0] ** 2
        + 0.5 * (1 + 0.1 * x) * y[1] ** 2
        - (3 + 1.333 * x) * y[0]
        - x * y[1],
        [
            0 <= y,
            (-0.333 + 0.1 * x) * y[0] + y[1] + 0.1 * x <= 2,
            y[0] + (-0.333 - 0.1 * x) * y[1] + 0.1 * x <= 2,
        ],
    )


@stated("QP", "BOLIB", 0, ((0, 0), (0, 0)), start=((1, 1), (1, 1)))
def outrata_cervinka_2009(x: Variable, y: Variable) -> Levels:
    """Outrata and Cervinka (2009)."""
    return Levels(
        -2 * x[0] - 0.5 * x[1] - y[1],
        [x[0] <= 0],
        y[0] - y[1] + x @ y + (y[0] ** 2 + y[1] ** 2) / 2,
        [y[1] <= 0, y[1] <= y[0], y[0] + y[1] <= 0],
    )


@stated("QP", "BOLIB", 225, ((20, 5), (10, 5)), start=((1, 1), (1, 1)))
def shimizu_aiyoshi_1981_2(x: Variable, y: Variable) -> Levels:
    """Shimizu and Aiyoshi (1981), example 2."""
    return Levels(
        (x[0] - 30) ** 2 + (x[1] - 20) ** 2 - 20 * y[0] + 20 * y[1],
        [30 <= x[0] + 2 * x[1], x[0] + x[1] <= 25, x[1] <= 15],
        (x[0] - y[0]) ** 2 + (x[1] - y[1]) ** 2,
        [0 <= y, y <= 10],
    )


@stated("QP", "BilevelJuMP", -12, (6, (2, 2)), start=(0, (0, 0)))
def siddiqui_gabriel_2013(x: Variable, y: Variable) -> Levels:
    """Siddiqui and Gabriel (2013), a leader and two Cournot followers.

    The followers' equilibrium is written as one problem by its potential.
    """
    return Levels(
        x - (13 - (y[0] + y[1] + x)) * x,
        [0 <= x],
        y[0] + y[1] - (13 - (y[0] + y[1] + x)) * y[0] - (13 - (y[0] + y[1] + x)) * y[1] - y[0] * y[1],
        [0 <= y],
    )
