"""Appendix H of the paper on global optimality, at small size: PBGD reaches the global optimum.

Both optima are known in closed form, so that nothing is compared with another iteration.
"""

import numpy as np
import pytest
from reproduce import measures

from blomodel.problems.global_optimality_paper import linear_cleaning, representation_learning


@pytest.fixture(scope="module")
def network():
    random = np.random.default_rng(0)
    sizes = {"n_train": 6, "n_validation": 4, "m": 8, "n": 2, "h": 30}
    problem, W1, W2, data = representation_learning(random, **sizes, spread=5.0)
    start = 0.5 * random.standard_normal(W1.size), 0.1 + 0.1 * random.standard_normal(W2.size)
    return problem, data, start


def test_representation_learning_converges_linearly_to_the_global_optimum(network):
    problem, data, start = network
    best_f, best_g = measures.best_network(data, gamma=1.0)
    errors = []
    for count in (100, 200, 300):
        point = measures.last_iterate(problem, start, gamma=1.0, max_steps=count)
        f, g = measures.network_errors(data, *point)
        errors.append(f + g - best_f - best_g)
    assert errors[0] < 1
    assert errors[1] < 0.1 * errors[0] and errors[2] < 0.1 * errors[1]


def test_errors_of_representation_learning_fall_with_gamma(network):
    problem, data, start = network
    best, _ = measures.best_network(data)
    found = []
    for gamma, count in ((1.0, 500), (10.0, 800)):
        f, g = measures.network_errors(
            data, *measures.last_iterate(problem, start, gamma=gamma, max_steps=count)
        )
        expected = measures.best_network(data, gamma)
        assert (f, g) == pytest.approx(expected, rel=1e-2, abs=1e-7)
        found.append((abs(f - best), g))
    assert found[1][0] < 0.7 * found[0][0]
    assert found[1][1] < 0.2 * found[0][1]


def test_hyper_cleaning_converges_linearly_where_the_theorem_holds():
    sizes = {"n_train": 20, "n_validation": 4, "m": 30, "n": 2}
    problem, u, W, data, polluted = linear_cleaning(np.random.default_rng(0), **sizes, orthogonal=True)
    start = np.zeros(u.size), np.zeros(W.size)
    settings = {"order": "gauss-seidel", "gamma": 10.0, "inner_steps": 3}
    errors = []
    for count in (10, 20, 40):
        point = measures.last_iterate(problem, start, max_steps=count, **settings)
        errors.append(measures.cleaning_errors(data, *point))
    # Orthogonal samples can all be fitted at once: the global optimum has f = 0 and no lower gap.
    for before, after in zip(errors[:-1], errors[1:], strict=True):
        assert after[0] < 0.1 * before[0] and after[1] < 0.1 * before[1]


def test_hyper_cleaning_gives_polluted_samples_the_least_weight():
    sizes = {"n_train": 20, "n_validation": 4, "m": 30, "n": 2}
    problem, u, W, data, polluted = linear_cleaning(np.random.default_rng(0), **sizes)
    start = np.zeros(u.size), np.ones(W.size)
    weights, _ = measures.last_iterate(
        problem, start, order="gauss-seidel", gamma=1.0, max_steps=100, inner_steps=10
    )
    assert polluted.any()
    assert weights[polluted].max() < weights[~polluted].min()
