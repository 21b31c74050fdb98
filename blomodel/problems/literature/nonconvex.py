"""Problems whose lower level is not convex in y."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from cvxpy import Variable

from blomodel.problems.entries import Levels, stated


@stated("nonconvex", "BOLIB", -29.2, ((0, 0.9), (0, 0.6, 0.4)), start=((0, 0.5), (0, 0.5, 0)))
def calvete_gale_1999_1(x: Variable, y: Variable) -> Levels:
    """Calvete and Gale (1999), problem 1.

    The lower objective is a ratio of linear functions: quasi-convex, not convex.
    """
    return Levels(
        4 * y[0] - 8 * x[0] - 4 * x[1] - 40 * y[1] - 4 * y[2],
        [0 <= x],
        (1 + x[0] + x[1] + 2 * y[0] - y[1] + y[2]) / (6 + 2 * x[0] + y[0] + y[1] - 3 * y[2]),
        [
            0 <= y,
            y[1] + y[2] <= y[0] + 1,
            2 * x[0] + 2 * y[1] <= y[0] + 0.5 * y[2] + 1,
            2 * x[1] + 2 * y[0] <= y[1] + 0.5 * y[2] + 1,
        ],
    )


@stated("nonconvex", "BOLIB", -1, ((), (0, 1)), start=(0, (0, 0)))
def franke_2018_5_21(x: Variable, y: Variable) -> Levels:
    """Franke, Mehlitz and Pilecka (2018), example 5.21.

    A simple bilevel problem: x occurs nowhere; the upper level only chooses among the lower minima.
    """
    return Levels(
        -y[1],
        [],
        y[0],
        [(y[0] - 1) ** 2 <= (y[1] - 0.5) ** 2 + 1.25, y[0] + y[1] <= 1, 0 <= y[0]],
    )


@stated(
    "nonconvex",
    "BASBLib",
    0.19361422,
    (0.19361422, (9.9667674, 10.0001)),
    start=(5.05, (5.05005, 5.05005)),
)
def gf_2001_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, gf_2001_01: Gumus and Floudas (2001).

    Real powers: all variables are positive.
    """
    return Levels(
        x,
        [0.1 <= x, x <= 10],
        0.5864 * y[0] ** (2 / 3) - y[0],
        [
            0.1 <= y,
            y <= 10.0001,
            0.0332333 / y[1] + 0.1 * y[0] <= 1,
            4 * x / y[1] + 2 * x ** (-0.71) / y[1] + 0.0332333 * x ** (-1.3) <= 1,
        ],
    )


@stated("nonconvex", "BOLIB", 0.1936161, (0.1936161, (9.9667676, 10)), start=(1, (1, 1)))
def gumus_floudas_2001_5(x: Variable, y: Variable) -> Levels:
    """Gumus and Floudas (2001), example 5.

    Real powers: all variables are positive.
    """
    return Levels(
        x,
        [0.1 <= x, x <= 10],
        0.5864 * y[0] ** 0.67 - y[0],
        [
            0.1 <= y,
            y <= 10,
            0.0332333 / y[1] + 0.1 * y[0] <= 1,
            (4 * x + 2 * x ** (-0.71)) / y[1] + 0.0332333 * x ** (-1.3) <= 1,
        ],
    )


@stated("nonconvex", "BOLIB", -1, (0, 1), start=(1, 1))
def kleniati_adjiman_2014_3(x: Variable, y: Variable) -> Levels:
    """Kleniati and Adjiman (2014), example 3."""
    return Levels(
        x - y,
        [-1 <= x, x <= 1],
        x * y**2 / 2 - x * y**3,
        [-1 <= y, y <= 1],
    )


