"""explain() tells the truth: what it says about each method is what the method does."""

import importlib.util
import time
import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import BlomodelError, MissingPackageError
from blomodel.methods.run.capabilities import EVERYTHING, Capability
from blomodel.methods.run.registry import method_classes
from blomodel.solve.explanation import verdicts
from blomodel.text.layout import indent

MATRIX = np.array([[0.5, -0.2], [0.1, 0.7]])


def make(g, below=(), f=None, above=(), n_x=2, bounded=True):
    x, y = cp.Variable(n_x, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(g(x, y)), [c(x, y) for c in below], variables=[y])
    f = f or (lambda x, y: cp.sum_squares(x - 1) + cp.sum_squares(y))
    rows = [c(x, y) for c in above] + ([x >= -2, x <= 2] if bounded else [])
    return bm.BilevelProblem(cp.Minimize(f(x, y)), rows, lower)


def tracking(x, y):
    return cp.sum_squares(y - MATRIX @ x)


PROBLEMS = {
    "free strongly convex": lambda: make(tracking),
    "box below": lambda: make(tracking, [lambda x, y: y >= 0]),
    "coupled below": lambda: make(tracking, [lambda x, y: y <= x + 1]),
    "coupled above": lambda: make(tracking, above=[lambda x, y: cp.sum(x + y) <= 3]),
    "linear below": lambda: make(
        lambda x, y: cp.sum(y) + x @ y, [lambda x, y: y >= -1, lambda x, y: y <= 1]
    ),
    "lasso": lambda: make(lambda x, y: tracking(x, y) + cp.exp(x[0]) * cp.norm1(y)),
    "kink without prox": lambda: make(lambda x, y: tracking(x, y) + cp.max(y)),
    "exponential": lambda: make(lambda x, y: tracking(x, y) + cp.sum(cp.exp(y))),
    "ball below": lambda: make(tracking, [lambda x, y: cp.norm(y, 2) <= 1]),
    "polyhedron above": lambda: make(
        tracking, above=[lambda x, y: x[0] + 2 * x[1] <= 1, lambda x, y: 3 * x[0] - x[1] <= 2]
    ),
    "curved coupling": lambda: make(tracking, [lambda x, y: cp.sum_squares(y) <= 2 + x[0]]),
    "nonconvex below": lambda: make(lambda x, y: cp.sum(cp.nlp.cos(2 * y)) + cp.sum_squares(y) + x @ y),
    "nonconvex above": lambda: make(tracking, f=lambda x, y: cp.sum(x) + cp.sum(cp.nlp.sin(y))),
    "twelve upper variables": lambda: make(lambda x, y: cp.sum_squares(y - MATRIX @ x[:2]), n_x=12),
}


# One of each kind; the others differ from them in one word that the judging of methods looks at.
QUICK = (
    "free strongly convex",
    "coupled below",
    "coupled above",
    "lasso",
    "curved coupling",
    "nonconvex below",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in PROBLEMS]
)
def test_methods_do_what_is_said_about_them(name):
    problem = PROBLEMS[name]()
    judged = verdicts(problem)
    assert {verdict.method for verdict in judged} == set(method_classes())
    for verdict in judged:
        if verdict.applies:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # pbgd-free says where it is unsuited
                problem.solve(method=verdict.method, time_limit=0.05, max_iterations=3)
            assert problem.solution.method == verdict.method
        else:
            assert verdict.reason
            with pytest.raises(BlomodelError) as refusal:  # before any work that a limit could end
                problem.solve(method=verdict.method, time_limit=5, max_iterations=3)
            assert str(refusal.value).endswith(verdict.reason)


def test_both_kinds_of_verdict_occur():
    by_problem = {name: verdicts(make()) for name, make in PROBLEMS.items()}
    for method, cls in method_classes().items():
        if not all(extra.is_installed for extra in cls.packages):
            continue
        said = {v.applies for judged in by_problem.values() for v in judged if v.method == method}
        assert True in said, f"{method} applies nowhere"
    refused = {v.method for judged in by_problem.values() for v in judged if not v.applies}
    never = set(method_classes()) - refused
    wanted = EVERYTHING - {Capability.MATRIX_INEQUALITIES}  # of which no problem here has one
    assert all(wanted <= method_classes()[name].capabilities for name in never)


def test_assumptions_that_do_not_hold_are_said():
    linear = {v.method: v for v in verdicts(PROBLEMS["linear below"]())}
    assert "not strongly convex" in str(linear["gam"].caution)
    strong = {v.method: v for v in verdicts(PROBLEMS["free strongly convex"]())}
    assert strong["gam"].caution is None
    assert "kinks" in {v.method: v for v in verdicts(PROBLEMS["lasso"]())}["bome"].reason
    through_y = make(tracking, f=lambda x, y: cp.sum_squares(y - 1))
    assert "only through y" in str({v.method: v for v in verdicts(through_y)}["pbgd-free"].caution)


def test_what_is_said_of_one_method_is_not_said_of_several():
    text = " ".join(PROBLEMS["linear below"]().explain().split())
    assert "jnt-pbgd, v-pbgd: assume g strongly convex (or PL) in y, and it is" in text
    text = " ".join(PROBLEMS["nonconvex below"]().explain().split())
    assert " pbgd-free: assumes g strongly convex in y, and it is" in text


def test_an_optional_package_is_missed_only_where_it_is_missing(monkeypatch):
    problem = PROBLEMS["coupled below"]()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "cyipopt" or find(name))
    assert {v.method: v for v in verdicts(problem)}["kkt"].applies
    missing = ("cyipopt", "unopy")
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n in missing else find(n))
    verdict = {v.method: v for v in verdicts(problem)}["kkt"]
    assert not verdict.applies and 'pip install "blomodel[nlp]"' in verdict.reason
    with pytest.raises(MissingPackageError) as refusal:
        problem.solve(method="kkt")
    assert str(refusal.value) == f"kkt {verdict.reason}"


def test_explain_prints_the_plan_itself():
    for make_problem in PROBLEMS.values():
        problem = make_problem()
        assert indent(str(problem.plan())) in problem.explain()


def test_explain_before_and_after_a_solve():
    problem = PROBLEMS["coupled below"]()
    before = problem.explain()
    assert "y <= x + 1" in before  # as the user wrote it
    assert "branch and bound" in before
    assert "the last solve" not in before
    problem.solve()
    after = problem.explain()
    assert after.startswith(before)
    assert "optimal: feasible, lower-optimal" in after
    assert "branch and bound" in after.split("the last solve")[1]


def test_explain_is_quick():
    problem = PROBLEMS["box below"]()
    problem.explain()
    began = time.perf_counter()
    problem.explain()
    assert time.perf_counter() - began < 1.0


def customers(n):
    """One price, and a follower for each customer."""
    price = cp.Variable(name="price")
    followers, revenue = [], 0
    for k in range(n):
        bought = cp.Variable(name=f"bought{k}")
        utility = (bought - (1 + k % 7)) ** 2 + price * bought
        followers.append(bm.Lower(cp.Minimize(utility), [bought >= 0], variables=[bought]))
        revenue = revenue + price * bought
    return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 10], followers)


def test_explaining_many_followers_costs_little_more_than_compiling_them():
    customers(3).explain()  # what is loaded on first use
    begin = time.process_time()
    customers(300).model.compile_lower()
    compiled = time.process_time()
    text = customers(300).explain()
    explained = time.process_time()
    assert "300" in text
    # A verdict that compiled a further program, or looked at followers one by one, would cost this much.
    assert explained - compiled <= 4.5 * (compiled - begin)
