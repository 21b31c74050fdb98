"""Elements that meet nowhere are searched in step, with the answers of searches one by one."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.compiler.tape import Tape
from blomodel.model.multistart import MultistartLower
from blomodel.model.side_by_side import SideBySide
from blomodel.solvers.answer import InnerStatus

NO_P = np.zeros(0)


def searches_of(g, constraints, x, y) -> tuple[MultistartLower, MultistartLower]:
    """In step, and one by one."""
    lower = bm.Lower(cp.Minimize(g), constraints, variables=[y])
    model = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x)), [x >= -1, x <= 1], lower).model
    one_by_one = MultistartLower(model)
    one_by_one._search_side_by_side = lambda *given: {}
    return MultistartLower(model), one_by_one


def wavy(n: int, seed: int):
    """Waves of random lengths on parabolas and quartics, that x moves and tilts."""
    random = np.random.default_rng(seed)
    a, b, c = random.uniform(2, 7, n), random.uniform(0.02, 0.5, n), random.uniform(0.5, 2, n)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = cp.sum(cp.nlp.sin(cp.multiply(a, y) + x)) + b @ cp.square(y - x) + cp.sum(cp.power(y, 4)) / 50
    return x, y, g + c @ cp.nlp.cos(3 * y) - x @ y + cp.sum(cp.exp(x))


def bounds_of(kind: str, n: int, y, random) -> list:
    low, high = random.uniform(-5, -1, n), random.uniform(1, 5, n)
    if kind == "free":
        return []
    if kind == "intervals":
        return [y >= low, y <= high]
    return [y[: n // 2] >= low[: n // 2], y[n // 3 :] <= high[n // 3 :]]


@pytest.mark.parametrize("kind", ["intervals", "free", "some of each"])
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_searches_one_by_one(kind: str, seed: int) -> None:
    n = 6
    x, y, g = wavy(n, seed)
    random = np.random.default_rng(seed)
    in_step, one_by_one = searches_of(g, bounds_of(kind, n, y, random), x, y)
    assert len(in_step._groups) == n
    for _ in range(3):
        at, near = random.uniform(-1, 1, n), [random.uniform(-1, 1, n)]
        found, wanted = in_step.solve(at, NO_P, near=near), one_by_one.solve(at, NO_P, near=near)
        assert found.status is wanted.status is InnerStatus.OPTIMAL
        assert found.value <= wanted.value + 1e-9
        if kind == "intervals":  # where both look everywhere
            assert found.value == pytest.approx(wanted.value, abs=1e-9)
            assert found.y == pytest.approx(wanted.y, abs=1e-6)


def test_every_element_has_the_least_value_of_a_fine_grid() -> None:
    n = 40
    x, y, g = wavy(n, 7)
    random = np.random.default_rng(7)
    a, b, c = random.uniform(2, 7, n), random.uniform(0.02, 0.5, n), random.uniform(0.5, 2, n)
    at = np.random.default_rng(1).uniform(-1, 1, n)
    grid = np.linspace(-6, 6, 60_001)[:, None]
    waves = (
        np.sin(a * grid + at) + b * (grid - at) ** 2 + grid**4 / 50 + c * np.cos(3 * grid) - at * grid
    )
    for constraints in ([y >= -6, y <= 6], []):
        in_step, _ = searches_of(g, constraints, x, y)
        found = in_step.solve(at, NO_P)
        assert found.value == pytest.approx(waves.min(axis=0).sum() + np.exp(at).sum(), abs=1e-5)


def test_hundreds_of_elements_take_as_many_runs_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    at_each = Tape.at_each
    monkeypatch.setattr(
        Tape,
        "at_each",
        lambda self, name, points, *at: runs.append(1) or at_each(self, name, points, *at),
    )
    counts = []
    for n in (3, 300):
        x, y, g = wavy(n, 0)
        in_step, _ = searches_of(g, [y >= -4, y <= 4], x, y)
        runs.clear()
        assert in_step.solve(np.zeros(n), NO_P).status is InnerStatus.OPTIMAL
        counts.append(len(runs))
    assert counts[1] < 4 * counts[0]


def test_a_summand_that_is_undefined_hides_no_other_element() -> None:
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    g = cp.sum(cp.nlp.cos(5 * y)) + cp.sum_squares(y - x) - cp.log(y[1] + 1)
    in_step, one_by_one = searches_of(g, [y >= -3, y <= 3], x, y)
    at = np.array([0.3, -0.4, 0.9])
    found, wanted = in_step.solve(at, NO_P), one_by_one.solve(at, NO_P)
    assert found.value == pytest.approx(wanted.value, abs=1e-9)
    assert found.y[1] > -1


def test_an_element_without_least_value_is_seen() -> None:
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    for fall in (y[2] ** 3, -(y[2] ** 2), y[2] + cp.nlp.sin(y[2]) / 2):
        g = cp.sum(cp.nlp.cos(5 * y[:2])) + cp.sum_squares(y[:2] - x[:2]) + fall
        in_step, _ = searches_of(g, [y[:2] >= -3, y[:2] <= 3], x, y)
        assert (
            in_step.solve(np.full(3, 0.5), NO_P, near=[np.full(3, 0.3)]).status is InnerStatus.UNBOUNDED
        )


def test_groups_of_several_elements_are_searched_beside() -> None:
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    g = cp.sum(cp.nlp.cos(5 * y)) + cp.sum_squares(y - x) + y[2] * y[3] * cp.nlp.sin(y[2])
    in_step, one_by_one = searches_of(g, [y >= -3, y <= 3], x, y)
    assert [len(free) for free, _ in in_step._groups] == [1, 1, 2]
    at = np.array([0.3, -0.4, 0.9, 0.1])
    found, wanted = in_step.solve(at, NO_P), one_by_one.solve(at, NO_P)
    assert found.value == pytest.approx(wanted.value, abs=1e-8)


def test_a_search_ends_with_its_time_and_has_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 50
    x, y, g = wavy(n, 0)
    in_step, _ = searches_of(g, [y >= -4, y <= 4], x, y)
    values = SideBySide._values
    monkeypatch.setattr(
        SideBySide, "_values", lambda self, places: time.sleep(0.02) or values(self, places)
    )
    began = time.perf_counter()
    answer = in_step.solve(np.zeros(n), NO_P, deadline=Deadline.after(0.3))
    assert time.perf_counter() - began < 2.0
    assert answer.status is InnerStatus.OPTIMAL
    assert not in_step._known  # it is no answer of a thorough search
