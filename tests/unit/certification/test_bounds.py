"""Bounds of the certificate's own and of methods: never beaten by a point of a brute-force search."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import NEVER
from blomodel.certification.bounds import Bound, bound_of_formula, find_bound, high_point

KINDS = ("lp", "qp", "convex", "nonconvex")
FINE = 401  # points of a grid in y
COARSE = 81  # in x


def random_problem(kind: str, seed: int) -> tuple[bm.BilevelProblem, dict]:
    """One upper and one lower variable in boxes, a coupling row below; f of several kinds."""
    r = np.random.default_rng([seed, KINDS.index(kind)])
    a, b, c, d, e, k = np.round(r.uniform(-2, 2, 6), 1)
    sense = 1.0 if seed % 2 else -1.0

    def g(x, y, sin, exp):
        if kind == "lp":
            return (a + b * x) * y
        if kind == "qp":
            return 0.5 * (y - a * x - b) ** 2
        if kind == "convex":
            return exp(y - a * x) + 0.3 * y**2 - 2 * y
        return sin(2 * y + a * x) + 0.2 * (y - b) ** 2

    def f(x, y, sin):
        return [
            c * x + d * y + 0.0,
            (x - c) ** 2 + (y - d) ** 2,
            c * x * y + d * y,
            sin(3 * x) + c * y,
        ][int(abs(e) * 10) % 4]

    def row(x, y):
        return y - 1.5 - 0.4 * k * x

    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    below = [y >= -2, y <= 2, row(x, y) <= 0]
    lower = bm.Lower(cp.Minimize(g(x, y, cp.nlp.sin, cp.exp)), below, variables=[y])
    wish = sense * f(x, y, cp.nlp.sin)
    objective = cp.Minimize(wish) if sense > 0 else cp.Maximize(wish)
    functions = {
        "f": lambda u, v: sense * f(u, v, np.sin),
        "g": lambda u, v: g(u, v, np.sin, np.exp),
        "row": row,
        "sense": sense,
    }
    return bm.BilevelProblem(objective, [x >= -1, x <= 1], lower), functions


def best_on_a_grid(functions: dict) -> float:
    """The best f, minimised, over lower answers on a grid refined around each; optimistic."""
    sense, best = functions["sense"], np.inf
    for x in np.linspace(-1, 1, COARSE):
        y = np.linspace(-2, 2, FINE)
        y = np.append(y, np.clip(-functions["row"](x, 0.0), -2, 2))  # on the row
        y = y[functions["row"](x, y) <= 1e-12]
        if not y.size:
            continue
        values = functions["g"](x, y) + np.zeros(y.size)
        center = y[np.argmin(values)]
        fine = np.clip(center + np.linspace(-0.01, 0.01, FINE), -2, 2)
        fine = np.append(fine[functions["row"](x, fine) <= 1e-12], center)
        values = functions["g"](x, fine) + np.zeros(fine.size)
        near = fine[values <= values.min() + 1e-12]
        best = min(best, float(np.min(sense * functions["f"](x, near))))
    return best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_no_point_of_a_grid_beats_a_bound(kind: str, seed: int) -> None:
    problem, functions = random_problem(kind, seed)
    sign, known = functions["sense"], best_on_a_grid(functions)
    small = 1e-3 * (1 + abs(known))  # what the grid's y may be off, times f's slope
    problem.solve()
    assert problem.certificate.accepted
    assert sign * problem.solution.bound <= known + small
    assert sign * problem.solution.bound <= sign * problem.value + 1e-6 * (1 + abs(known))
    if problem.status == "optimal":
        assert sign * problem.value <= known + small
    own = high_point(problem.judged_model, problem.parameter_values(), NEVER)
    assert own.is_known and own.is_recomputed and own.slack > 0
    assert own.value <= known + 1e-9
    assert bound_of_formula(problem.judged_model, problem.parameter_values()).value <= known + 1e-9


def test_a_method_without_bounds_gets_the_high_point_relaxation() -> None:
    """f over both levels' rows is least at (1, 1): 0.5 by hand; the bilevel optimum is worse."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y + x) ** 2), [y >= -3, y <= 1], variables=[y])
    f = (x - 1) ** 2 + (y - 1) ** 2 + 0.5 * x
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)
    problem.solve("phi-descent")
    least = 0.75**2 - 2 * 0.75 + 1 + 0.375
    assert problem.solution.bound == pytest.approx(least, abs=1e-5)
    assert problem.solution.bound <= least
    assert problem.solution.gap > 0.1
    text = str(problem.certificate)
    assert "high-point relaxation" in text and "recomputed" in text and "slack of" in text
    assert "gap" in problem.solution._repr_html_() and "bound" in problem.solution._repr_html_()


def test_no_bound_is_said() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(2 * x - y), [x >= 0], lower)
    certificate = bm.certify(problem, 0.0, 0.0)
    assert certificate.bound is None and certificate.gap is None
    assert "none   (f falls without limit" in str(certificate)


def test_rows_that_are_not_convex_are_left_out_where_scip_is_missing(monkeypatch) -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    rows = [x >= -2, x <= 2, cp.nlp.sin(x) <= 0.5]
    problem = bm.BilevelProblem(cp.Minimize((x - 3) ** 2 + cp.square(y)), rows, lower)
    monkeypatch.setattr("blomodel.certification.bounds.is_installed", lambda: False)
    found = high_point(problem.judged_model, problem.parameter_values(), NEVER)
    assert "without 1 row" in found.source
    assert found.value == pytest.approx(1.0, abs=1e-5) and found.value <= 1.0


def test_a_bound_of_a_method_is_taken_over_as_reported() -> None:
    problem, _ = random_problem("qp", 3)
    reported = Bound(-5.0, "a tree", 1e-9)
    model, p = problem.judged_model, problem.parameter_values()
    found = find_bound(model, p, reported, 0.0, NEVER, np.inf)
    assert not found.is_recomputed or found.value >= reported.value
