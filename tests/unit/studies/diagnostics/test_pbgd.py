"""Landscape measures of the paper on global optimality, against NumPy and brute force."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.problems.global_optimality_paper import (
    example_1,
    linear_cleaning,
    representation_learning,
)
from blomodel.studies import diagnostics


def quadratic(a=3.0):
    """L_gamma = (x - y)^2 / 2 + gamma a (y - x)^2 / 2: joint PL constant 2 (1 + gamma a)."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(a / 2 * (y - x) ** 2), variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - y) ** 2 / 2), [], lower)


def test_constants_of_a_quadratic():
    found = diagnostics.polyak_constants(quadratic(), [(0.0, 1.0), (2.0, -1.0), (1.0, 1.0)], 10.0)
    assert found.joint == pytest.approx(62.0)
    assert found.upper == pytest.approx(31.0)
    assert found.lower == pytest.approx(31.0)
    assert np.isnan(found.joint_ratios[2])
    assert found.is_certified
    assert found.minimum == pytest.approx(0.0, abs=1e-12)
    assert "proven" in str(found)


def test_constants_of_example_1_against_a_formula():
    """L = (u - 2 sin v)^2 / 2 + gamma (u - v)^2 / 2, by NumPy; minima in a block by fine grids."""
    gamma, points = 10.0, [(1.0, 2.0), (3.0, 0.5), (-2.0, 1.0)]
    found = diagnostics.polyak_constants(example_1(), points, gamma)
    grid = np.linspace(-20, 20, 400_001)

    def penalty(u, v):
        return 0.5 * (u - 2 * np.sin(v)) ** 2 + 0.5 * gamma * (u - v) ** 2

    for k, (u, v) in enumerate(points):
        in_u = u - 2 * np.sin(v) + gamma * (u - v)
        in_v = -2 * np.cos(v) * (u - 2 * np.sin(v)) + gamma * (v - u)
        here = penalty(u, v)
        assert found.joint_ratios[k] == pytest.approx((in_u**2 + in_v**2) / (2 * here), rel=1e-6)
        above = here - penalty(grid, v).min()
        assert found.upper_ratios[k] == pytest.approx(in_u**2 / (2 * above), rel=1e-4)
        above = here - penalty(u, grid).min()
        assert found.lower_ratios[k] == pytest.approx(in_v**2 / (2 * above), rel=1e-4)
    assert found.is_certified


def test_constants_refuse_what_the_definition_does_not_cover():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y**2), [], lower)
    with pytest.raises(bm.errors.ModelError, match="without constraints"):
        diagnostics.polyak_constants(problem, [(0.0, 0.0)], 1.0)
    with pytest.raises(bm.errors.ModelError, match="at least one"):
        diagnostics.polyak_constants(quadratic(), [], 1.0)


def test_solution_test_proves_refutes_and_admits():
    problem = example_1()
    assert diagnostics.solution_test(problem, 0.0, 0.0, 1e-6, 1e-6).verdict is True
    assert diagnostics.solution_test(problem, 0.0, 1.0, 1e-6, 1e-6).verdict is False  # gap 1/2
    wrong = diagnostics.solution_test(problem, 1.0, 1.0, 1e-6, 1e-6)
    assert wrong.verdict is False
    u, v = (float(part[0]) for part in wrong.better)
    assert 0.5 * (u - v) ** 2 <= 1e-6
    assert 0.5 * (u - 2 * np.sin(v)) ** 2 < wrong.value - 1e-6
    assert "better" in str(wrong)
    # phi(x) = (x - 1)^2 + (x - 3)^2 has its minimum 2 at 2; f >= 0 alone does not prove it.
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(2 * (y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 3) ** 2), [], lower)
    assert diagnostics.solution_test(problem, 2.0, 2.0, 1e-3, 1e-9).verdict is None
    assert diagnostics.solution_test(problem, 2.0, 2.0, 1e-3, 1e-9, bound=1.9995).verdict is True
    # A gap of 1/2 is worth |y - x| = 1/2: f = (1.25 - 1)^2 ... below 2 - 1e-3.
    assert diagnostics.solution_test(problem, 2.0, 2.0, 1e-3, 0.5).verdict is False


def test_closed_form_of_representation_learning():
    """(34) against least squares over all second layers that fit the training data best."""
    random = np.random.default_rng(0)
    _, W1, _, (a, b, c, d) = representation_learning(random, 3, 4, m=6, n=2, h=5)
    first = random.standard_normal(W1.shape)
    hidden = a @ first
    null = np.linalg.svd(hidden)[2][3:].T
    base = np.linalg.pinv(hidden) @ b
    free = np.linalg.lstsq(c @ first @ null, d - c @ first @ base, rcond=None)[0]
    best = 0.5 * np.sum((d - c @ first @ (base + null @ free)) ** 2)
    assert diagnostics.representation_value(first, (a, b), (c, d)) == pytest.approx(best, rel=1e-8)


def test_closed_form_of_hyper_cleaning():
    """(68) against weighted least squares, with rows of which two are zero."""
    random = np.random.default_rng(1)
    _, _, _, (a, b, _, _), _ = linear_cleaning(random, 5, 2, m=9, n=2, orthogonal=True)
    a[3:] = 0.0
    weights = random.random(5)
    root = np.sqrt(weights)[:, None]
    W = np.linalg.lstsq(root * a, root * b, rcond=None)[0]
    best = 0.5 * np.sum((root * (b - a @ W)) ** 2)
    assert diagnostics.cleaning_lower_value(weights, a, b) == pytest.approx(best)
    with pytest.raises(bm.errors.ModelError, match="diagonal"):
        diagnostics.cleaning_lower_value(weights, random.standard_normal((5, 2)), b)


def test_lemma_1_holds_at_random_layers():
    random = np.random.default_rng(2)
    problem, W1, W2, (a, b, c, d) = representation_learning(random, 2, 2, m=4, n=2, h=4)
    first, second = random.standard_normal(W1.shape), random.standard_normal(W2.shape)
    gamma = 3.0
    rows, labels = np.vstack([c, np.sqrt(gamma) * a]), np.vstack([d, np.sqrt(gamma) * b])
    rest = rows @ first @ second - labels  # v = 0 here: first has full rank
    square = np.sum((rows.T @ rest @ second.T) ** 2) + np.sum((first.T @ rows.T @ rest) ** 2)
    least = 0.5 * np.sum((rows @ np.linalg.lstsq(rows, labels, rcond=None)[0] - labels) ** 2)
    ratio = square / (2 * (0.5 * np.sum(rest**2) - least))
    assert diagnostics.representation_polyak(first, second, a, c, gamma) <= ratio


def test_observation_2_as_printed_is_too_large():
    t, z = 0.1, np.linspace(-1, 1, 41)
    A, B = np.array([[1.0, 0.0]]), np.array([[np.cos(t), np.sin(t)]])
    grid = np.array([(p, q) for p in z for q in z if p or q])
    both = np.vstack([A, B])
    slopes = grid @ both.T @ both
    ratios = np.sum(slopes**2, axis=1) / np.sum((grid @ both.T) ** 2, axis=1)
    constant = diagnostics.composite_polyak(1.0, A, 1.0, B)
    assert constant == pytest.approx(1 - np.cos(t), rel=1e-6)
    assert constant <= ratios.min() < 0.5  # min{sigma(A)^2, sigma(B)^2} = 1 is no PL constant
