"""Problems whose lower level is convex in y, with cones or curves."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from cvxpy import Variable

from blomodel.problems.entries import Levels, stated


@stated("conic", "BilevelJuMP", 12, (6, (2, 0)), start=(3, (2, 0.5)))
def chi_2014_3_1(x: Variable, y: Variable) -> Levels:
    """Chi, Wan and Hao (2014), example 3.1.

    The lower answers are a ray.
    """
    return Levels(
        x + 3 * (y[0] - y[1]),
        [2 <= x, x <= 6],
        y[1] - y[0],
        [
            0 <= y,
            x + y[0] <= y[1] + 8,
            8 <= x + 4 * (y[0] - y[1]),
            x + 2 * (y[0] - y[1]) <= 12,
            cp.abs(y[1]) <= y[0],
        ],
    )


@stated("convex", "BOLIB", 250, (5, 5), start=(10, 10))
def colson_2002_1(x: Variable, y: Variable) -> Levels:
    """Colson (2002), BIPA 1.

    A fourth power below: no curvature at its minimum.
    """
    return Levels(
        (10 - x) ** 3 + (10 - y) ** 3,
        [x <= 5, y <= x, 0 <= x],
        (x + 2 * y - 15) ** 4,
        [x + y <= 20, y <= 20, 0 <= y],
    )


@stated(
    "convex",
    "BOLIB",
    2.7497676,
    (1.9405291366577146, (0, 1.2109956403993172)),
    start=(1, (1, 1)),
    is_optimal=False,
)
def colson_2002_5(x: Variable, y: Variable) -> Levels:
    """Colson (2002), BIPA 5."""
    return Levels(
        (x - y[1]) ** 4 + (y[0] - 1) ** 2 + (y[0] - y[1]) ** 2,
        [0 <= x],
        2 * x + cp.exp(y[0]) + y[0] ** 2 + 4 * y[0] + 2 * y[1] ** 2 - 6 * y[1],
        [
            0 <= y,
            y <= np.array([4, 2]),
            6 * x + y[0] ** 2 + cp.exp(y[1]) <= 15,
            5 * x + y[0] ** 4 <= y[1] + 25,
        ],
    )


@stated("conic", "BilevelJuMP", 0, ((0, 0, 0), (0, 0, 0)), start=((2, 1, 1), (2, 1, 1)))
def conic_apex(x: Variable, y: Variable) -> Levels:
    """Cones at both levels, from the tests of BilevelJuMP.

    The optimum is at the apex of both cones; neither level touches the other.
    """
    return Levels(
        x[0],
        [cp.sqrt(x[1] ** 2 + x[2] ** 2) <= x[0]],
        y[0],
        [cp.sqrt(y[1] ** 2 + y[2] ** 2) <= y[0]],
    )


@stated("convex", "BASBLib", 31.25, (1, 1), start=(5.5, 5.5))
def d_1992_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, d_1992_01: Dempe (1992), with bounds."""
    return Levels(
        (x - 3.5) ** 2 + (y + 4) ** 2,
        [1 <= x, x <= 10],
        (y - 3) ** 2,
        [y**2 <= x, 1 <= y, y <= 10],
    )


@stated("convex", "BOLIB", 28.25, (0, 0), start=(-1, -1))
def dempe_1992_b(x: Variable, y: Variable) -> Levels:
    """Dempe (1992), example b.

    At the best point the lower level has one feasible point and no multipliers, so that KKT conditions
    miss it; (1, 1) with 31.25 is what they find.
    """
    return Levels(
        (x - 3.5) ** 2 + (y + 4) ** 2,
        [],
        (y - 3) ** 2,
        [y**2 <= x],
    )


