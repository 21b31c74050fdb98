"""The mistakes of newcomers, each with what is said about it."""

import logging
import warnings

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors
from blomodel.errors import LevelWarning

x, y, z = (cp.Variable(name=name) for name in "xyz")
vector, other = cp.Variable(3, name="v"), cp.Variable(3, name="w")
missing = cp.Parameter(name="p")
flag = cp.Variable(name="b", boolean=True)


def lower(objective=None, constraints=None, variables=None, **more):
    objective = cp.Minimize((y - x) ** 2) if objective is None else objective
    constraints = [y <= 1] if constraints is None else constraints
    return bm.Lower(objective, constraints, variables=[y] if variables is None else variables, **more)


def problem(objective=None, constraints=None, below=None, **more):
    objective = cp.Minimize((x - 2) ** 2 + y**2) if objective is None else objective
    constraints = [0 <= x, x <= 3] if constraints is None else constraints
    return bm.BilevelProblem(objective, constraints, below or lower(), **more)


REFUSED = {
    "no variables": (lambda: bm.Lower(cp.Minimize(y**2)), "Lower needs variables="),
    "a variable at both levels": (lambda: problem(variables=[x, y]), "'y' is declared at both levels"),
    "NaN": (
        lambda: problem(below=lower(cp.Minimize((y - x) ** 2 + np.nan * y))),
        r"NaN data in '\(y - x\)\*\*2 \+ nan \* y'",
    ),
    "another follower's variable": (
        lambda: bm.BilevelProblem(
            cp.Minimize(x), [], [lower(cp.Minimize((y - z) ** 2)), lower(cp.Minimize(z**2), [], [z])]
        ),
        "contains 'z', which follower 2 decides.*Nash game",
    ),
    "two owners": (
        lambda: bm.BilevelProblem(cp.Minimize(x), [], [lower(name="a"), lower(name="b")]),
        "'y' is decided by 'a' and by 'b'",
    ),
    "a cp.Problem below": (
        lambda: bm.BilevelProblem(cp.Minimize(x), [], cp.Problem(cp.Minimize(y))),
        r"lower level is Problem; pass lower=bm\.Lower",
    ),
    "a list as objective": (lambda: lower([y**2]), r"objective is '\[y\*\*2\]', a list; wrap"),
    "an expression as objective": (lambda: lower(y**2), r"is 'y\*\*2', an expression; wrap .*cp\.Minim"),
    "a constraint without a list": (lambda: lower(constraints=y >= 0), r"write \[0 <= y\]"),
    "a parameter without value": (
        lambda: problem(below=lower(constraints=[y <= missing])).solve(),
        r"'p' has no value; set p\.value before",
    ),
    "a method with a slip": (lambda: problem().solve(method="blok"), "did you mean 'blocc'"),
    "a setting of other methods": (
        lambda: problem().solve("kkt-mip", gamma=3),
        "'gamma': it is a setting of the methods.*blocc",
    ),
    "a setting for auto": (lambda: problem().solve(gamma=3), "auto chooses such things itself"),
    "tol": (lambda: problem().solve(tol=1e-3), "it is called 'tolerance'"),
    "an unused variable": (lambda: problem(below=lower(variables=[y, z])), "'z' .* in neither level"),
    "names for variables": (lambda: lower(variables=["y"]), r"is a str; list whole cp\.Variable"),
    "a certificate before solve": (lambda: problem().certificate.accepted, "no certificate yet"),
    "no lower level": (lambda: bm.BilevelProblem(cp.Minimize(x), [x >= 0]), "No lower level was given"),
    "swapped arguments": (
        lambda: bm.BilevelProblem([x >= 0], cp.Minimize(x), lower()),
        r"order is bm\.BilevelProblem\(objective, constraints, lower\)",
    ),
    "a constraint added later": (
        lambda: (made := problem()).constraints.append(x <= 1) or made.solve(),
        "after the problem was made",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_cannot_be_meant_is_refused_in_our_words(mistake):
    act, said = REFUSED[mistake]
    with pytest.raises(errors.BlomodelError, match=said):
        act()


# cvxpy meets these before the library sees them; its own words stand.
CVXPY = {
    "a strict inequality": (lambda: [y < 1], "Strict inequalities"),
    "shapes that do not fit": (lambda: vector + np.ones(2), "(?s)shape.*3.*2"),
    "a vector as objective": (lambda: cp.Minimize(vector), "must resolve to a scalar"),
    "a chain of inequalities": (lambda: [0 <= y <= 1], "chain constraints"),
    "a chain of equations": (lambda: [x == y == 1], "chain constraints"),
}


@pytest.mark.parametrize("mistake", CVXPY)
def test_what_cvxpy_refuses(mistake):
    act, said = CVXPY[mistake]
    with pytest.raises(Exception, match=said):
        act()


WARNED = {
    "everything lower": (lambda: problem(below=lower(variables=[x, y])), r"Every variable \(x, y\)"),
    "a lower variable forgotten": (
        lambda: problem(below=lower(cp.Minimize((y - x) ** 2 + (z - y) ** 2), [y <= 1, z <= 1])),
        r"'z <= 1' contains none .*\(y\).*'z' .* forgotten in variables",
    ),
    "a lower variable forgotten in the objective": (
        lambda: problem(below=lower(cp.Minimize((y - x) ** 2 + (z - y) ** 2))),
        r"uses 'z'.*forgotten in variables.*say bm\.BilevelProblem\(\.\.\., variables=\[x, z\]\)",
    ),
    "a lower variable used above alone": (
        lambda: problem(cp.Minimize(x**2 + y + (z - 1) ** 2), below=lower(variables=[y, z])),
        "only the upper level uses it",
    ),
}


@pytest.mark.parametrize("mistake", WARNED)
def test_what_is_hardly_meant_is_told(mistake):
    act, said = WARNED[mistake]
    with pytest.warns(LevelWarning, match=said):
        act()


def test_a_forgotten_variable_is_seen_in_the_printed_model():
    with pytest.warns(LevelWarning, match="Only the lower level uses 'z'.*forgotten"):
        made = problem(below=lower(cp.Minimize((y - x) ** 2 + (z - y) ** 2)))
    assert "only the lower level uses z" in str(made)
    assert "only the lower level uses" not in str(problem())


# Levels without an answer: a status, a word of the logger, and a reason that names what it is about.
NO_ANSWER = {
    "lower unbounded": (
        lambda: problem(below=lower(cp.Minimize(y), [y <= x])),
        "lower_unbounded",
        "y can fall without limit",
    ),
    "lower infeasible": (
        lambda: problem(below=lower(constraints=[y >= 2, y <= 1])),
        "lower_infeasible",
        "2 <= y; y <= 1",
    ),
    "upper unbounded": (
        lambda: problem(cp.Maximize(x + y), [x >= 0]),
        "unbounded",
        r"with x going to \+infinity",
    ),
    "never met": (lambda: problem(constraints=[0 <= x, x <= 3, y >= 2]), "infeasible", "2 <= y"),
}


@pytest.mark.parametrize("mistake", NO_ANSWER)
def test_no_answer_is_a_status_with_a_reason(mistake, caplog):
    make, status, said = NO_ANSWER[mistake]
    made = make()
    with caplog.at_level(logging.WARNING, logger="blomodel"):
        assert not np.isfinite(made.solve())
    assert made.status == status
    assert made.solution.no_answer is not None
    (record,) = caplog.records
    assert status in record.getMessage()
    assert pytest.raises(AssertionError, match=said).matches(AssertionError(record.getMessage()))


def test_what_is_no_mistake():
    assert problem(below=lower(variables=y)).solve() == pytest.approx(1.0, abs=1e-5)
    assert problem(below=lower(constraints=[y <= np.int64(1)])).solve() == pytest.approx(1.0, abs=1e-5)
    assert problem(below=lower(constraints=[y >= x, y <= 1])).solve() == pytest.approx(2.0, abs=1e-5)
    assert problem().solve(method="BLOCC", max_iterations=50) < 2
    whole = problem(
        cp.Minimize((x - 0.3) ** 2 + flag),
        [0 <= x, x <= 1],
        lower(cp.Minimize((flag - x) ** 2), [], [flag]),
    )
    assert whole.solve() == pytest.approx(0.0, abs=1e-6)


def test_a_convex_function_maximised_below():
    made = problem(below=lower(cp.Maximize((y - x) ** 2), [y <= 1, y >= -1]))
    # The follower goes to -1 wherever x > 0, so that (x - 2)^2 + 1 is left.
    assert made.solve() == pytest.approx(1.0, abs=1e-4) and made.status.has_point


def test_a_product_of_vectors_is_not_warned_of_again():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        below = bm.Lower(cp.Minimize(cp.sum_squares(vector) - vector * other), [vector <= 1], [vector])
        stated = len(seen)
        made = bm.BilevelProblem(
            cp.Minimize(cp.sum_squares(other) + cp.sum(vector)), [other >= -1, other <= 1], below
        )
        made.solve()
    assert len(seen) == stated  # cvxpy has said it where it was written; solving says nothing again
