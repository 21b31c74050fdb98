"""Structure: what a problem is found to be, and what shows it."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import LevelError


def build(g, below=(), f=None, upper=()):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(g(x, y)), [c(x, y) for c in below], variables=[y])
    f = f or (lambda x, y: cp.sum_squares(x) + cp.sum(y))
    return bm.BilevelProblem(cp.Minimize(f(x, y)), [c(x, y) for c in upper], lower)


@pytest.mark.parametrize(
    ("g", "below", "expected"),
    [
        (lambda x, y: cp.sum(y), [lambda x, y: y >= x], "LP"),
        (lambda x, y: y[0] * y[0] + y[1] ** 2 + y[0] * y[1], [], "QP"),
        (lambda x, y: cp.sum_squares(y - x), [lambda x, y: cp.norm(y, 2) <= 1], "conic"),
        (lambda x, y: cp.sum(cp.exp(y)) + x @ y, [], "conic"),
        (lambda x, y: y[0] * y[1], [], "nonconvex"),
        (lambda x, y: cp.sum(cp.nlp.sin(y)), [], "nonconvex"),
    ],
)
def test_class_of_the_lower_level(g, below, expected):
    assert build(g, below).structure.lower_class == expected


def test_coupling_is_found_on_either_side():
    plain = build(lambda x, y: cp.sum_squares(y - x), [lambda x, y: y >= 0]).structure
    assert not plain.is_coupled_below
    assert not plain.is_coupled_above
    coupled = build(
        lambda x, y: cp.sum_squares(y - x),
        [lambda x, y: y >= x - 1],
        upper=[lambda x, y: cp.sum(x + y) <= 3],
    ).structure
    assert coupled.is_coupled_below
    assert coupled.is_coupled_above


def test_levels_and_evidence_of_coupling():
    problem = build(lambda x, y: cp.sum_squares(y - x), [lambda x, y: y >= x - 1, lambda x, y: y <= 5])
    structure = problem.structure
    x, y = problem.levels.upper[0], problem.levels.lower[0]
    assert (structure.level_of(x), structure.level_of(y)) == ("upper", "lower")
    with pytest.raises(LevelError, match="other"):
        structure.level_of(cp.Variable(name="other"))
    fact = structure["lower constraints with x"]
    assert fact.value == "1 of 2"
    assert fact.shown_by == (problem.lower.constraints[0],)
    assert structure["upper constraints with y"].value == "none"
    with pytest.raises(KeyError, match="lower variables"):
        structure["colour"]


@pytest.mark.parametrize(
    ("g", "below", "value", "evidence"),
    [
        (lambda x, y: cp.sum(cp.exp(y)) + x @ y, [], "convex, 2 exponential cones", "not quadratic"),
        (
            lambda x, y: cp.sum_squares(y - x),
            [lambda x, y: cp.norm(y, 2) <= 1],
            "convex, 1 second-order cone",
            "not affine",
        ),
        (lambda x, y: cp.sum(cp.nlp.sin(y)), [], "smooth, not known to be convex", "sin"),
        (lambda x, y: cp.norm1(y) - cp.sum_squares(y), [], "nonsmooth, not known to be convex", ""),
    ],
)
def test_cones_and_smoothness_of_the_lower_class(g, below, value, evidence):
    fact = build(g, below).structure["lower level at fixed x"]
    assert fact.value == value
    assert evidence in fact.evidence


def test_semidefinite_cone():
    x, y = cp.Variable(name="x"), cp.Variable((2, 2), symmetric=True, name="Y")
    lower = bm.Lower(cp.Minimize(cp.trace(y)), [y >> 0, y[0, 1] == x], variables=[y])
    structure = bm.BilevelProblem(cp.Minimize(x**2), [], lower).structure
    assert structure["lower level at fixed x"].value == "convex, 1 semidefinite cone"
    assert structure["KKT conditions of the lower level"].value == "not written by rows"


@pytest.mark.parametrize(
    ("g", "value"),
    [
        (lambda x, y: cp.sum_squares(y - x), "smooth in y"),
        (lambda x, y: cp.sum_squares(y - x) + cp.norm(y, 2) ** 2, "smooth in y"),
        (
            lambda x, y: cp.sum_squares(y - x) + cp.exp(x[0]) * cp.norm1(y),
            "nonsmooth with a proximal step: smooth part + weighted l1 norm of 2 entries",
        ),
        (
            lambda x, y: cp.sum_squares(y - x) + cp.norm(y, 2),
            "nonsmooth with a proximal step: smooth part + 1 weighted group norm of 2 entries",
        ),
        (lambda x, y: cp.sum_squares(y - x) + cp.max(y), "nonsmooth, without a proximal step"),
    ],
)
def test_smoothness_and_prox(g, value):
    assert build(g).structure["lower objective"].value == value


HESSIAN = np.array([[3.0, 1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("g", "below", "constant", "is_proven"),
    [
        # the eigenvalue of a fixed Hessian
        (lambda x, y: cp.quad_form(y, HESSIAN) + x @ y, [], 2 * np.linalg.eigvalsh(HESSIAN)[0], True),
        (lambda x, y: cp.sum(y) + x @ y, [lambda x, y: y >= 0], 0.0, True),
        (lambda x, y: y[0] * y[1], [], -1.0, True),
        # what convex terms add is nothing for certain
        (lambda x, y: cp.sum_squares(y - x) + cp.sum(cp.exp(y)), [], 2.0, True),
        (lambda x, y: 2 * cp.sum_squares(y - x) + cp.exp(x[0]) * cp.norm1(y), [], 4.0, True),
        # exp(y) curves by at least e^-1 where y >= -1, by intervals
        (lambda x, y: cp.sum(cp.exp(y)), [lambda x, y: y >= -1], np.exp(-1.0), True),
        # 2 (1 + x[0]^2) >= 2 for every x
        (lambda x, y: (1 + x[0] ** 2) * cp.sum_squares(y), [], 2.0, True),
        # 4 sin(2 y) at most takes all of the curvature away
        (lambda x, y: 3 * cp.sum_squares(y) + cp.sum(cp.nlp.sin(2 * y)), [], 2.0, True),
    ],
)
def test_strong_convexity(g, below, constant, is_proven):
    problem = build(g, below, upper=[lambda x, y: x >= -1, lambda x, y: x <= 1])
    found = problem.structure.strong_convexity
    assert found.constant == pytest.approx(constant, rel=1e-9, abs=1e-12)
    assert found.is_proven is is_proven
    # no point that the sets allow is curved less
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, y = rng.uniform(-1, 1, 2), rng.uniform(-1, 3, 2)
        lowest = np.linalg.eigvalsh(problem.model.g_hessian(x, y, np.zeros(0))[2:, 2:])[0]
        assert lowest >= found.constant - 1e-9


def test_sampled_strong_convexity_says_so():
    # a dense interval Hessian, for which Gershgorin's circles are too wide
    def g(x, y):
        return (1 + x[0] ** 2) * cp.quad_form(y, np.array([[1.0, 1.2], [1.2, 2.0]]))

    found = build(g).structure.strong_convexity
    assert not found.is_proven and found.is_strong is None and found.constant > 0
    assert "proves nothing" in found.evidence


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([], "all of the space"),
        ([lambda x, y: x >= 0, lambda x, y: x <= 1], "box (2 bounded entries)"),
        ([lambda x, y: x >= 0, lambda x, y: cp.sum(x) == 1], "simplex of 2 entries"),
        ([lambda x, y: cp.norm(x, 2) <= 3], "Euclidean ball of 2 entries"),
        ([lambda x, y: x[0] - 2 * x[1] == 1], "affine subspace of 2 entries"),
        (
            [lambda x, y: x[0] + 2 * x[1] <= 1, lambda x, y: 3 * x[0] - x[1] <= 2],
            "polyhedron of 2 entries",
        ),
        ([lambda x, y: cp.sum(cp.exp(x)) <= 3], "curved set without a simple projection"),
    ],
)
def test_shape_of_the_upper_set(rows, value):
    fact = build(lambda x, y: cp.sum_squares(y - x), upper=rows).structure["X"]
    assert fact.value == value


@pytest.mark.parametrize(
    ("f", "kind", "direct"),
    [
        (lambda x, y: cp.sum(x) - y[0], "linear, smooth", "yes"),
        (lambda x, y: x @ y, "quadratic, smooth", "yes"),
        (lambda x, y: cp.sum_squares(y - 1), "quadratic, smooth", "no, only through y"),
        (lambda x, y: x[0] ** 2 * y[0], "nonlinear, smooth", "yes"),
        (lambda x, y: cp.exp(y[0]), "nonlinear, smooth", "no, only through y"),
        (lambda x, y: cp.norm1(x - 1) + y[0], "nonlinear, nonsmooth", "yes"),
    ],
)
def test_upper_objective(f, kind, direct):
    structure = build(lambda x, y: cp.sum_squares(y - x), f=f).structure
    assert structure["upper objective"].value == kind
    assert structure["upper objective contains x"].value == direct


def test_every_fact_has_evidence():
    structure = build(lambda x, y: cp.sum_squares(y - x), [lambda x, y: y >= x]).structure
    assert all(fact.name and fact.value and fact.evidence for fact in structure.facts)
    assert all(fact.name in str(structure) for fact in structure.facts)
    assert "x <= y" in str(structure)


def test_bounds_are_read_off_the_rows():
    problem = build(
        lambda x, y: cp.sum_squares(y - x),
        upper=[lambda x, y: 2 * x[0] <= 3, lambda x, y: -x >= -5, lambda x, y: x[1] >= -1],
    )
    low, high = problem.model.x_bounds
    np.testing.assert_allclose(low, [-np.inf, -1])
    np.testing.assert_allclose(high, [1.5, 5])


def test_a_lower_level_left_to_newton_has_no_cones_to_count():
    random = np.random.default_rng(0)
    data, classes = random.standard_normal((300, 80)), np.sign(random.standard_normal(300))
    x, w = cp.Variable(name="x"), cp.Variable(80, name="w")
    loss = cp.sum(cp.logistic(-cp.multiply(classes, data @ w))) / 300
    lower = bm.Lower(cp.Minimize(loss + cp.exp(x) * cp.sum_squares(w)), variables=[w])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(w - 1)), [x >= -3, x <= 3], lower)
    assert problem.structure["lower level at fixed x"].value == "convex"
    assert "lower level at fixed x" in problem.explain()
