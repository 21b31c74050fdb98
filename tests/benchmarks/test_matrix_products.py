"""Softmax models with a matrix below, beside the same numbers in NumPy: processor time in one run.

The sizes are those of hyper-cleaning with a hundred components of MNIST; the data are drawn.
"""

import time

import numpy as np
import pytest
from reproduce.cleaning_by_hand import galet
from smooth_problems import new_run

from blomodel.compiler.passes.derivatives import dense_jacobian, gradient, jacobian
from blomodel.methods.first_order import frame
from blomodel.methods.run.registry import create_method
from blomodel.problems.global_optimality_paper import softmax_cleaning
from blomodel.solvers.threads import one_blas_thread

pytestmark = pytest.mark.benchmark

N_SAMPLES, N_FEATURES, N_CLASSES = 5000, 101, 10
SHORT, LONG = 2, 8  # iterations; what comes before and after them drops out of the difference
NOTHING = np.zeros(0)


@pytest.fixture(scope="module")
def samples():
    random = np.random.default_rng(0)
    truth = random.standard_normal((N_FEATURES, N_CLASSES))

    def draw():
        features = random.standard_normal((N_SAMPLES, N_FEATURES)) / np.sqrt(N_FEATURES)
        return features, (features @ truth + random.gumbel(size=(N_SAMPLES, N_CLASSES))).argmax(axis=1)

    return draw(), draw()


def seconds(work, *arguments):
    began = time.process_time()
    work(*arguments)
    return time.process_time() - began


def test_an_iteration_of_galet_takes_at_most_twice_that_of_numpy(samples, monkeypatch):
    monkeypatch.setattr(frame, "propose_end", lambda *arguments: None)
    problem, x, weights = softmax_cleaning(*samples)
    settings = {"step_x": 2.0 * N_SAMPLES, "step_y": 2.0, "step_shadow": 8.0, "restart": False}
    settings |= {"inner_steps": 5, "shadow_steps": 20}

    def ours(count):
        run = new_run(problem, (np.zeros(x.size), np.zeros(weights.size)), tolerance=1e-12)
        create_method("galet", {**settings, "max_steps": count}).run(run)

    def by_hand(count):
        for _ in galet(*samples, count, **settings):
            pass

    with one_blas_thread():
        ours(1)  # loads or compiles kernels
        # In turn, since other work on the machine comes and goes.
        turns = [[seconds(way, LONG) - seconds(way, SHORT) for way in (ours, by_hand)] for _ in range(4)]
    best = np.min(turns, axis=0) / (LONG - SHORT)
    print(f"\nGALET: an iteration {1e3 * best[0]:.1f} ms, by hand in NumPy {1e3 * best[1]:.1f} ms")
    assert best[0] <= 2 * best[1]


@pytest.mark.parametrize(("names", "most"), [(("y",), 1.5), (("x", "y"), 2.0)])
def test_second_derivatives_of_dense_data_take_little_more_than_their_products(samples, names, most):
    problem, x, weights = softmax_cleaning(*samples)
    random = np.random.default_rng(1)
    point = np.zeros(x.size), 0.1 * random.standard_normal(weights.size), NOTHING
    slope, found = gradient(problem.model.g, ("y",)), []
    with one_blas_thread():
        dense_jacobian(slope, names, point)  # makes the tape of the products
        products = seconds(lambda: found.append(dense_jacobian(slope, names, point)))
        whole = seconds(lambda: found.append(jacobian(slope, names, point).toarray()))
    print(f"\nsecond derivatives in y and {names}: {whole:.2f} s, their products {products:.2f} s")
    np.testing.assert_array_equal(found[0], found[1])
    assert whole <= most * products
