"""The tree before the searches: linear nodes, or the root alone; what it proves is the optimum."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Outlook
from blomodel.methods.portfolio.trees import Tree, TreeAfterSearch, TreeBeforeSearch
from blomodel.methods.run.run import Run
from blomodel.methods.search.piece_tree import piece_tree

N_Y = 60
PLACES = np.linspace(0, 1, N_Y)
WEIGHTS = np.random.default_rng(3).normal(size=N_Y)


def hinges(extra=0.0):
    """The lower level answers y = max(x - PLACES, 0), with two pairs for each entry."""
    x, y = cp.Variable(name="x"), cp.Variable(N_Y, name="y")
    f = 0.3 * x + WEIGHTS @ y + extra * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(cp.sum(y)), [y >= x - PLACES, y >= 0], variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)


def considered(problem, member):
    model = problem.model
    return member.consider(Situation(model, problem.parameter_values()))


def test_linear_nodes_come_first_and_once_more_after_the_search():
    problem = hinges()
    assert considered(problem, Tree) is None
    assert isinstance(considered(problem, TreeBeforeSearch), TreeBeforeSearch)
    assert isinstance(considered(problem, TreeAfterSearch), TreeAfterSearch)
    assert problem.plan().steps[0].text.endswith("as long as they close the gap")


def test_of_quadratic_nodes_only_the_root_comes_before_the_search():
    problem = hinges(extra=1.0)
    first = considered(problem, TreeBeforeSearch)
    assert first.first_nodes == 1 and "only the root" in first.text
    assert isinstance(considered(problem, TreeAfterSearch), TreeAfterSearch)
    run = Run(problem.model, problem.parameter_values(), None, 1e-6, 0)
    assert first.run(run, 0) is Outlook.DONE
    fine = np.linspace(0, 1, 20_001)
    answers = np.maximum(fine[:, None] - PLACES, 0)
    phi = 0.3 * fine + answers @ WEIGHTS + (answers**2).sum(axis=1)
    assert -np.inf < run.bound <= phi.min() + 1e-7


def test_the_first_tree_proves_the_optimum():
    problem = hinges()
    # phi is linear between the places, so that one of them is best.
    phi = [0.3 * x + WEIGHTS @ np.maximum(x - PLACES, 0) for x in PLACES]
    assert problem.solve() == pytest.approx(min(phi), abs=1e-6)
    assert problem.status == "optimal"
    assert problem.certificate.bound == pytest.approx(min(phi), abs=1e-5)


def sellers(kind, customers=4, goods=2):
    """Prices for customers who weigh differently, each a follower of its own."""
    draw = np.random.default_rng(5)
    price, followers, revenue = cp.Variable(goods, name="price"), [], 0
    for k in range(customers):
        buy = cp.Variable(goods, name=f"buy{k}", nonneg=True)
        gain = (draw.uniform(1, 5, goods) - price) @ buy
        rows = [cp.sum(buy) <= 1]
        if kind == "QP":
            gain, rows = gain - cp.sum_squares(buy), []
        followers.append(bm.Lower(cp.Maximize(gain), rows, variables=[buy], name=f"customer {k}"))
        revenue += draw.uniform(1, 3) * (price @ buy)
    return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 5], followers)


@pytest.mark.parametrize("kind", ["LP", "QP"])
def test_followers_with_weights_of_their_own_are_proven(kind):
    problem = sellers(kind)
    model, p = problem.model, problem.parameter_values()
    value = problem.solve()
    assert problem.status == "optimal"
    ends = np.linspace(0, 5, 26)
    seen = []
    for one in ends:
        for other in ends:
            x = np.array([one, other])
            seen.append(-float(model.f(x, model.lower_program.solve(x, p).y, p)[0]))
    assert max(seen) <= value + 1e-6
    assert max(seen) >= 0.9 * value  # the grid is not far from the best


def test_a_tree_that_hardly_moves_is_given_up_where_the_best_is_confirmed():
    step = considered(sellers("QP"), Tree)
    run = Run(sellers("QP").model, np.zeros(0), None, 1e-6, 0)
    assert step.has_hope(run)
    piece_tree(run).is_slow = True
    assert not step.has_hope(run)


@pytest.mark.parametrize(
    ("paces", "expected"), [((3.0, 3.0), 1024), ((9.0, 3.0), 1024), ((3.0, 0.0), np.inf)]
)
def test_the_nodes_of_a_proof_are_projected_from_the_last_doubling(paces, expected):
    problem = sellers("QP")
    run = Run(problem.model, np.zeros(0), None, 1e-6, 0)
    tree = piece_tree(run)
    assert tree.projected_nodes(run) == 0  # nothing is known, so that there is hope
    x = np.array([1.0, 1.0])
    best = run.propose(x, problem.model.lower_program.solve(x, np.zeros(0)).y, "a point")
    top = best.value - tree.exact.constant  # three doublings of the last pace above the bound
    bounds = np.cumsum([top - 9.0 - sum(paces), *paces])
    tree.trail = list(zip((32, 64, 128), bounds, strict=True))
    assert tree.projected_nodes(run) == pytest.approx(expected)
