"""Problems of BOLIB whose lower level is linear in y."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from cvxpy import Variable

from blomodel.problems.entries import Levels, stated


@stated("LP", "BOLIB", -6, (1, 5), start=(3, 4))
def ben_ayed_blair_1990_b(x: Variable, y: Variable) -> Levels:
    """Ben-Ayed and Blair (1990), example b."""
    return Levels(
        -x - y,
        [0 <= x],
        y,
        [19 <= 4 * x + 3 * y, x + 2 * y <= 11, 3 * x + y <= 13, 0 <= y],
    )


@stated("LP", "BOLIB", -2, (1.5, (1, 0.5)), start=(1, (1, 1)))
def bialas_karwan_1984_a(x: Variable, y: Variable) -> Levels:
    """Bialas and Karwan (1984), example a."""
    return Levels(
        -x - y[1],
        [0 <= x],
        -y[1],
        [
            0 <= y,
            x + y[0] + y[1] <= 3,
            y[1] <= x + y[0] - 1,
            y[0] + y[1] <= x + 1,
            x + y[1] <= y[0] + 1,
            y[1] <= 0.5,
        ],
    )


@stated("LP", "BOLIB", -11, (16, 11), start=(10, 14))
def bialas_karwan_1984_b(x: Variable, y: Variable) -> Levels:
    """Bialas and Karwan (1984), example b."""
    return Levels(
        -y,
        [0 <= x],
        y,
        [10 <= x + 2 * y, x + 2 * y <= 38, 2 * y <= x + 18, x <= 2 * y + 6, 2 * x <= y + 21, 0 <= y],
    )


@stated("LP", "BOLIB", -29.2, ((0, 0.9), (0, 0.6, 0.4)), start=((1, 1), (1, 1, 1)))
def candler_townsley_1982(x: Variable, y: Variable) -> Levels:
    """Candler and Townsley (1982)."""
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


@stated("LP", "BOLIB", -13, (5, (4, 2)), start=(1, (1, 1)))
def clark_westerberg_1990_b(x: Variable, y: Variable) -> Levels:
    """Clark and Westerberg (1990), linear example."""
    return Levels(
        2 * y[1] - x - 3 * y[0],
        [0 <= x, x <= 8],
        -y[0],
        [
            0 <= y[0],
            y[0] <= 4,
            y[0] + 4 * y[1] <= 2 * x + 16,
            8 * x + 3 * y[0] <= 2 * y[1] + 48,
            y[0] <= 2 * x + 3 * y[1] - 12,
        ],
    )


@stated("LP", "BOLIB", 5, ((0, -1), (1, 2)), start=((1, 1), (1, 1)))
def dempe_franke_2011_4_1(x: Variable, y: Variable) -> Levels:
    """Dempe and Franke (2011), example 4.1."""
    return Levels(
        x[0] + y[0] ** 2 + y[1] ** 2,
        [-1 <= x[0], x[0] <= 1, x[1] == -1],
        x @ y,
        [y <= 2, y[1] <= 2 * y[0], 0 <= y[1]],
    )


@stated("LP", "BOLIB", -12, ((0.5, 0.5, 0), (0, 0, 2)), start=((1, 1, 1), (1, 1, 1)))
def dempe_lohse_2011_3_1_b(x: Variable, y: Variable) -> Levels:
    """Dempe and Lohse (2011), example 3.1 b."""
    return Levels(
        (x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2 + x[2] ** 2 - 3 * y[0] - 3 * y[1] - 6 * y[2],
        [],
        x @ y,
        [0 <= y, cp.sum(y) <= 2, y[1] <= y[0]],
    )


@stated("LP", "BOLIB", 3, ((), (1, -1, 0)), start=(1, (1, 1, 1)))
def franke_2018_5_11(x: Variable, y: Variable) -> Levels:
    """Franke, Mehlitz and Pilecka (2018), example 5.11.

    A simple bilevel problem: x occurs nowhere; the upper level only chooses among the lower minima.
    """
    return Levels(
        0.5 * (y[0] - 2) ** 2 + 0.5 * y[1] ** 2 + 0.5 * (y[2] - 2) ** 2,
        [],
        cp.sum(y),
        [0 <= y[0] + y[1], y[1] <= y[0], 0 <= y[0], 0 <= y[2]],
    )


@stated("LP", "BOLIB", -79 / 9, (2, (7 / 9, 0)), start=(1, (1, 1)))
def hu_huang_zhang_2009(x: Variable, y: Variable) -> Levels:
    """Hu, Huang and Zhang (2009).

    The listed -76/9 is not the best: (2, 7/9, 0) gives -79/9.
    """
    return Levels(
        -4 * x - y[0] - y[1],
        [0 <= x],
        -x - 3 * y[0],
        [
            0 <= y,
            x + y[0] + y[1] <= 25 / 9,
            x + y[1] <= 2,
            y[0] + y[1] <= 8 / 9,
        ],
    )


@stated("LP", "BOLIB", 1, (1, 0), start=(1, 1))
def lampariello_sagratella_2017_3_1(x: Variable, y: Variable) -> Levels:
    """Lampariello and Sagratella (2017), example 3.1."""
    return Levels(
        x**2 + y**2,
        [1 <= x],
        y,
        [1 <= x + y],
    )


@stated("LP", "BOLIB", 0.5, (0.5, (0, 0.5)), start=(1, (1, 1)))
def lampariello_sagratella_2017_3_3(x: Variable, y: Variable) -> Levels:
    """Lampariello and Sagratella (2017), example 3.3.

    The lower answer is not unique.
    """
    return Levels(
        x**2 + (y[0] + y[1]) ** 2,
        [0.5 <= x],
        y[0],
        [0 <= y, 1 <= x + y[0] + y[1]],
    )


@stated("LP", "BOLIB", 0.8, (0.8, 0.4), start=(1, 1))
def lampariello_sagratella_2017_3_5(x: Variable, y: Variable) -> Levels:
    """Lampariello and Sagratella (2017), example 3.5."""
    return Levels(
        x**2 + y**2,
        [-1 <= x, x <= 1],
        -y,
        [2 * x + y <= 2, 0 <= y, y <= 1],
    )


@stated("LP", "BOLIB", -85.090909, (17.454545, 10.909091), start=(1, 1), is_optimal=False)
def lan_wen_shih_lee_2007(x: Variable, y: Variable) -> Levels:
    """Lan, Wen, Shih and Lee (2007)."""
    return Levels(
        2 * x - 11 * y,
        [0 <= x],
        x + 3 * y,
        [
            x <= 2 * y + 4,
            2 * x <= y + 24,
            3 * x + 4 * y <= 96,
            x + 7 * y <= 126,
            5 * y <= 4 * x + 65,
            8 <= x + 4 * y,
            0 <= y,
        ],
    )


@stated("LP", "BOLIB", -16, (4, 4), start=(1, 1))
def liu_hart_1994(x: Variable, y: Variable) -> Levels:
    """Liu and Hart (1994)."""
    return Levels(
        -x - 3 * y,
        [0 <= x],
        y,
        [y <= x + 3, x + 2 * y <= 12, 4 * x <= y + 12, 0 <= y],
    )


@stated("LP", "BOLIB", 0, (1, 0), start=(1, 1))
def lucchetti_1987(x: Variable, y: Variable) -> Levels:
    """Lucchetti, Mignanego and Pieri (1987).

    At the best x the follower is indifferent.
    """
    return Levels(
        (1 - x) / 2 + x * y,
        [0 <= x, x <= 1],
        (x - 1) * y,
        [0 <= y, y <= 1],
    )


@stated("LP", "BOLIB", 1, ((), 1), start=(-1, -1))
def mitsos_barton_2006_3_01(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.1.

    A simple bilevel problem: x occurs nowhere; the upper level only chooses among the lower minima.
    """
    return Levels(
        y,
        [-1 <= y, y <= 1],
        -y,
        [-1 <= y, y <= 1],
    )


