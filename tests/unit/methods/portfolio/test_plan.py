"""The plan of auto: what it prints is what it runs, for problems of every class."""

from __future__ import annotations

import pickle
import re

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.methods.portfolio import steps
from blomodel.methods.portfolio.plan import MEMBERS, NONCONVEX_MEMBERS, make_plan
from blomodel.methods.portfolio.searches import SEARCHES
from blomodel.methods.portfolio.situation import Situation, default_number_of_starts
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run, StopRun
from blomodel.solvers.direct import is_available


def quadratic(n_x=2, n_y=2, above=lambda x, y: (), f=None, g=None, below=lambda x, y: (y >= 0,)):
    """A tracking problem whose parts can be exchanged."""
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    mixing = np.random.default_rng(0).standard_normal((n_y, n_x))
    g = g or (lambda x, y: cp.sum_squares(y - mixing @ x))
    # The square of the sum ties all variables: without it some of these problems would be several.
    f = f or (lambda x, y: cp.sum_squares(x - 1) + cp.sum_squares(y - 1) + cp.square(cp.sum(x)))
    lower = bm.Lower(cp.Minimize(g(x, y)), list(below(x, y)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(f(x, y)), [x >= -2, x <= 2, *above(x, y)], lower)


def group_lasso(n_y):
    """Two weighted Euclidean norms below: a cone program with a proximal step."""
    x, y = cp.Variable(2, name="x"), cp.Variable(n_y, name="y")
    half, wish = n_y // 2, np.arange(n_y) / n_y
    norms = x[0] * cp.norm(y[:half], 2) + x[1] * cp.norm(y[half:], 2)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - wish) + norms), variables=[y])
    tied = cp.sum_squares(y - 1) + cp.square(cp.sum(y))
    return bm.BilevelProblem(cp.Minimize(tied), [x >= 0, x <= 5], lower)


def matrix_below():
    x, Y = cp.Variable(name="x"), cp.Variable((2, 2), symmetric=True, name="Y")
    lower = bm.Lower(cp.Minimize(cp.trace(Y)), [Y >> 0, Y[0, 1] == x], variables=[Y])
    return bm.BilevelProblem(cp.Minimize((cp.trace(Y) - 2) ** 2 + x**2), [0 <= x, x <= 3], lower)


def nothing_above():
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(y)), [y >= 0, cp.sum(y) >= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(y[0]), [], lower)


def nonconvex_below():
    def waves(x, y):
        return cp.sum(cp.nlp.cos(2 * y)) + x @ y

    return quadratic(g=waves, below=lambda x, y: (y <= 1, y >= -1))


TREE, SMOOTHED, CUTS = "tree over KKT pieces", "smoothed lower level", "value cuts"
PENALTY, EXACT_PENALTY = "reduced penalty", "reduced penalty on KKT pieces"
LOOP, POLISH = "single loop of meha", "reduced penalty from the end"
PHI, SAMPLE, RELAXED = "descent on phi", "sample of phi", "relaxed complementarity"
TANGENTS, WISH = "tangents of f", "both levels' wish"
BOUNDS, LATER = "global bounds", "global bounds after search"
TREES, AROUND = "trees around the best", "searches around the best"
SECOND, CHOICE = "second opinion", "choice among lower answers"
# A problem of every class, and the steps that auto takes for it.
PROBLEMS = {
    "few pairs": (quadratic, [TREE, PHI, SAMPLE, SMOOTHED, RELAXED, CUTS, LATER, CHOICE]),
    "few pairs, coupled above": (
        lambda: quadratic(above=lambda x, y: (cp.sum(x + y) <= 3,)),
        [TREE, SAMPLE, EXACT_PENALTY, RELAXED, CUTS, LATER, CHOICE],
    ),
    "no pairs": (
        lambda: quadratic(below=lambda x, y: ()),
        [TREE, PHI, SAMPLE, EXACT_PENALTY, RELAXED, CUTS, LATER, CHOICE],
    ),
    "many pairs": (
        lambda: quadratic(2, 45),
        [TREE, PHI, SAMPLE, SMOOTHED, RELAXED, CUTS, LATER, CHOICE],
    ),
    "many pairs and variables": (
        lambda: quadratic(35, 110),
        [TREE, PHI, SECOND, RELAXED, SMOOTHED, TREE, TREES, AROUND, CUTS, LATER, CHOICE],
    ),
    "large pieces": (
        lambda: quadratic(2, 460),
        [TREE, PHI, SAMPLE, RELAXED, SMOOTHED, PENALTY, TREE, TREES, CUTS, LATER, CHOICE],
    ),
    "kinks": (
        lambda: quadratic(g=lambda x, y: cp.sum_squares(y - x) + cp.norm1(y), below=lambda x, y: ()),
        [TREE, PHI, SAMPLE, SMOOTHED, RELAXED, CUTS, LATER, CHOICE],
    ),
    "nonconvex above": (
        lambda: quadratic(f=lambda x, y: cp.sum(x) + cp.sum(cp.nlp.sin(y))),
        [PHI, BOUNDS, SAMPLE, PENALTY, RELAXED, CUTS, LATER, CHOICE],
    ),
    "exponentials": (
        lambda: quadratic(g=lambda x, y: cp.sum_squares(y - x) + cp.sum(cp.exp(y))),
        [PHI, TANGENTS, BOUNDS, SAMPLE, PENALTY, RELAXED, CUTS, LATER, CHOICE],
    ),
    "norms": (
        lambda: group_lasso(6),
        [PHI, TANGENTS, BOUNDS, SAMPLE, LOOP, POLISH, CUTS, LATER, CHOICE],
    ),
    "many norms": (
        lambda: group_lasso(120),
        [PHI, TANGENTS, BOUNDS, SAMPLE, LOOP, POLISH, CUTS, LATER, CHOICE],
    ),
    "matrix below": (matrix_below, [WISH, TANGENTS, SAMPLE, PENALTY, CUTS, CHOICE]),
    "nothing above": (nothing_above, [TREE, "lower answer"]),
    "nonconvex below": (nonconvex_below, [BOUNDS, SAMPLE, CUTS, LATER]),
}


