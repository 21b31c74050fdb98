"""A step or a weight of 0 was taken for "automatic", or ended in a division by zero, or in no end."""

import cvxpy as cp
import pytest

import blomodel as bm


@pytest.fixture
def problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [0 <= x, x <= 2], lower)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("alt-pbgd", "step_size"),
        ("unrolled", "lower_step"),
        ("gam", "step_size"),
        ("lv-hba", "gamma_1"),
        ("alt-pbgd", "gamma"),
        ("meha", "c"),
        ("meha", "gamma"),
        ("blocc", "gamma"),
    ],
)
def test_zero_is_refused_with_a_sentence(problem, name, setting):
    with pytest.raises(
        bm.errors.UnknownSettingError, match=f"{setting} = 0 is too small.*larger than 0"
    ):
        problem.solve(method=name, **{setting: 0})


def test_a_weight_that_does_not_grow_is_refused(problem):
    with pytest.raises(bm.errors.UnknownSettingError, match="must be larger than 1"):
        problem.solve(method="reduced-penalty", gamma_factor=1.0)
