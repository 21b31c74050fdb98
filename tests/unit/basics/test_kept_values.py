"""Values outlive a block that needs the variables for itself."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.basics.kept_values import kept_values


def test_variables_and_duals_come_back_even_after_an_error():
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    row = cp.sum(x) == y
    x.value, kept = np.array([1.0, 2.0]), [x, y, *row.dual_variables]
    with pytest.raises(ZeroDivisionError), kept_values(kept):
        cp.Problem(cp.Minimize(cp.sum_squares(x - 3) + y**2), [row]).solve(solver=cp.CLARABEL)
        assert y.value is not None and row.dual_value is not None
        raise ZeroDivisionError
    np.testing.assert_array_equal(x.value, [1.0, 2.0])
    assert y.value is None and row.dual_value is None


def test_rounding_that_breaks_an_attribute_is_kept():
    x = cp.Variable(nonneg=True, name="x")
    x.save_value(np.array(-1e-9))
    with kept_values([x]):
        x.value = 1.0
    assert x.value == -1e-9


def test_what_is_let_go_stays_as_the_block_left_it():
    x = cp.Variable(name="x")
    x.value = 1.0
    with kept_values([x]) as kept:
        x.value = 2.0
        kept.let_go()
    assert x.value == 2.0