@stated(
    "nonconvex",
    "BOLIB",
    -10,
    ((1, -1, -1, -1, -1), (-1,) * 5),
    start=((1,) * 5, (1,) * 5),
    is_optimal=False,
)
def kleniati_adjiman_2014_4(x: Variable, y: Variable) -> Levels:
    """Kleniati and Adjiman (2014), example 4."""
    return Levels(
        -(x[0] ** 2)
        - y[0] ** 2
        - x[1] ** 2
        - y[1] ** 2
        - x[2] ** 2
        - y[2] ** 2
        - x[3] ** 2
        - y[3] ** 2
        - x[4] ** 2
        - y[4] ** 2,
        [-1 <= x, x <= 1, y[0] * y[1] <= x[0], x[0] + y[2] <= cp.exp(x[1]), x[1] * y[0] ** 2 <= 0],
        y[0] ** 3
        + (x[0] + x[1]) * y[1] ** 2
        + 0.1 * y[2]
        + (y[3] ** 2 + y[4] ** 2) * x[2] * x[3] * x[4],
        [-1 <= y, y <= 1, x[0] <= y[2] ** 2 + 0.2],
    )


@stated("nonconvex", "BOLIB", -1, (0, 1), start=(1, 1))
def mitsos_barton_2006_3_13(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.13."""
    return Levels(
        x - y,
        [-1 <= x, x <= 1],
        x * y * (y / 2 - x**2),
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", 0.25, (0.25, 0.5), start=(1, 1))
def mitsos_barton_2006_3_14(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.14."""
    return Levels(
        (x - 0.25) ** 2 + y**2,
        [-1 <= x, x <= 1],
        y**3 / 3 - x * y,
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", 0, (-1, 1), start=(1, 1))
def mitsos_barton_2006_3_15(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.15."""
    return Levels(
        x + y,
        [-1 <= x, x <= 1],
        x * y**2 / 2 - y**3 / 3,
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", -2, (-1, 0), start=(1, 1))
def mitsos_barton_2006_3_16(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.16."""
    return Levels(
        2 * x + y,
        [-1 <= x, x <= 1],
        -x * y**2 / 2 - y**4 / 4,
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", -0.25807566, (0.18861178, 0.4342947), start=(-1, 1))
def mitsos_barton_2006_3_19(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.19."""
    return Levels(
        (x - 1 + y / 2) * y,
        [-1 <= x, x <= 1],
        (-x + y**2 / 2) * y**2,
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", 0.20950494, (-0.55445585, 0.45544558), start=(1, 1))
def mitsos_barton_2006_3_21(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.21."""
    return Levels(
        (x + 0.6) ** 2 + y**2,
        [-1 <= x, x <= 1],
        y**4
        + 2 / 15 * (1 - x) * y**3
        + (-0.02 * x**2 + 0.16 * x - 0.4) * y**2
        + (0.004 * x**3 - 0.036 * x**2 + 0.08 * x) * y,
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", 0.20945941, (-0.5545, 0.4554), start=(1, 1))
def mitsos_barton_2006_3_22(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.22.

    Example 3.21 with a hole in the lower feasible set.
    """
    return Levels(
        (x + 0.6) ** 2 + y**2,
        [-1 <= x, x <= 1],
        y**4
        + 2 / 15 * (1 - x) * y**3
        + (-0.02 * x**2 + 0.16 * x - 0.4) * y**2
        + (0.004 * x**3 - 0.036 * x**2 + 0.08 * x) * y,
        [-1 <= y, y <= 1, 0.01 * (1 + x**2) <= y**2],
    )


@stated("nonconvex", "BOLIB", 0.1756543, (-0.41911132, -1), start=(0, 1))
def mitsos_barton_2006_3_23(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.23."""
    return Levels(
        x**2,
        [-1 <= x, x <= 1, x <= 9 * x**2 + y - 1],
        y,
        [-1 <= y, y <= 1, y**2 * (x - 0.5) <= 0],
    )


@stated("nonconvex", "BOLIB", -1.7547179, (0.21066226, 1.7990965), start=(1, 1))
def mitsos_barton_2006_3_24(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.24."""
    return Levels(
        x**2 - y,
        [0 <= x, x <= 1],
        ((y - 1 - 0.1 * x) ** 2 - 0.5 - 0.5 * x) ** 2,
        [0 <= y, y <= 3],
    )


@stated("nonconvex", "BOLIB", -2.3535534, ((-1, -1), (1, 1, -0.70710678)), start=((1, 1), (1, 1, 1)))
def mitsos_barton_2006_3_26(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.26."""
    return Levels(
        x[0] * y[0] + x[1] * y[1] ** 2 + x[0] * x[1] * y[2] ** 3,
        [-1 <= x, x <= 1, 0.1 <= x[0] ** 2, 1.5 <= cp.sum_squares(y), cp.sum_squares(y) <= 2.5],
        x[0] * y[0] ** 2 + x[1] * y[1] ** 2 + (x[0] - x[1]) * y[2] ** 2,
        [-1 <= y, y <= 1],
    )


@stated(
    "nonconvex", "BOLIB", 2, ((0,) * 5, (-1, 0, -1, 0, 0)), start=((1,) * 5, (1,) * 5), is_optimal=False
)
def mitsos_barton_2006_3_27(x: Variable, y: Variable) -> Levels:
    """Mitsos and Barton (2006), example 3.27."""
    return Levels(
        x[0] ** 2
        + y[0] ** 2
        + x[1] ** 2
        + y[1] ** 2
        + x[2] ** 2
        + y[2] ** 2
        + x[3] ** 2
        + y[3] ** 2
        + x[4] ** 2
        + y[4] ** 2,
        [-1 <= x, x <= 1, y[0] * y[1] <= x[0], x[0] + y[2] <= cp.exp(x[1]), x[1] * y[0] ** 2 <= 0],
        y[0] ** 3
        + (x[0] + x[1]) * y[1] ** 2
        + 0.1 * y[2]
        + (y[3] ** 2 + y[4] ** 2) * x[2] * x[3] * x[4],
        [
            -1 <= y,
            y <= 1,
            y[0] * y[1] <= 0.3,
            x[0] <= y[2] ** 2 + 0.2,
            y[3] * y[4] <= cp.exp(y[2]) + 0.1,
        ],
    )


@stated(
    "nonconvex",
    "BOLIB",
    -1.7095094,
    ((-1, -1), (1.1097122, 0.31433309, -0.81837244)),
    start=((1, 1), (1, 1, 1)),
)
def nie_wang_ye_2017_5_2(x: Variable, y: Variable) -> Levels:
    """Nie, Wang and Ye (2017), example 5.2."""
    return Levels(
        x[0] * y[0] + x[1] * y[1] + x[0] * x[1] * (y[0] * y[1] * y[2]),
        [-1 <= x, x <= 1, y[0] * y[1] <= x[0] ** 2],
        x[0] * y[0] ** 2 + x[1] ** 2 * y[1] * y[2] - y[0] * y[2] ** 2,
        [1 <= cp.sum_squares(y), cp.sum_squares(y) <= 2],
    )


@stated("nonconvex", "BOLIB", -2, ((1, 1), (0, 0, 1)), start=((1, 1), (1, 1, 1)), is_optimal=False)
def nie_wang_ye_2017_5_7(x: Variable, y: Variable) -> Levels:
    """Nie, Wang and Ye (2017), example 5.7."""
    return Levels(
        x[0] ** 2 * y[0] / 2 + x[1] * y[1] ** 2 - (x[0] + x[1] ** 2) * y[2],
        [-1 <= x, x <= 1, x[0] ** 2 + y[0] ** 2 + y[1] ** 2 <= x[0] + x[1]],
        x[1] * (y[0] * y[1] * y[2] + y[1] ** 2 - y[2] ** 3),
        [cp.sum_squares(y) <= x[0], 2 * y[1] * y[2] <= 1],
    )


@stated(
    "nonconvex",
    "BOLIB",
    -3.4879573,
    (
        (0.51354702, 0.50499003, 0.48820494, 0.49285947),
        (-0.83464418, -0.41036844, -0.21059095, -0.28872264),
    ),
    start=((0.5442, 0.4682, 0.4904, 0.4942), (-0.7792, -0.5034, -0.2871, -0.1855)),
    is_optimal=False,
)
def nie_wang_ye_2017_5_8(x: Variable, y: Variable) -> Levels:
    """Nie, Wang and Ye (2017), example 5.8."""
    return Levels(
        cp.sum(x) * cp.sum(y),
        [cp.sum_squares(x) <= 1, y[2] ** 2 <= x[3], y[1] * y[3] <= x[0]],
        x[0] * y[0] + x[1] * y[1] + 0.1 * y[2] + 0.5 * y[3] - y[2] * y[3],
        [
            y[0] ** 2 + 2 * y[1] ** 2 + 3 * y[2] ** 2 + 4 * y[3] ** 2
            <= x[0] ** 2 + x[2] ** 2 + x[1] + x[3],
            y[1] * y[2] <= y[0] * y[3],
        ],
    )


@stated(
    "nonconvex",
    "BOLIB",
    -1.0219391,
    ((0.57122673, -1), (-0.16383836, 0.9864872)),
    start=((1, -1), (-1, 1)),
    is_optimal=False,
)
def nie_wang_ye_2017_6_1(x: Variable, y: Variable) -> Levels:
    """Nie, Wang and Ye (2017), example 6.1."""
    return Levels(
        y[0] ** 3 * (x[0] ** 2 - 3 * x[0] * x[1]) - y[0] ** 2 * y[1] + y[1] * x[1] ** 3,
        [-1 <= x, x <= 1, 0 <= y[1] + y[0] * (1 - x[0] ** 2)],
        y[0] * y[1] ** 2 - y[1] ** 3 - y[0] ** 2 * (x[1] - x[0] ** 2),
        [y[0] ** 2 + y[1] ** 2 <= 1],
    )


@stated("nonconvex", "BASBLib", 2, (2, (0, 0)), start=(2.5, (5, 5)))
def nwj_2017_01(x: Variable, y: Variable) -> Levels:
    """BASBLib, nwj_2017_01: Nie, Wang and Ye (2017), with bounds.

    The origin is an isolated lower point at which no multipliers exist.
    """
    return Levels(
        x + y[0] + y[1],
        [2 <= x, x <= 3],
        x * y[0] + x * y[1],
        [0 <= y, y <= 10, y[1] ** 2 + y[0] ** 4 + 2 * y[0] ** 2 * y[1] ** 2 + y[1] ** 4 <= y[0] ** 2],
    )


@stated("nonconvex", "BOLIB", 0.25, (0.5, 0), start=(1, 1))
def paulavicius_adjiman_2017_a(x: Variable, y: Variable) -> Levels:
    """Paulavicius and Adjiman (2017), example a."""
    return Levels(
        x**2 + y**2,
        [-1 <= x, x <= 1, -1 <= y, y <= 1],
        x * y**2 - y**4 / 2,
        [-1 <= y, y <= 1],
    )


@stated("nonconvex", "BOLIB", 0, ((1,) * 10, (0,) * 10), start=((0,) * 10, (0,) * 10), is_optimal=False)
def sinha_malo_deb_2014_tp9(x: Variable, y: Variable) -> Levels:
    """Sinha, Malo and Deb (2014), TP 9.

    Griewank's function, with many local minima, below.
    """
    waves = 1.0
    for k in range(10):
        waves = waves * cp.nlp.cos(y[k] / np.sqrt(k + 1))
    return Levels(
        cp.sum_squares(x - 1) + cp.sum_squares(y),
        [],
        cp.exp((1 + cp.sum_squares(y) / 4000 - waves) * cp.sum_squares(x)),
        [-np.pi <= y, y <= np.pi],
    )
