"""Problems of several families, each written in several ways: one model, one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

SAME = 1e-6


@dataclass(frozen=True)
class Words:
    """How a problem is written.

    Attributes
    ----------
    is_joint : bool
        Followers as one vectorised lower level, not as a list.
    is_reversed : bool
        Constraints, followers and entries of variables in the opposite order.
    unit_x, unit_y, of_rows, of_f, of_g : float
        What variables are counted in, and what rows and objectives are multiplied with.
    name : str
        What variables' names begin with.
    """

    is_joint: bool = False
    is_reversed: bool = False
    unit_x: float = 1.0
    unit_y: float = 1.0
    of_rows: float = 1.0
    of_f: float = 1.0
    of_g: float = 1.0
    name: str = ""

    def order(self, items: list) -> list:
        return items[::-1] if self.is_reversed else items

    def entries(self, n: int) -> np.ndarray:
        return np.arange(n)[::-1] if self.is_reversed else np.arange(n)

    def upper(self, n: int, name: str) -> tuple[cp.Variable, cp.Expression]:
        x = cp.Variable(n, name=self.name + name)
        return x, self.unit_x * x[self.entries(n)]

    def row(self, left: cp.Expression, right: cp.Expression | float) -> cp.Constraint:
        return self.of_rows * left <= self.of_rows * right


def pricing(words: Words, curvature: float = 0.0) -> bm.BilevelProblem:
    """Two prices; four customers buy a unit of what suits them best, or amounts."""
    draw = np.random.default_rng(3)
    worth, weight = np.round(draw.uniform(1, 10, (4, 2)), 1), np.round(draw.uniform(1, 5, 4), 1)
    _, price = words.upper(2, "price")
    above = words.order([words.row(-price, 0), words.row(price, 10)])
    customers = words.entries(4)
    if words.is_joint:
        take_ = cp.Variable((4, 2), name=words.name + "take", nonneg=True)
        take = words.unit_y * take_[customers]
        prices = np.ones((4, 1)) @ cp.reshape(price, (1, 2), order="F")
        gain = cp.sum(cp.multiply(worth - prices, take)) - curvature * cp.sum_squares(take)
        rows = [words.row(cp.sum(take, axis=1), 1)]
        lower = [bm.Lower(cp.Maximize(words.of_g * gain), rows, variables=[take_])]
        revenue = cp.sum(weight @ cp.multiply(prices, take))
    else:
        lower, revenue = [], 0
        for k in customers:
            take_ = cp.Variable(2, name=f"{words.name}take{k}", nonneg=True)
            take = words.unit_y * take_[words.entries(2)]
            gain = (worth[k] - price) @ take - curvature * cp.sum_squares(take)
            rows = [words.row(cp.sum(take), 1)]
            lower.append(bm.Lower(cp.Maximize(words.of_g * gain), rows, variables=[take_]))
            revenue += weight[k] * (price @ take)
    return bm.BilevelProblem(cp.Maximize(words.of_f * revenue), above, lower)


def pricing_of_amounts(words: Words) -> bm.BilevelProblem:
    """The same with customers who buy amounts."""
    return pricing(words, curvature=0.7)


ARCS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)]
LENGTH = np.array([1.0, 3.0, 1.0, 4.0, 1.0, 9.0])
TRIPS = [(0, 3, 2.0), (0, 2, 1.0), (1, 3, 1.5)]


def toll(words: Words) -> bm.BilevelProblem:
    """Tolls on two arcs of a network; three groups of travellers take their shortest paths."""
    _, tolls = words.upper(2, "toll")
    on = np.zeros((6, 2))
    on[2, 0] = on[4, 1] = 1.0
    incidence = np.zeros((4, 6))
    for k, (start, end) in enumerate(ARCS):
        incidence[start, k], incidence[end, k] = 1, -1
    arcs = words.entries(6)
    above = words.order([words.row(-tolls, 0), words.row(tolls, 8)])
    flows, rows, cost, followers, revenue = [], [], 0, [], 0
    for k, (start, end, size) in enumerate(words.order(TRIPS)):
        flow_ = cp.Variable(6, name=f"{words.name}flow{k}", nonneg=True)
        flow = words.unit_y * flow_[arcs]
        ends = np.zeros(4)
        ends[start], ends[end] = 1, -1
        balance = words.of_rows * incidence[:3] @ flow == words.of_rows * ends[:3]
        own = words.of_g * ((LENGTH + on @ tolls) @ flow)
        revenue += size * ((on @ tolls) @ flow)
        flows.append(flow_)
        rows.append(balance)
        cost += own
        followers.append(bm.Lower(cp.Minimize(own), [balance], variables=[flow_]))
    if words.is_joint:
        followers = [bm.Lower(cp.Minimize(cost), words.order(rows), variables=flows)]
    return bm.BilevelProblem(cp.Maximize(words.of_f * revenue), above, followers)


def market(words: Words) -> bm.BilevelProblem:
    """A firm marks up the offers of two of three units in two hours; quadratic costs below."""
    _, markup = words.upper(2, "markup")
    cost, curve = np.array([2.0, 3.0, 5.0]), np.array([0.3, 0.2, 0.5])
    above = words.order([words.row(-markup, 0), words.row(markup, 6)])
    own = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    hours, outputs, rows, total, gain = [], [], [], 0, 0
    for demand in words.order([6.0, 9.0]):
        out_ = cp.Variable(3, name=f"{words.name}out{demand:g}", nonneg=True)
        out = words.unit_y * out_[words.entries(3)]
        spent = (cost + own @ markup) @ out + curve @ cp.square(out)
        balance = [words.of_rows * cp.sum(out) == words.of_rows * demand, words.row(out, 5)]
        hours.append(bm.Lower(cp.Minimize(words.of_g * spent), words.order(balance), variables=[out_]))
        outputs.append(out_)
        rows += balance
        total += words.of_g * spent
        gain += markup @ out[:2] - curve[:2] @ cp.square(out[:2])
    if words.is_joint:
        hours = [bm.Lower(cp.Minimize(total), words.order(rows), variables=outputs)]
    return bm.BilevelProblem(cp.Maximize(words.of_f * gain), above, hours)


def textbook(words: Words) -> bm.BilevelProblem:
    """A linear problem as in textbooks: both levels' rows hold both variables."""
    _, x = words.upper(2, "x")
    y_ = cp.Variable(2, name=words.name + "y", nonneg=True)
    y = words.unit_y * y_[words.entries(2)]
    below = [
        words.row(-x[0] + 2 * x[1] + 2 * y[0], 3),
        words.row(x[0] - 3 * y[0] + y[1], 2),
        words.row(2 * x[1] + y[0] - y[1], 4),
        words.row(y, 6),
    ]
    g = words.of_g * (y[0] - y[1])
    lower = bm.Lower(cp.Minimize(g), words.order(below), variables=[y_])
    above = words.order([words.row(-x, 0), words.row(x, 5), words.row(x[0] + x[1] + y[0], 7)])
    f = words.of_f * (-8 * x[0] - 4 * x[1] + 4 * y[0] - 3 * y[1])
    return bm.BilevelProblem(cp.Minimize(f), above, lower)


