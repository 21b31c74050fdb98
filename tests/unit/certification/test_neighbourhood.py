"""The first-order test in dx and the multipliers of weakly active rows alone, as for large problems."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.limits import Limit


def kinked(n: int, weight: float, price: float) -> bm.BilevelProblem:
    """y = max(x, 0): at x = 0 every row is weakly active."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= 0], variables=[y])
    upper = cp.Minimize(cp.sum_squares(x) + weight * cp.sum(x) + price * cp.sum(y))
    return bm.BilevelProblem(upper, [x >= -1, x <= 1], lower)


@pytest.mark.parametrize(("weight", "price"), [(2.0, -3.0), (4.0, -3.0), (-1.0, 0.5), (-1.0, 3.0)])
def test_both_forms_see_the_same_decrease(weight, price, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 3
    problem, zero = kinked(n, weight, price), np.zeros(n)
    found = []
    for limit in (limits.NEIGHBOURHOOD_ENTRIES.value, 0):
        monkeypatch.setattr(limits, "NEIGHBOURHOOD_ENTRIES", Limit(limit, "entries", "for the test"))
        found.append(bm.certify(problem, zero, zero))
    # Along dx = 1 f changes by weight + price for each entry, along dx = -1 by -weight.
    decrease = n * max(0.0, -weight - price, weight)
    steepness = 1 + max(abs(weight), abs(price))
    for certificate in found:
        assert certificate.stationarity == pytest.approx(decrease / steepness, abs=1e-9)
        assert certificate.claim == ("feasible" if decrease else "locally_optimal")
