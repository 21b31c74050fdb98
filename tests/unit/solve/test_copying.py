"""Problems are copied, pickled and sent to workers, before and after a solve."""

import copy
import pickle
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import ModelError


def qp():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y", nonneg=True)
    cap = cp.Parameter(name="cap", value=2.0)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y <= cap], variables=[y], name="firm")
    return bm.BilevelProblem(cp.Minimize((x - 3) ** 2 + cp.sum(y)), [x >= 0.1, x <= 5], lower)


def priced():
    tax, supply = cp.Variable(name="tax"), cp.Variable(2, nonneg=True, name="supply")
    balance = 8 - cp.sum(supply) == 0
    cost = (1 + tax) * supply[0] + 3 * supply[1]
    market = bm.Lower(cp.Minimize(cost), [balance, supply <= 10], variables=[supply])
    price = market.multiplier(balance)
    return bm.BilevelProblem(cp.Minimize((price - 2.5) ** 2), [0 <= tax, tax <= 5], market)


def game():
    tax, q1, q2 = cp.Variable(name="tax"), cp.Variable(name="q1"), cp.Variable(name="q2")
    firms = [bm.Lower(cp.Maximize((10 - q1 - q2 - tax) * q), [q >= 0], [q]) for q in (q1, q2)]
    return bm.BilevelProblem(cp.Maximize(tax * (q1 + q2)), [0 <= tax, tax <= 10], bm.Nash(firms))


def logarithmic():
    t, e = cp.Variable(name="t"), cp.Variable(name="e")
    lower = bm.Lower(cp.Maximize(8 * cp.log(1 + e) - t * e), [e >= 0], variables=[e])
    return bm.BilevelProblem(cp.Maximize(t * e - e**2), [0.5 <= t, t <= 8], lower)


def sent(problem):
    return pickle.loads(pickle.dumps(problem))


@pytest.mark.parametrize(
    ("make", "duplicate"),
    [
        (qp, sent),
        (qp, copy.copy),
        (priced, sent),
        (priced, copy.deepcopy),
        (game, copy.deepcopy),
        (logarithmic, sent),
    ],
)
def test_a_copy_has_the_answer_and_solves_again(make, duplicate):
    problem = make()
    fresh = duplicate(problem)
    value = problem.solve()
    assert fresh.status is None
    assert fresh.solve() == pytest.approx(value, abs=1e-5)
    other = duplicate(problem)
    assert other.value == value and other.status == problem.status
    assert str(other) == str(problem)
    assert other.certificate.accepted and (other.solution.problem is other or duplicate is copy.copy)
    for own, copied in zip(problem.variables, other.variables, strict=True):
        assert np.array_equal(own.value, copied.value)
    assert other.solve() == pytest.approx(value, abs=1e-5)


def test_a_deep_copy_has_leaves_of_its_own():
    problem = qp()
    problem.solve()
    other = copy.deepcopy(problem)
    ids = {leaf.id for leaf in (*problem.variables, *problem.parameters)}
    assert not ids & {leaf.id for leaf in (*other.variables, *other.parameters)}
    other.parameters[0].value = 1.0
    assert other.solve() == pytest.approx(2.0, abs=1e-5)
    assert float(problem.parameters[0].value) == 2.0 and problem.value == pytest.approx(4.0, abs=1e-5)
    dual = problem.followers[0].constraints[0].dual_value
    assert np.allclose(copy.deepcopy(problem).followers[0].constraints[0].dual_value, dual)


def test_an_infeasible_problem_is_sent_with_its_reason():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 1, y <= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [], lower)
    problem.solve()
    for other in (sent(problem), copy.deepcopy(problem)):
        assert other.status == problem.status
        assert other.solution.no_answer.sentence == problem.solution.no_answer.sentence


@pytest.mark.slow
def test_leaves_that_were_sent_do_not_meet_their_doubles(tmp_path):
    """Another process counts cvxpy's leaves from one, as the first one did."""
    problem = qp()
    problem.solve()
    path = tmp_path / "problem.pickle"
    path.write_bytes(pickle.dumps(problem))
    code = f"import pickle; p = pickle.load(open({str(path)!r}, 'rb')); print(p.solve(), p.value)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [round(float(word), 4) for word in done.stdout.split()] == [4.0, 4.0]


def test_joblib_workers():
    joblib = pytest.importorskip("joblib")
    problem = qp()
    problem.solve()

    def value_at(number):
        mine = copy.deepcopy(problem)
        mine.parameters[0].value = number
        return mine.solve()

    found = joblib.Parallel(n_jobs=2, backend="threading")(map(joblib.delayed(value_at), [1.0, 2.0]))
    assert found == pytest.approx([2.0, 4.0], abs=1e-5)


def test_constraints_added_later_are_refused():
    problem = qp()
    problem.constraints.append(problem.variables[0] <= 1)
    with pytest.raises(ModelError, match="after the problem was made"):
        problem.solve()
