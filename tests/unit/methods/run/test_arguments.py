"""Arguments of other libraries, names in other spellings, and values that cannot be meant."""

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.errors import UnknownMethodError, UnknownSettingError


@pytest.fixture
def problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("tol", "tolerance"),
        ("eps", "tolerance"),
        ("eps_abs", "tolerance"),
        ("max_iter", "max_iterations"),
        ("max_iters", "max_iterations"),
        ("maxiter", "max_iterations"),
        ("timeout", "time_limit"),
        ("TimeLimit", "time_limit"),
        ("random_state", "seed"),
        ("MIPGap", "optimality_gap"),
        ("n_workers", "n_jobs"),
        ("options", "solver_opts"),
        ("backend", "solver"),
        ("algorithm", "method"),
        ("verbosity", "verbose"),
    ],
)
def test_a_word_of_another_library_is_met_with_ours(problem, word, name):
    with pytest.raises(UnknownSettingError, match=f"{word}.*called '{name}'") as caught:
        problem.solve(**{word: 3})
    assert "did you mean" not in str(caught.value)
    with pytest.raises(UnknownSettingError, match=f"called '{name}'"):
        bm.compare(problem, ["auto"], **{word: 3})


def test_a_setting_of_other_methods_names_them(problem):
    with pytest.raises(UnknownSettingError, match="'gamma': it is a setting of the methods.*blocc"):
        problem.solve(gamma=3)
    with pytest.raises(UnknownSettingError, match=r"x0.*set x\.value before"):
        problem.solve(x0=3)


def test_what_looks_like_nothing_gets_no_suggestion(problem):
    with pytest.raises(UnknownSettingError) as caught:
        problem.solve(qqqq=3)
    assert "did you mean" not in str(caught.value) and "tolerance" in str(caught.value)
    with pytest.raises(UnknownMethodError) as caught:
        problem.solve(method="qqqq")
    assert "did you mean" not in str(caught.value) and "blocc" in str(caught.value)


def test_a_slip_gets_one(problem):
    with pytest.raises(UnknownSettingError, match="did you mean 'tolerance'"):
        problem.solve(tolerence=1e-4)
    with pytest.raises(UnknownMethodError, match="did you mean 'blocc'"):
        problem.solve(method="blok")


@pytest.mark.parametrize("name", ["BLOCC", "Blocc", "kkt_mip", "KKT-MIP", "Reduced_Penalty"])
def test_methods_are_found_in_any_case(problem, name):
    problem.solve(method=name, max_iterations=3)
    assert problem.solution.method == name.lower().replace("_", "-")
    assert bm.compare(problem, [name], max_iterations=3).rows[0].method == problem.solution.method


def test_a_method_that_is_no_word_is_refused(problem):
    for method in (3, None, ["auto"]):
        with pytest.raises(UnknownMethodError, match="There is no method"):
            problem.solve(method=method)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tolerance", "a"),
        ("tolerance", None),
        ("tolerance", float("nan")),
        ("optimality_gap", "1%"),
        ("time_limit", "10 s"),
        ("time_limit", True),
        ("max_iterations", 2.5),
        ("seed", "abc"),
        ("seed", -1),
        ("n_jobs", "all"),
        ("n_jobs", 1.5),
    ],
)
def test_values_of_the_wrong_kind_get_our_exception(problem, name, value):
    with pytest.raises(UnknownSettingError, match=f"{name} = "):
        problem.solve(**{name: value})
