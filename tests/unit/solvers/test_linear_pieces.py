"""Linear programs with moved bounds: values as SciPy finds them, multipliers that prove them."""

import numpy as np
import pytest
from scipy.optimize import linprog

from blomodel.basics.deadline import Deadline
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.convex_qp import ConvexProgram


def random_program(seed):
    """Rows of one variable and of several, mixed; some variables with a sign."""
    draw = np.random.default_rng(seed)
    n = 6
    several = draw.normal(size=(4, n))
    single = np.zeros((8, n))
    for row, column in enumerate(draw.integers(0, n, 8)):
        single[row, column] = draw.choice([-2.0, -0.5, 1.0, 3.0])
    box = np.vstack([np.eye(n), -np.eye(n)])
    A_in = np.vstack([several, single, box])
    b_in = np.concatenate([draw.uniform(0.5, 2, 12), np.full(2 * n, 4.0)])
    order = draw.permutation(len(b_in))
    A_eq, b_eq = draw.normal(size=(1, n)), draw.normal(size=1) * 0.1
    return draw.normal(size=n), A_eq, b_eq, A_in[order], b_in[order], np.array([1, 4])


@pytest.mark.parametrize("seed", range(20))
def test_values_and_multipliers(seed):
    q, A_eq, b_eq, A_in, b_in, nonnegative = random_program(seed)
    program = ConvexProgram(None, q, A_eq, b_eq, A_in, b_in, nonnegative)
    draw = np.random.default_rng(seed)
    bounds = [(0, None) if j in nonnegative else (None, None) for j in range(q.size)]
    for _ in range(6):
        tight = draw.choice(len(b_in), draw.integers(0, 3), replace=False)
        zero = nonnegative[: draw.integers(0, 2)]
        answer = program.solve(tight, zero)
        fixed = [(0, 0) if j in zero else bound for j, bound in enumerate(bounds)]
        truth = linprog(
            q, A_in, b_in, np.vstack([A_eq, A_in[tight]]), np.concatenate([b_eq, b_in[tight]]), fixed
        )
        assert (answer.status is InnerStatus.OPTIMAL) == (truth.status == 0)
        if truth.status != 0:
            continue
        assert answer.value == pytest.approx(truth.fun, abs=1e-7)
        of_eq, of_in, of_signs = program.split(answer.multipliers)
        slope = q + A_eq.T @ of_eq + A_in.T @ of_in
        slope[nonnegative] -= of_signs
        assert np.abs(slope).max() < 1e-7
        loose = np.setdiff1d(np.arange(len(b_in)), tight)
        assert of_in[loose].min() > -1e-7
        assert np.abs(of_in[loose] * (b_in - A_in @ answer.y)[loose]).max() < 1e-6
        signed = ~np.isin(nonnegative, zero)
        assert of_signs[signed].min(initial=0) > -1e-7
        # Nothing below the cutoff counts as infeasible, and what lies below is found all the same.
        beyond = program.solve(tight, zero, cutoff=truth.fun - 0.1)
        assert beyond.status is InnerStatus.INFEASIBLE or beyond.value == pytest.approx(truth.fun)
        below = program.solve(tight, zero, cutoff=truth.fun + 0.1)
        assert below.value == pytest.approx(truth.fun, abs=1e-7)


def test_no_work_after_the_deadline():
    q, A_eq, b_eq, A_in, b_in, nonnegative = random_program(0)
    program = ConvexProgram(None, q, A_eq, b_eq, A_in, b_in, nonnegative)
    assert program.solve(deadline=Deadline.after(-1.0)).status is InnerStatus.FAILED
    assert program.solve(deadline=Deadline.after(60.0)).status is InnerStatus.OPTIMAL
