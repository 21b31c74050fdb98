"""One problem for many parameters: answers by pencil, order, restoring, plots, other processes."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import DataError


@pytest.fixture
def problem():
    """y = min(x, limit); the best x is 2 up to limit = 2, so the value is (limit - 2)^2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    limit = cp.Parameter(name="limit", value=1.0)
    price = cp.Parameter(name="price", value=0.0, nonneg=True)
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= limit, y >= 0], variables=[y])
    upper = cp.Minimize((x - 2) ** 2 + (y - 2) ** 2 + price)
    return bm.BilevelProblem(upper, [0 <= x, x <= 3], lower)


def test_values_and_answers_by_pencil(problem):
    limits = np.linspace(0, 2, 11)
    result = bm.sweep(problem, {"limit": limits})
    np.testing.assert_allclose(result.values, (limits - 2) ** 2, atol=1e-6)
    np.testing.assert_allclose(result["y"], limits, atol=1e-4)
    np.testing.assert_allclose(result["limit"], limits)
    assert all(row.status == "optimal" for row in result.rows)


def test_the_problem_is_left_as_it_was(problem):
    problem.solve()
    x, value, solution = problem.levels.upper[0], problem.value, problem.solution
    x.value = 0.5
    bm.sweep(problem, {"limit": [0.5, 1.5]})
    assert x.value == 0.5 and problem.solution is solution and problem.value == value
    assert {p.name(): p.value for p in problem.levels.parameters} == {"limit": 1.0, "price": 0.0}


def test_the_model_is_compiled_once(problem):
    bm.sweep(problem, {"limit": [1.0]})
    model = problem.model
    bm.sweep(problem, {"limit": [0.5, 1.5]})
    assert problem.model is model


def test_each_solve_begins_at_the_answer_before(problem, monkeypatch):
    seen = []
    solve = bm.BilevelProblem.solve

    def watched(self, *arguments, **settings):
        seen.append(None if self.levels.lower[0].value is None else float(self.levels.lower[0].value))
        return solve(self, *arguments, **settings)

    monkeypatch.setattr(bm.BilevelProblem, "solve", watched)
    bm.sweep(problem, {"limit": np.linspace(0.1, 1, 10)})
    assert seen[0] is None and seen[8] is None  # a stretch begins where the user does
    np.testing.assert_allclose(seen[1:8], np.linspace(0.1, 0.7, 7), atol=1e-4)


def test_several_parameters_make_a_grid(problem):
    price, limit = problem.levels.parameters
    result = bm.sweep(problem, {limit: [0, 1], price: [0, 5, 7]})
    np.testing.assert_allclose(result.values, [4, 9, 11, 1, 6, 8], atol=1e-5)
    figure = result.plot()
    assert figure.axes[0].get_xlabel() == "price" and figure.axes[0].get_ylabel() == "limit"


def test_where_there_is_no_answer(problem):
    result = bm.sweep(problem, {"limit": [-1.0, 1.0]})
    assert np.isnan(result.values[0]) and result.values[1] == pytest.approx(1.0, abs=1e-6)
    assert result.rows[0].status == "lower_infeasible" and not result.rows[0].values
    assert np.isnan(result["x"][0])


def test_table_frame_and_picture(problem, tmp_path):
    result = bm.sweep(problem, {"limit": [0.5, 1.0]})
    lines = str(result).splitlines()
    assert lines[0].split() == ["limit", "value", "status", "x", "y"]
    assert lines[3].split()[:3] == ["1", "1", "optimal"]
    assert "<td" in result._repr_html_()
    figure = result.plot(path=tmp_path / "sweep.png")
    upper, lower = figure.axes
    np.testing.assert_allclose(upper.lines[0].get_ydata(), [2.25, 1.0], atol=1e-6)
    assert [text.get_text() for text in lower.get_legend().get_texts()] == ["x", "y"]
    assert (tmp_path / "sweep.png").stat().st_size > 5000
    alone = figure.add_subplot()
    result.plot(ax=alone)
    assert len(alone.lines) == 1 and alone.get_xlabel() == "limit"
    pytest.importorskip("pandas")
    assert list(result.to_frame().columns) == ["limit", "value", "status", "time", "x", "y"]


def test_multipliers_are_shown_where_they_were_asked_for():
    # By pencil: q = (d / 2 - tax / 4, d / 2 + tax / 4), the price is d + tax / 2.
    tax, q = cp.Variable(name="tax"), cp.Variable(2, name="q", nonneg=True)
    demand = cp.Parameter(name="d", value=3.0)
    balance = cp.sum(q) >= demand
    market = bm.Lower(cp.Minimize(cp.sum_squares(q) + tax * q[0]), [q <= 5, balance], variables=[q])
    price = market.multiplier(balance)
    upper = cp.Maximize(tax * q[0] - 0.1 * price)
    result = bm.sweep(bm.BilevelProblem(upper, [0 <= tax, tax <= 5], market), {"d": [-1.0, 2.0, 3.0]})
    assert result.variables == ["tax", "q", price.name()]
    assert result._head() == ["d", "value", "status", "tax", "q", price.name()]
    taxes = result["tax"][1:]
    np.testing.assert_allclose(taxes, [1.9, 2.9], atol=1e-4)
    np.testing.assert_allclose(result[price.name()][1:], [2, 3] + taxes / 2, atol=1e-4)
    assert len(result.multipliers) == 2 and not set(result.multipliers) & set(result.variables)
    np.testing.assert_allclose(result[result.multipliers[0]][1:], 0, atol=1e-6)  # q <= 5 is slack
    pytest.importorskip("pandas")
    assert result.to_frame().shape == (3, 8)
    assert result.to_frame(multipliers=True).shape == (3, 12)


def test_what_cannot_be_swept_is_said(problem):
    for values, said in [
        ({"limits": [1]}, "no parameter 'limits': it has price, limit"),
        ({cp.Parameter(name="limit"): [1]}, "no parameter 'limit'"),
        ({"limit": 3}, "must be a sequence"),
        ({"price": [1, -1]}, "-1 cannot be a value of 'price'"),
        ({}, "give a dict"),
    ]:
        with pytest.raises(DataError, match=said):
            bm.sweep(problem, values)
    assert problem.levels.parameters[1].value == 1.0


@pytest.mark.slow
def test_other_processes_give_the_same_answers(problem):
    pytest.importorskip("joblib")
    limits = np.linspace(0, 2, 17)
    problem.solve()
    alone, shared = (bm.sweep(problem, {"limit": limits}, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_allclose(shared.values, alone.values, atol=1e-9)
