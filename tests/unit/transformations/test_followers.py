"""Several followers: the joint lower level is exact, and what is no set of followers is refused."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors
from blomodel.report import text


@pytest.fixture
def x():
    return cp.Variable(name="x")


def buyers(x):
    """One minimises, one maximises: y = min(x, 1) and z = (min(x, 1.5), min(2x, 1.5))."""
    y, z = cp.Variable(name="y"), cp.Variable(2, name="z")
    first = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y], name="first")
    second = bm.Lower(
        cp.Maximize(-cp.sum_squares(z - x * np.array([1.0, 2.0]))), [z <= 1.5], variables=[z]
    )
    return first, second, y, z


def test_mixed_senses_against_the_answers_written_out(x):
    first, second, y, z = buyers(x)
    problem = bm.BilevelProblem(
        cp.Minimize((x - 2) ** 2 + (y - 2) ** 2 + cp.sum(z)), [0 <= x, x <= 3], [first, second]
    )
    value = problem.solve()
    grid = np.linspace(0, 3, 30001)
    written_out = (
        (grid - 2) ** 2
        + (np.minimum(grid, 1) - 2) ** 2
        + np.minimum(grid, 1.5)
        + np.minimum(2 * grid, 1.5)
    )
    assert problem.status == bm.Status.OPTIMAL
    assert value == pytest.approx(written_out.min(), abs=1e-6)
    assert y.value == pytest.approx(min(x.value, 1), abs=1e-6)
    assert z.value == pytest.approx([min(x.value, 1.5), min(2 * x.value, 1.5)], abs=1e-6)


def test_duals_are_those_of_each_follower_alone(x):
    first, second, y, z = buyers(x)
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + y), [0 <= x, x <= 3], [first, second])
    problem.solve()
    found = [first.constraints[0].dual_value, second.constraints[0].dual_value]
    fixed = float(x.value)
    alone_y, alone_z = cp.Variable(), cp.Variable(2)
    rows = [alone_y <= 1, alone_z <= 1.5]
    cp.Problem(cp.Minimize((alone_y - fixed) ** 2), rows[:1]).solve(solver=cp.CLARABEL)
    cp.Problem(cp.Maximize(-cp.sum_squares(alone_z - fixed * np.array([1.0, 2.0]))), rows[1:]).solve(
        solver=cp.CLARABEL
    )
    assert found[0] == pytest.approx(rows[0].dual_value, abs=1e-5)
    assert found[1] == pytest.approx(rows[1].dual_value, abs=1e-5)


def test_all_maximise_keeps_the_sense_of_the_lower_value(x):
    y, z = cp.Variable(name="y"), cp.Variable(name="z")
    followers = [
        bm.Lower(cp.Maximize(3 - (y - x) ** 2), [], variables=[y]),
        bm.Lower(cp.Maximize(4 - (z + x) ** 2), [], variables=[z]),
    ]
    problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + (z + 1) ** 2), [], followers)
    assert problem.solve() == pytest.approx(0, abs=1e-8)
    assert problem.certificate.lower_value == pytest.approx(7, abs=1e-6)


def test_a_list_of_one_is_the_follower_itself(x):
    first, _, y, _ = buyers(x)
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [], [first])
    assert problem.lower is first and problem.followers == (first,)
    assert problem.solve() == pytest.approx(1, abs=1e-6)


def test_a_follower_that_sees_another_is_named(x):
    first, _, y, z = buyers(x)
    reacting = bm.Lower(cp.Minimize(cp.sum_squares(z) + y * z[0]), [], variables=[z])
    with pytest.raises(errors.ModelError, match=r"y \* z\[0\].*follower 2.*'y'.*'first'.*Nash"):
        bm.BilevelProblem(cp.Minimize(x**2), [], [first, reacting])
    shared = bm.Lower(cp.Minimize(cp.sum_squares(z)), [z[0] >= y], variables=[z])
    with pytest.raises(errors.ModelError, match=r"y <= z\[0\].*follower 2"):
        bm.BilevelProblem(cp.Minimize(x**2), [], [first, shared])


def test_what_is_no_list_of_followers(x):
    first, second, y, z = buyers(x)
    with pytest.raises(errors.LevelError, match="'y' is decided by"):
        again = bm.Lower(cp.Minimize(y**2), [], variables=[y])
        bm.BilevelProblem(cp.Minimize(x**2), [], [first, again])
    with pytest.raises(errors.ModelError, match="no follower"):
        bm.BilevelProblem(cp.Minimize(x**2), [], [])
    with pytest.raises(errors.ModelError, match="a list of Lower, Minimize"):
        bm.BilevelProblem(cp.Minimize(x**2), [], [first, cp.Minimize(y)])
    with pytest.raises(errors.ModelError, match="called 'first'"):
        twin = bm.Lower(cp.Minimize(cp.sum_squares(z)), [], variables=[z], name="first")
        bm.BilevelProblem(cp.Minimize(x**2), [], [first, twin])
    with pytest.raises(errors.ModelError, match="follower 2 contains none"):
        idle = bm.Lower(cp.Minimize(x**2), [z >= 0], variables=[z])
        bm.BilevelProblem(cp.Minimize(x**2), [], [first, idle])


def test_a_large_follower_does_not_hide_the_gap_of_a_small_one(x):
    y, z = cp.Variable(name="y"), cp.Variable(name="z")
    large = bm.Lower(cp.Minimize(1e8 * ((y - x) ** 2 + 1)), [], variables=[y], name="large")
    small = bm.Lower(cp.Minimize((z - x) ** 2), [], variables=[z], name="small")
    problem = bm.BilevelProblem(cp.Minimize(x**2 + z), [0 <= x], [large, small])
    wrong = bm.certify(problem, {x: 1.0}, {y: 1.0, z: 1.5})
    assert wrong.lower_gap < 1e-6  # of the sum, this is nothing
    assert not wrong.accepted
    assert wrong.follower_gaps["'small'"] == pytest.approx(0.25, rel=1e-6)
    assert "'small' can do better" in str(wrong)
    assert bm.certify(problem, {x: 1.0}, {y: 1.0, z: 1.0}).accepted


def test_explanation_and_text_name_the_followers(x):
    first, second, y, z = buyers(x)
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + y), [0 <= x, x <= 3], [first, second])
    fact = problem.structure["followers"]
    assert fact.value == "2"
    assert "'first' decides y" in fact.evidence and "follower 2 decides z" in fact.evidence
    written = text.model(problem)
    assert "where y solves the lower level (first):" in written
    assert "where z solves the lower level:" in written
    problem.solve()
    assert "gap of 'first'" in str(problem.certificate)


def test_upper_constraint_over_several_followers(x):
    """Two buyers take what the price x makes worth while; together at most 3 units."""
    buyers_, taken = [], []
    for worth in (4.0, 6.0):
        amount = cp.Variable(name=f"amount_{worth:g}")
        taken.append(amount)
        buyers_.append(
            bm.Lower(cp.Maximize((worth - x) * amount - amount**2), [amount >= 0], variables=[amount])
        )
    problem = bm.BilevelProblem(cp.Maximize(x * sum(taken)), [0 <= x, sum(taken) <= 3], buyers_)
    value = problem.solve()
    prices = np.linspace(0, 8, 80001)
    amounts = np.maximum(4 - prices, 0) / 2 + np.maximum(6 - prices, 0) / 2
    best = np.max(np.where(amounts <= 3 + 1e-12, prices * amounts, -np.inf))
    assert value == pytest.approx(best, abs=1e-4)


@pytest.mark.slow
def test_nonconvex_followers_are_searched_one_by_one(x):
    def well(y, k, at):
        return (y**2 - 1) ** 2 + 0.3 * (0.2 * k - at) * y

    answers = [cp.Variable(name=f"y{k}") for k in range(4)]
    followers = [
        bm.Lower(cp.Minimize(well(y, k, x)), [y >= -2, y <= 2], variables=[y], name=f"well {k}")
        for k, y in enumerate(answers)
    ]
    upper = cp.sum_squares(cp.hstack(answers) - 0.5) + (x - 0.1) ** 2
    problem = bm.BilevelProblem(cp.Minimize(upper), [x >= -1, x <= 1], followers)
    problem.solve()
    # the answers on a grid, in x and in each y; of two wells of equal depth the better one for f
    grid, values = np.linspace(-2, 2, 40_001), []
    for at in np.linspace(-1, 1, 101):
        depths = [well(grid, k, at) for k in range(4)]
        best = [grid[depth <= depth.min() + 1e-9] for depth in depths]
        values.append(sum(((y - 0.5) ** 2).min() for y in best) + (at - 0.1) ** 2)
    assert problem.value <= min(values) + 1e-4
    assert problem.certificate.accepted
    at, right = float(x.value), [float(y.value) for y in answers]
    for k in range(4):
        wrong = [-value if j == k else value for j, value in enumerate(right)]
        refused = bm.certify(problem, at, wrong)
        if abs(0.2 * k - at) > 1e-2:  # else both wells are as deep
            assert not refused.accepted and f"'well {k}'" in " ".join(refused.reasons)