def new_run(problem):
    return Run(problem.model, problem.parameter_values(), None, 1e-6, 0)


def printed_steps(plan):
    """The names in the numbered lines of a printed plan."""
    found = re.findall(r"^(\d+)\. (.+?)  ", str(plan), flags=re.MULTILINE)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    return [name.strip() for _, name in found]


@pytest.mark.skipif(not is_available(), reason="without IPOPT there is no relaxed complementarity")
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_printed_is_run(name, monkeypatch):
    make_problem, wanted = PROBLEMS[name]
    problem = make_problem()
    run_steps = []

    def note_the_name(step, run, level):
        run_steps.append(step.name)
        return Outlook.DONE

    for member in {*MEMBERS, *NONCONVEX_MEMBERS}:
        monkeypatch.setattr(member, "run", note_the_name)
        monkeypatch.setattr(member, "is_wanted", lambda step, run: True)
    plan = problem.plan()
    create_method("auto", {}).run(new_run(problem))
    assert run_steps == printed_steps(plan) == [step.name for step in plan.steps] == wanted


def test_a_step_that_settles_the_problem_is_the_last(monkeypatch):
    problem = quadratic()
    run_steps = []

    def settle_with_the_second(step, run, level):
        run_steps.append(step.name)
        return Outlook.SETTLED if len(run_steps) == 2 else Outlook.DONE

    for member in MEMBERS:
        monkeypatch.setattr(member, "run", settle_with_the_second)
        monkeypatch.setattr(member, "is_wanted", lambda step, run: True)
    problem.plan().run(new_run(problem))
    assert run_steps == [TREE, PHI]


def test_the_last_resort_waits_for_the_others_to_fail():
    problem = quadratic(f=lambda x, y: cp.sum(x) + cp.sum(cp.nlp.sin(y)))
    rescue = next(step for step in problem.plan().steps if step.name == CUTS)
    run = new_run(problem)
    assert rescue.is_wanted(run)  # nothing was found
    run.propose(np.zeros(2), np.zeros(2), "test")
    assert rescue.is_wanted(run)  # a point, but no path
    run.history["gamma"] = [1.0]
    assert not rescue.is_wanted(run)
    run.candidates.clear()
    run.is_infeasible = True
    assert not rescue.is_wanted(run)


@pytest.mark.parametrize(
    ("name", "step", "limit"),
    [
        ("many pairs and variables", SAMPLE, limits.SAMPLED_VARIABLES),
    ],
)
def test_what_a_limit_leaves_out_is_said_with_the_limit(name, step, limit):
    problem = PROBLEMS[name][0]()
    omission = next(omission for omission in problem.plan().omitted if omission.step == step)
    assert omission.limit is limit
    text = " ".join(problem.explain().split())
    assert f"and the limit is {limit.value:,} ({limit.reason})" in text


def test_what_structure_leaves_out_is_said_with_the_reason():
    reasons = {o.step: o.reason for o in PROBLEMS["exponentials"][0]().plan().omitted}
    assert "not linear" in reasons[TREE]
    assert "contains variables" not in reasons[LOOP]
    coupled = {o.step: o.reason for o in PROBLEMS["few pairs, coupled above"][0]().plan().omitted}
    assert "an upper constraint contains y" in coupled[SMOOTHED]