@stated("convex", "BOLIB", 1, (1, (0, 1)), start=(1, (1, 1)))
def floudas_zlobec_1998(x: Variable, y: Variable) -> Levels:
    """Floudas and Zlobec (1998)."""
    return Levels(
        x**3 * y[0] + y[1],
        [0 <= x, x <= 1],
        -y[1],
        [np.array([-1, 0]) <= y, y <= np.array([1, 100]), x * y[0] <= 10, y[0] ** 2 + x * y[1] <= 1],
    )


@stated("convex", "BOLIB", -1, ((), (0, 1, 0)), start=(1, (1, 1, 1)))
def franke_2018_5_13(x: Variable, y: Variable) -> Levels:
    """Franke, Mehlitz and Pilecka (2018), example 5.13.

    A simple bilevel problem: x occurs nowhere; the upper level only chooses among the lower minima.
    """
    return Levels(
        -y[1],
        [],
        y[2],
        [y[0] ** 2 <= y[2], y[0] ** 2 + y[1] ** 2 <= 1, 0 <= y[2]],
    )


@stated("convex", "BOLIB", 2250, (11.25, 5), start=(1, 1))
def gumus_floudas_2001_1(x: Variable, y: Variable) -> Levels:
    """Gumus and Floudas (2001), example 1."""
    return Levels(
        16 * x**2 + 9 * y**2,
        [0 <= x, x <= 12.5, y <= 4 * x],
        (x + y - 20) ** 4,
        [0 <= y, y <= 50, 4 * x + y <= 50],
    )


@stated(
    "convex",
    "BOLIB",
    -0.43701602,
    ((0, 0, -0.70710678, -0.70710678), (0.61803399, 0, -0.55589297, -0.55589297)),
    start=((1,) * 4, (1,) * 4),
)
def nie_wang_ye_2017_5_4(x: Variable, y: Variable) -> Levels:
    """Nie, Wang and Ye (2017), example 5.4."""
    return Levels(
        x[0] ** 2 * y[0] + x[1] * y[1] + x[2] * y[2] ** 2 + x[3] * y[3] ** 2,
        [cp.sum_squares(x) <= 1, y[0] * y[1] <= x[0], y[2] * y[3] <= x[2] ** 2],
        y[0] ** 2 - y[1] * (x[0] + x[1]) - (y[2] + y[3]) * (x[2] + x[3]),
        [cp.sum_squares(y) <= 1, cp.sum_squares(y) <= y[0] ** 2 + y[0]],
    )


@stated(
    "convex", "BOLIB", 3.2077, (4.0604064, (2.6822444, 1.4871468)), start=(0, (0, 0)), is_optimal=False
)
def outrata_1994_3_1(x: Variable, y: Variable) -> Levels:
    """Outrata (1994), example 3.1."""
    return Levels(
        0.5 * ((y[0] - 3) ** 2 + (y[1] - 4) ** 2),
        [x <= 10, 0 <= x],
        0.5 * (1 + 0.2 * x) * y[0] ** 2
        + 0.5 * (1 + 0.1 * x) * y[1] ** 2
        - (3 + 1.333 * x) * y[0]
        - x * y[1],
        [0 <= y, y[1] + 0.1 * x <= 0.333 * y[0] + 1, y[0] ** 2 + y[1] ** 2 <= 0.1 * x + 9],
    )


@stated(
    "convex",
    "BOLIB",
    -1.15,
    ((0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1.15), (1.15,) * 10),
    start=((1,) * 11, (1,) * 10),
    is_optimal=False,
)
def robust_portfolio_1(x: Variable, y: Variable) -> Levels:
    """Robust portfolio, ten assets, in BOLIB from the semi-infinite literature.

    The follower is the worst case of the returns.
    """
    shares, promise = x[:10], x[10]
    k = np.arange(1, 11)
    deviations = (y - 1.15 - 0.005 * k) / np.sqrt(0.0055 * k / 9)
    return Levels(
        -promise,
        [promise <= y @ shares, 0 <= shares, cp.sum(shares) == 1],
        y @ shares - promise,
        [0 <= y, cp.sum_squares(deviations) <= 2.25],
    )