FAMILIES: dict[str, Callable[[Words], bm.BilevelProblem]] = {
    "pricing": pricing,
    "pricing of amounts": pricing_of_amounts,
    "toll": toll,
    "market": market,
    "textbook": textbook,
}
WAYS = {
    "joint": Words(is_joint=True),
    "reversed": Words(is_reversed=True),
    "joint and reversed": Words(is_joint=True, is_reversed=True),
    "renamed": Words(name="zz_"),
    "units of variables": Words(unit_x=1e4, unit_y=1e-5),
    "units of rows": Words(of_rows=1e-6),
    "units of objectives": Words(of_f=1e5, of_g=1e-6),
    "everything": Words(True, True, 1e-4, 1e4, 1e5, 1e-3, 1e6, "a_"),
}
QUICK = ("market", "textbook")  # families of which every way is tried each time
OFTEN = ("joint", "everything")  # ways that are tried each time
CASES = [
    pytest.param(family, way, marks=() if family in QUICK or way in OFTEN else pytest.mark.slow)
    for family in FAMILIES
    for way in WAYS
]
PLAIN: dict[str, tuple[float, str]] = {}


def plain(family: str) -> tuple[float, str]:
    if family not in PLAIN:
        problem = FAMILIES[family](Words())
        PLAIN[family] = problem.solve(), str(problem.status)
    return PLAIN[family]


@pytest.mark.parametrize(("family", "way"), CASES)
def test_one_model_has_one_answer(family: str, way: str) -> None:
    words = WAYS[way]
    problem = FAMILIES[family](words)
    value = problem.solve() / words.of_f
    expected, status = plain(family)
    assert problem.certificate.accepted
    assert value == pytest.approx(expected, rel=SAME, abs=SAME)
    assert (str(problem.status) == "optimal") == (status == "optimal")