def test_searches_on_large_pieces_come_later():
    plan = PROBLEMS["large pieces"][0]().plan()
    (smoothed,) = (step for step in plan.steps if step.name == SMOOTHED)
    assert smoothed.waits == 1 and "from level 2 on" in str(smoothed)


def test_the_last_resort_waits_for_levels_only_where_there_is_a_point(monkeypatch):
    problem = PROBLEMS["many pairs"][0]()
    (rescue,) = (step for step in problem.plan().steps if step.name == CUTS)
    assert rescue.first_level == 1 and "from level 2 on" in str(rescue)
    tried = []
    monkeypatch.setattr(steps.ValueCuts, "run", lambda method, run: tried.append(run.best()))
    run = new_run(problem)
    assert rescue.run(run, 0) is Outlook.DONE and tried == [None]
    run.propose(np.zeros(2), np.zeros(45), "test")
    assert [rescue.run(run, level) for level in (0, 1)] == [Outlook.MORE, Outlook.DONE]
    assert len(tried) == 2


def test_a_polish_by_dear_cone_programs_waits():
    (polish,) = (step for step in PROBLEMS["many norms"][0]().plan().steps if step.name == POLISH)
    assert polish.first_level == 1 and "from level 2 on" in str(polish)
    assert polish.run(new_run(PROBLEMS["many norms"][0]()), 0) is Outlook.MORE


def test_what_had_ended_before_a_limit_is_not_repeated(monkeypatch):
    problem = quadratic()
    run_steps = []

    def stop_at_the_third(step, run, level):
        run_steps.append(step.name)
        if len(run_steps) == 3:
            raise StopRun("time limit")
        return Outlook.DONE

    for member in MEMBERS:
        monkeypatch.setattr(member, "run", stop_at_the_third)
        monkeypatch.setattr(member, "is_wanted", lambda step, run: True)
    run, names = new_run(problem), [step.name for step in problem.plan().steps]
    with pytest.raises(StopRun):
        problem.plan().run(run)
    problem.plan().run(run)
    assert run_steps == [*names[:3], *names[2:]]
    problem.plan().run(run)  # which begins anew, since the plan had come to its end
    assert run_steps[-len(names) :] == names


def test_exactly_one_search_suits_a_convex_lower_level():
    for make_problem, wanted in PROBLEMS.values():
        model = make_problem().model
        if wanted == [BOUNDS, SAMPLE, CUTS, LATER]:
            continue
        situation = Situation(model, np.zeros(0))
        considered = [search.consider(situation) for search in SEARCHES]
        assert sum(isinstance(step, Step) and not step.waits for step in considered) == 1


def test_kinks_are_told_with_their_variables():
    plan = PROBLEMS["kinks"][0]().plan()
    assert plan.n_further == 2
    assert "2 further variables for kinks" in str(plan)


def test_the_number_of_starts_can_be_given():
    problem = quadratic(2, 45)
    search = next(step for step in problem.plan().steps if step.name == SMOOTHED)
    assert search.n_starts == default_number_of_starts(2) == 10
    plan = problem.plan(n_starts=4)
    searches = [step for step in plan.steps if step.name in (PHI, SMOOTHED)]
    starts = {step.name: getattr(step, "thrift", step).n_starts for step in searches}
    assert starts == {PHI: 4, SMOOTHED: 4}
    assert plan == make_plan(problem.model, np.zeros(0), 4)
    assert plan == create_method("auto", {"n_starts": 4}).plan(problem.model, np.zeros(0))


def test_the_same_problem_has_the_same_plan_and_it_can_be_sent():
    problem = quadratic()
    plan = problem.plan()
    assert plan == problem.plan() == pickle.loads(pickle.dumps(plan))


def test_the_report_shows_the_plan():
    problem = quadratic()
    problem.solve()
    choice = problem.solution.background.choice.split("\n")
    assert choice == [f"{name}: {said}" for name, said in problem.plan().rows]


def test_shares_of_the_time():
    run = new_run(quadratic())
    assert Share(seconds=4.0).of(run) == 4.0
    assert Share().of(run) == np.inf
    assert str(Share(seconds=4.0)) == "at most 4 s"
    assert str(Share(part=0.5)) == "50% of the time left"
    assert "40% of the time left" in " ".join(str(quadratic(2, 110).plan()).split())


def test_an_omission_without_a_limit():
    assert str(Omission("tree", "no pieces")) == "tree: no pieces"