@stated("LP", "BOLIB", 0, (-0.567, 0), start=(1, 1))
def mitsos_barton_2006_3_08(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.8."""
    return Levels(
        y**2,
        [-1 <= x, x <= 1, -0.1 <= y, y <= 0.1],
        x * y + cp.exp(x) * y,
        [-1 <= y, y <= 1],
    )


@stated("LP", "BOLIB", -1.25, (0.25, 1), start=(1, 1))
def morgan_patrone_2006_b(x: Variable, y: Variable) -> Levels:
    """Morgan and Patrone (2006), example b.

    The follower is indifferent on a whole interval of x.
    """
    return Levels(
        -x - y,
        [],
        (x - 0.5 * cp.abs(x + 0.25) + 0.5 * cp.abs(x - 0.25)) * y,
        [-0.5 <= x, x <= 0.5, -1 <= y, y <= 1],
    )


@stated("LP", "BOLIB", -2.75, (1.75, 1), start=(1, 1))
def morgan_patrone_2006_c(x: Variable, y: Variable) -> Levels:
    """Morgan and Patrone (2006), example c.

    The follower is indifferent for |x| <= 1.75; the value -1 that is often listed is not the optimistic
    one.
    """
    return Levels(
        -x - y,
        [],
        (x - 0.5 * cp.abs(x + 1.75) + 0.5 * cp.abs(x - 1.75)) * y,
        [-2 <= x, x <= 2, -1 <= y, y <= 1],
    )


@stated(
    "LP",
    "BOLIB",
    -7,
    ((7, 4, 6), (0, 0, 1, 0, 0, 0, 0, 0)),
    start=((0, 5, 5), (0, 1, 0, 0, 0, 1, 0, 0)),
    is_optimal=False,
)
def toll_setting_1(x: Variable, y: Variable) -> Levels:
    """Toll setting, one commodity on a network of five nodes, in BOLIB."""
    return Levels(
        -y[2] * x[0] - y[3] * x[1] - y[7] * x[2],
        [0 <= x],
        2 * y[0]
        + 6 * y[1]
        + (5 + x[0]) * y[2]
        + x[1] * y[3]
        + 4 * y[4]
        + 2 * y[5]
        + 6 * y[6]
        + x[2] * y[7],
        [
            0 <= y,
            y[0] + y[1] + y[2] == 1,
            y[3] + y[4] == y[0],
            y[5] + y[6] == y[1] + y[3],
            y[7] == y[4] + y[5],
            y[2] + y[6] + y[7] == 1,
        ],
    )


@stated(
    "LP",
    "BOLIB",
    -4.5,
    ((8, 4, 4.5), (0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1)),
    start=((0, 0, 0), (0, 0, 0, 10, 1, 0, 1, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 10)),
    is_optimal=False,
)
def toll_setting_3(x: Variable, y: Variable) -> Levels:
    """Toll setting, two commodities, in BOLIB.

    The listed -3.5 is not the best: exact lexicographic linear programs give -4.5.
    """
    demand = [1, 10]  # of the two commodities, whose flows on the three toll roads alternate in y[:6]
    one, other = y[0:6:2], y[1:6:2]
    free = np.array([5, 7, 14, 7, 2, 4, 29, 20, 12, 8, 5, 2])
    return Levels(
        -x @ (demand[0] * one + demand[1] * other),
        [0 <= x],
        2 * (x @ (demand[0] * one + demand[1] * other)) + free @ y[6:],
        [
            0 <= y,
            y[6] + y[7] + y[8] == 1,
            y[9] + y[10] + y[11] == 1,
            y[12] + y[13] + y[14] == 1,
            y[15] + y[16] + y[17] == 1,
            y[0] + y[4] + y[12] == y[6],
            10 * y[1] + 10 * y[5] + y[15] == y[9],
            y[2] + y[13] == y[0] + y[7],
            10 * y[3] + y[16] == 10 * y[1] + y[10],
            y[14] == y[2] + y[4] + y[8],
            y[17] == 10 * y[3] + 10 * y[5] + y[11],
        ],
    )


@stated("LP", "BOLIB", -4, ((2.5, -1), (0, 1, 1, 0)), start=((1, 1), (1,) * 4), is_optimal=False)
def toll_setting_4(x: Variable, y: Variable) -> Levels:
    """Toll setting, two commodities on parallel roads, in BOLIB.

    Tolls may be negative.
    """
    return Levels(
        -(y[1] + y[2]) * x[0] - y[2] * x[1],
        [],
        8 * y[0] + (3 + 2 * x[0]) * y[1] + (3 + 2 * x[0] + 2 * x[1]) * y[2] + 6 * y[3],
        [0 <= y, y[0] + y[1] == 1, y[2] + y[3] == 1],
    )


@stated("LP", "BOLIB", 6, ((0, 3), (0, 0)), start=((1, 1), (1, 1)))
def tuy_1994(x: Variable, y: Variable) -> Levels:
    """Tuy, Migdalas and Varbrand (1994)."""
    return Levels(
        3 * x[0] + 2 * x[1] + y[0] + y[1],
        [0 <= x, x[0] + x[1] + y[0] + y[1] <= 4],
        4 * y[0] + y[1],
        [0 <= y, 15 <= 3 * x[0] + 5 * x[1] + 6 * y[0] + 2 * y[1]],
    )


@stated("LP", "BOLIB", 28 / 9, (8 / 9, 20 / 9), start=(1, 1))
def visweswaran_1996(x: Variable, y: Variable) -> Levels:
    """Visweswaran, Floudas, Ierapetritou and Pistikopoulos (1996)."""
    return Levels(
        x + y,
        [0 <= x],
        -5 * x - y,
        [2 <= x + 0.5 * y, y <= 0.25 * x + 2, x + 0.5 * y <= 8, x <= 2 * y + 2, 0 <= y],
    )


@stated("LP", "BOLIB", -1, (1, (1, 0)), start=(1, (1, 1)))
def zlobec_2001_a(x: Variable, y: Variable) -> Levels:
    """Zlobec (2001), example a."""
    return Levels(
        -y[0] / x,
        [],
        -y[0] - y[1],
        [0 <= y, y[0] + x * y[1] <= 1],
    )
