"""Softmax hyper-cleaning on scikit-learn's digits (or clusters of points)."""

import numpy as np
import pytest
import scipy.sparse as sp
from blomodel.kernels import machine
from reproduce import measures

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.limits import Limit
from blomodel.problems.global_optimality_paper import corrupted, softmax_cleaning
from blomodel.programs.hoisting import signed_factor

STEPS = {"step_size": 600.0, "inner_step_size": 0.1, "second_step_size": 0.5}


def images():
    """Features with a column of ones, and labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        random = np.random.default_rng(5)
        labels = random.integers(0, 10, 1500)
        centres = random.standard_normal((10, 30))
        features = (centres[labels] + 0.7 * random.standard_normal((1500, 30))) / 3
    else:
        digits = load_digits()
        features, labels = digits.data / 16, digits.target
    order = np.random.default_rng(0).permutation(len(labels))
    return np.hstack([features, np.ones((len(labels), 1))])[order], labels[order]


@pytest.fixture(scope="module")
def cleaning():
    features, labels = images()
    noisy, is_wrong = corrupted(labels[:600], 0.5, np.random.default_rng(1))
    train, validation = (features[:600], noisy), (features[600:1200], labels[600:1200])
    return train, validation, (features[1200:], labels[1200:]), is_wrong


def first(count, *parts):
    """The first samples of each part."""
    return [(features[:count], labels[:count]) for features, labels in parts]


SETTINGS = {"order": "gauss-seidel", "gamma": 1.0, "inner_steps": 1, "stop_at": 0.0, **STEPS}


def solve(problem, n):
    problem.solve(method="pbgd", max_steps=n, tolerance=0.1, **SETTINGS)


def test_wrong_labels_are_found_and_the_classifier_is_good(cleaning):
    """PBGD's own y has seen the validation data; the lower level's exact answer to its x has not."""
    train, validation, (features, labels), is_wrong = cleaning

    def accuracy(matrix):
        return np.mean((features @ matrix).argmax(axis=1) == labels)

    problem, x, weights = softmax_cleaning(train, validation)
    solve(problem, 300)
    own = problem.solution.iterate
    np.testing.assert_array_equal(own["x"], x.value)  # here the lower level's answer took y's place only
    assert not np.allclose(own["weights"], weights.value, atol=1e-3)
    assert accuracy(own["weights"]) >= 0.93
    assert measures.f1_score(x.value < 0, is_wrong) >= 0.94
    assert accuracy(weights.value) >= 0.92
    assert problem.certificate.accepted and problem.certificate.lower_gap <= 0.1


@pytest.mark.parametrize("large", [0, 10**9])
def test_iterates_are_those_of_the_algorithm_written_by_hand(cleaning, monkeypatch, large):
    """Also where products are put together, and kept as long as the points stay where they are."""
    monkeypatch.setattr(limits, "SEPARATE_PRODUCTS", Limit(large, "entries", "for the test"))
    train, validation = first(150, *cleaning[:2])
    problem, x, weights = softmax_cleaning(train, validation)
    solve(problem, 25)
    by_hand = measures.SoftmaxPbgd(train, validation)
    for _ in range(25):
        by_hand.iterate(*STEPS.values())
    # Every step of x uses the w and the y of its iteration, so that no other sequence leads here.
    assert np.ptp(by_hand.x) > 1
    np.testing.assert_allclose(x.value, by_hand.x, rtol=1e-9, atol=1e-9)


def test_large_smooth_lower_level_is_solved_by_newton_as_by_an_interior_point_solver(cleaning):
    train, validation, _, _ = cleaning
    small = (train[0][:40], train[1][:40]), (validation[0][:40], validation[1][:40])
    problem, x, weights = softmax_cleaning(*small)
    program = problem.model.lower_program
    assert program.is_large_and_smooth
    at = np.linspace(-2, 2, 40)
    answer = program.solve(at, np.zeros(0), accuracy=1e-9)
    conic = program._program
    vector = conic._vector(at, np.zeros(0), np.ones(1))
    by_cones = conic.data.solve(vector, np.zeros(weights.size), 1e-9)
    other = conic.data.y.apply(by_cones.y)
    assert answer.value <= problem.model.g(at, other, np.zeros(0))[0] + 1e-9
    np.testing.assert_allclose(answer.y, other, atol=1e-4)
    assert np.abs(problem.model.g_grad(at, answer.y, np.zeros(0))[40:]).max() < 1e-6


def test_certificate_of_a_large_smooth_lower_level_refuses_a_wrong_answer(cleaning):
    problem, x, weights = softmax_cleaning(*first(150, *cleaning[:2]))
    at = np.zeros(x.size)
    right = problem.model.lower_program.solve(at, np.zeros(0)).y
    assert bm.certify(problem, at, right).accepted
    wrong = right + 0.05 * np.random.default_rng(2).standard_normal(right.size)
    refused = bm.certify(problem, at, wrong)
    assert not refused.accepted
    assert "Newton" in refused.checked_by


def test_products_with_a_matrix_of_variables_go_to_blas(cleaning):
    train, validation, _, _ = cleaning
    images = np.where(np.random.default_rng(3).random(train[0].shape) < 0.2, train[0], 0.0)
    problem, _, _ = softmax_cleaning((images, train[1]), validation)
    operations = [node.op for node in problem.model.g_grad.nodes]
    assert operations.count(machine.MATMUL) == 2
    assert machine.SPARSE not in operations


def test_factor_of_a_hessian_in_blocks():
    random = np.random.default_rng(4)
    blocks = [size * (B := random.standard_normal((size, size))) @ B.T for size in (1, 3, 1, 4)]
    order = random.permutation(10)
    whole = sp.block_diag([*blocks, np.zeros((1, 1))]).toarray()[np.ix_(order, order)]
    sign, factor = signed_factor(sp.csc_array(whole))
    assert sign == 1.0
    np.testing.assert_allclose((factor.T @ factor).toarray(), whole, atol=1e-10)
    assert signed_factor(sp.csc_array(-whole))[0] == -1.0
    whole[order.argmin(), order.argmin()] = -1.0  # a block of one entry
    assert signed_factor(sp.csc_array(whole)) is None
