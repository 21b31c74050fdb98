"""Random problems in units from 1e-12 to 1e12: the same answer or a weaker claim; moved: the same."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from tests.support.slow_cases import first_few

STRONG = ("optimal", "locally_optimal")
SAME = 1e-4
POWERS = (-12, -9, -6, -3, 3, 6, 9, 12)
WHAT = ("rows", "f", "g", "x", "y")
FAR = 1e6


def drawn(seed, *, unit=None, size=1.0, shift_x=0.0, shift_y=0.0):
    """A random problem: linear or quadratic below, some rows, a quadratic or bilinear f.

    ``unit`` tells what is counted in another size; with shifts, variables have another origin.
    """
    draw = np.random.default_rng([77, seed])
    of = {name: size if name == unit else 1.0 for name in WHAT}
    n_x, n_y, m = (int(draw.integers(*span)) for span in ((1, 3), (1, 4), (0, 3)))
    a, b, c = (draw.normal(size=k).round(1) for k in (n_x, n_y, n_y))
    A, B = draw.normal(size=(m, n_x)).round(1), draw.normal(size=(m, n_y)).round(1)
    M = draw.normal(size=(n_y, n_x)).round(1)
    is_quadratic, is_product = draw.random() < 0.6, draw.random() < 0.4
    x_, y_ = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    x, y = of["x"] * x_ - shift_x, of["y"] * y_ - shift_y
    g = cp.sum_squares(y - M @ x - b) + c @ y if is_quadratic else c @ y + (M @ x) @ y
    rows = [of["rows"] * (y + 2) >= 0, of["rows"] * (y - 3) <= 0]
    if m:
        rows.append(of["rows"] * (A @ x + B @ y - 2 - np.abs(B).sum(axis=1)) <= 0)
    lower = bm.Lower(cp.Minimize(of["g"] * g), rows, variables=[y_])
    f = a @ x + b @ y
    f = f + x[0] * y[0] if is_product else f + cp.sum_squares(x - 1) + 0.5 * cp.sum_squares(y - 1)
    above = [of["rows"] * (x + 1) >= 0, of["rows"] * (x - 2) <= 0]
    return bm.BilevelProblem(cp.Minimize(of["f"] * f), above, lower), of["f"]


_KNOWN: dict[int, tuple[float, str]] = {}


def plain(seed):
    if seed not in _KNOWN:
        problem, _ = drawn(seed)
        _KNOWN[seed] = problem.solve(effort="quick"), str(problem.status)
    return _KNOWN[seed]


def check(seed, **change):
    value, status = plain(seed)
    problem, unit = drawn(seed, **change)
    found = problem.solve(effort="quick", time_limit=30) / unit
    slack = SAME * (1 + abs(value))
    said = str(problem.status)
    if status != "optimal":
        return  # nothing to compare with
    assert said not in ("infeasible", "unbounded", "lower_infeasible", "lower_unbounded")
    if problem.status.has_point:
        bound = problem.certificate.bound
        assert bound is None or bound / unit <= value + slack
        assert found >= value - slack  # nothing is better than the optimum
    assert said != "optimal" or abs(found - value) <= slack


SAMPLE = [(seed, WHAT[seed % 5], POWERS[seed % 8]) for seed in range(10)]
ALL = [(seed, what, power) for seed in range(12) for what in WHAT for power in POWERS]


@pytest.mark.parametrize(("seed", "what", "power"), SAMPLE)
def test_units(seed, what, power):
    check(seed, unit=what, size=10.0**power)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "what", "power"), ALL)
def test_all_units(seed, what, power):
    check(seed, unit=what, size=10.0**power)


PLACES = ((-FAR, 0.0), (0.0, FAR), (FAR, FAR), (3 * FAR, -2 * FAR), (100 * FAR, 100 * FAR))
ORIGINS = [(seed, *where) for seed in range(20) for where in PLACES]


@pytest.mark.parametrize("case", first_few(ORIGINS, 15))
def test_other_origins(case):
    """A model that lies elsewhere is the same model, claim and all.

    A number of 1e8 is rounded to 1e-8, which can take x away from where the lower level is indifferent:
    there a weaker claim is right.
    """
    seed, shift_x, shift_y = case
    if abs(shift_x) > 10 * FAR:
        check(seed, shift_x=shift_x, shift_y=shift_y)
        return
    value, status = plain(seed)
    problem, _ = drawn(seed, shift_x=shift_x, shift_y=shift_y)
    found = problem.solve(effort="quick", time_limit=30)
    assert str(problem.status) == status
    assert found == value or abs(found - value) <= SAME * (1 + abs(value))
