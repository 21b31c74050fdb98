"""Every mistake gets an exception of our own that names it and says what would work."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors


@pytest.fixture
def x():
    return cp.Variable(name="x")


@pytest.fixture
def y():
    return cp.Variable(name="y")


def simple_problem(x, y, **changes):
    lower = bm.Lower(
        changes.get("lower_objective", cp.Minimize((y - x) ** 2)),
        changes.get("lower_constraints", [y <= 1]),
        variables=[y],
    )
    return bm.BilevelProblem(
        changes.get("objective", cp.Minimize(x**2 + y**2)),
        changes.get("constraints", [0 <= x, x <= 2]),
        lower,
    )


def test_objective_must_be_minimize_or_maximize(x, y):
    with pytest.raises(errors.ModelError, match="cp.Minimize"):
        bm.Lower((y - x) ** 2, [], variables=[y])
    with pytest.raises(errors.ModelError, match="upper objective"):
        simple_problem(x, y, objective=x**2)


def test_constraint_that_python_already_decided(x, y):
    with pytest.raises(errors.ModelError, match="Constraint 0 of the lower level is the plain value"):
        bm.Lower(cp.Minimize(y**2), [1 <= 2], variables=[y])


def test_constraints_must_be_a_list(x, y):
    with pytest.raises(errors.ModelError, match="must be a list"):
        bm.Lower(cp.Minimize(y**2), y <= 1, variables=[y])


def test_constraint_of_the_wrong_type(x, y):
    with pytest.raises(errors.ModelError, match="not a cvxpy constraint"):
        bm.Lower(cp.Minimize(y**2), ["y <= 1"], variables=[y])


def test_lower_needs_variables(y):
    with pytest.raises(errors.ModelError, match="variables"):
        bm.Lower(cp.Minimize(y**2))
    with pytest.raises(errors.LevelError, match="at least one"):
        bm.Lower(cp.Minimize(y**2), variables=[])


def test_lower_variable_listed_twice(y):
    with pytest.raises(errors.LevelError, match="twice"):
        bm.Lower(cp.Minimize(y**2), variables=[y, y])


def test_part_of_a_variable_is_not_a_variable():
    z = cp.Variable(2, name="z")
    with pytest.raises(errors.ModelError, match="split a variable"):
        bm.Lower(cp.Minimize(z[0] ** 2), variables=[z[0]])


def test_variable_declared_at_both_levels(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    with pytest.raises(errors.LevelError, match="'y' is declared at both levels"):
        bm.BilevelProblem(cp.Minimize(x**2), [], lower, variables=[x, y])


def test_variable_declared_at_no_level(x, y):
    z = cp.Variable(name="z")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    with pytest.raises(errors.LevelError, match="'z' occurs but is declared at no level"):
        bm.BilevelProblem(cp.Minimize(x**2 + z**2), [], lower, variables=[x])


def test_lower_variable_that_neither_level_holds(x, y):
    z = cp.Variable(name="z")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y, z])
    with pytest.raises(
        errors.LevelError, match="'z' is declared a lower variable but occurs in neither"
    ):
        bm.BilevelProblem(cp.Minimize(x**2), [], lower)


def test_lower_objective_without_lower_variables(x, y):
    with pytest.raises(errors.ModelError, match="contains none of the lower variables"):
        simple_problem(x, y, lower_objective=cp.Minimize(x**2))


def test_lower_level_of_the_wrong_type(x):
    with pytest.raises(errors.ModelError, match="bm.Lower"):
        bm.BilevelProblem(cp.Minimize(x), [], None)


@pytest.mark.parametrize("attribute", ["complex"])
@pytest.mark.parametrize("level", ["upper", "lower"])
def test_variable_types(attribute, level):
    special = cp.Variable(name="special", **{attribute: True})
    plain = cp.Variable(name="plain")
    term = cp.abs(special) if attribute == "complex" else special
    upper, below = (special, plain) if level == "upper" else (plain, special)
    lower = bm.Lower(cp.Minimize(cp.square(plain) + term), [], variables=[below])
    with pytest.raises(errors.VariableTypeError, match=f"'special' is declared {attribute}=True"):
        bm.BilevelProblem(cp.Minimize(cp.real(upper) ** 2), [], lower)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_data_that_are_not_finite(x, y, bad, word):
    with pytest.raises(errors.DataError, match=word):
        simple_problem(x, y, lower_constraints=[y <= bad * x])
    with pytest.raises(errors.DataError, match=word):
        simple_problem(x, y, objective=cp.Minimize(cp.sum_squares(x - np.array([1.0, bad]))))


def test_parameter_without_value(x, y):
    limit = cp.Parameter(name="limit")
    problem = simple_problem(x, y, lower_constraints=[y <= limit])
    with pytest.raises(errors.DataError, match="'limit' has no value"):
        problem.solve()


def test_parameter_that_is_not_finite(x, y):
    limit = cp.Parameter(name="limit")
    limit.save_value(np.array(np.nan))
    problem = simple_problem(x, y, lower_constraints=[y <= limit])
    with pytest.raises(errors.DataError, match="'limit' contains NaN"):
        problem.solve()


def test_start_value_of_the_wrong_shape(x, y):
    problem = simple_problem(x, y)
    x.save_value(np.ones(3))  # x.value = ... is checked by cvxpy already
    with pytest.raises(errors.DataError, match=r"'x' has shape \(\), but a value of shape \(3,\)"):
        problem.solve()


def test_unknown_method_suggests_the_nearest(x, y):
    with pytest.raises(errors.UnknownMethodError, match="did you mean 'blocc'"):
        simple_problem(x, y).solve(method="bloc")


def test_unknown_setting_suggests_the_nearest(x, y):
    with pytest.raises(errors.UnknownSettingError, match="did you mean 'step_size'"):
        simple_problem(x, y).solve(method="blocc", stepsize=0.1)


def test_setting_out_of_range(x, y):
    with pytest.raises(errors.UnknownSettingError, match="gamma = -1"):
        simple_problem(x, y).solve(method="blocc", gamma=-1)


@pytest.mark.parametrize("limits", [{"tolerance": 0}, {"time_limit": -1.0}, {"max_iterations": 0}])
def test_limits_out_of_range(x, y, limits):
    with pytest.raises(errors.UnknownSettingError, match=next(iter(limits))):
        simple_problem(x, y).solve(**limits)


def test_nonconvex_lower_level_names_the_expression(x, y):
    problem = simple_problem(x, y, lower_objective=cp.Minimize(cp.nlp.cos(y) + x * y))
    with pytest.raises(errors.NonconvexLowerError, match="cos"):
        problem.solve(method="blocc")
    concave = simple_problem(x, y, lower_objective=cp.Minimize(x * y - y * y))
    with pytest.raises(errors.NonconvexLowerError, match="eigenvalue.*value-cuts"):
        concave.solve(method="reduced-penalty")


def test_lower_level_infeasible_at_every_x(x, y):
    problem = simple_problem(x, y, lower_constraints=[y >= x + 1, y <= x - 1])
    assert problem.solve() == np.inf
    assert problem.status == "lower_infeasible"
    assert len(problem.solution.no_answer.conflicts) == 2


def test_lower_level_unbounded_at_every_x(x, y):
    problem = simple_problem(x, y, lower_objective=cp.Minimize(-y + 0 * x), lower_constraints=[y >= x])
    assert problem.solve() == np.inf
    assert problem.status == "lower_unbounded"
    assert "y can grow without limit" in problem.solution.no_answer.reason


def test_unsupported_atom_is_named(x):
    matrix = cp.Variable((2, 2), name="M")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(matrix - x)), [], variables=[matrix])
    problem = bm.BilevelProblem(cp.Minimize(cp.norm(matrix, "nuc") + x**2), [], lower)
    with pytest.raises(errors.UnsupportedAtomError, match="(?i)normNuc"):
        problem.solve()


def test_every_error_is_ours(x, y):
    for name in dir(errors):
        cls = getattr(errors, name)
        if isinstance(cls, type) and issubclass(cls, Exception) and not issubclass(cls, Warning):
            assert issubclass(cls, errors.BlomodelError)
