"""MNIST hyper-cleaning at full size: 5000 training samples, half of them with wrong labels.

The data are those of the file ``mnist_hc.npz`` (X_train, y_train, X_val, y_val, X_test, y_test) in the
folder that the environment variable BLOMODEL_DATA names. Run with ``pytest -m benchmark -s``.

Nothing is chosen by the test samples, nor by which labels are wrong: the iterations end when another
150 of them lower the loss by less than 1 % on a fifth of the validation samples, which the upper level
does not see in that trial.

The classifier is the one at which the method itself ends, as in the papers. With gamma = 1 it fits the
clean validation samples too and is no exact lower answer, so that a solve may return the lower answer at
the same x instead. That one is fitted to the weighted training samples alone and is about a percent
worse; the output shows both, and the gap (g - v) / (1 + |v|) between them.
"""

import importlib.util
import os
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.benchmark

_here = Path(__file__).parents[2] / "examples" / "reproduce" / "models.py"
_spec = importlib.util.spec_from_file_location("models", _here)
models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(models)

STEPS = {"step_size": 5000.0, "inner_step_size": 0.1, "second_step_size": 0.5}
BETWEEN, AT_MOST = 150, 1500  # iterations between two looks at the unseen samples, and in all
WORTHWHILE = 0.01  # relative gain on them for which the iteration goes on
SEEDS = 0, 1, 2  # of the wrong labels


@pytest.fixture(scope="module")
def mnist():
    folder = os.environ.get("BLOMODEL_DATA")
    if folder is None:
        pytest.skip("set BLOMODEL_DATA to the folder that holds mnist_hc.npz")
    data = np.load(Path(folder) / "mnist_hc.npz")

    def samples(name):
        images = data[f"X_{name}"] / 255
        return np.hstack([images, np.ones((len(images), 1))]), data[f"y_{name}"].astype(int)

    return samples("train"), samples("val"), samples("test")


@pytest.fixture(scope="module")
def iterations(mnist):
    """The number of iterations after which the unseen validation samples gain no more."""
    (features, labels), validation, _ = mnist
    n_seen = len(validation[1]) * 4 // 5
    noisy, _ = models.corrupted(labels, 0.5, np.random.default_rng(100))
    trial = models.SoftmaxPbgd((features, noisy), [part[:n_seen] for part in validation])
    unseen, targets = validation[0][n_seen:].T, np.eye(10)[:, validation[1][n_seen:]]
    before = np.inf
    for count in range(BETWEEN, AT_MOST + 1, BETWEEN):
        for _ in range(BETWEEN):
            trial.iterate(*STEPS.values())
        loss = trial.losses(trial.y @ unseen, targets)[0].mean()
        print(f"\nloss on unseen validation samples after {count} iterations: {loss:.4f}", end="")
        if loss > (1 - WORTHWHILE) * before:
            return count - BETWEEN
        before = loss
    return AT_MOST


SETTINGS = {"order": "gauss-seidel", "gamma": 1.0, "inner_steps": 1, "stop_at": 0.0, **STEPS}


@pytest.mark.parametrize("seed", SEEDS)
def test_classifier_is_good_and_wrong_labels_are_found(mnist, iterations, seed):
    (features, labels), validation, (test_features, test_labels) = mnist
    noisy, is_wrong = models.corrupted(labels, 0.5, np.random.default_rng(seed))
    problem, x, weights = models.softmax_cleaning((features, noisy), validation)
    start = np.zeros(x.size), np.zeros(weights.size)
    began = time.perf_counter()
    at_x, classifier = models.last_point(problem, start, max_steps=iterations, **SETTINGS)
    seconds = time.perf_counter() - began

    def accuracy(matrix):
        return np.mean((test_features @ matrix).argmax(axis=1) == test_labels)

    nothing = np.zeros(0)
    answer = problem.model.lower_program.solve(at_x, nothing)
    reached = float(problem.model.g(at_x, classifier.ravel(order="F"), nothing)[0])
    gap = (reached - answer.value) / (1 + abs(answer.value))
    f1 = models.f1_score(at_x < 0, is_wrong)
    print(
        f"\nMNIST hyper-cleaning, pbgd, wrong labels of seed {seed}, {iterations} iterations\n"
        f"  test accuracy {accuracy(classifier):.4f} (goal 0.91), relative lower gap {gap:.3f}\n"
        "  exact lower answer at the same x "
        f"{accuracy(answer.y.reshape(weights.shape, order='F')):.4f}\n"
        f"  F1 {f1:.4f} (goal 0.94); {seconds:.1f} s with compilation and the lower answer"
    )
    assert accuracy(classifier) >= 0.91
    assert f1 >= 0.94


def test_an_iteration_is_not_slower_than_by_hand_in_numpy(mnist):
    (features, labels), validation, _ = mnist
    noisy, _ = models.corrupted(labels, 0.5, np.random.default_rng(0))
    problem, _, _ = models.softmax_cleaning((features, noisy), validation)
    problem.solve(method="pbgd", max_steps=2, tolerance=0.1, **SETTINGS)  # compiles
    by_hand = models.SoftmaxPbgd((features, noisy), validation)
    ours, peer = [], []
    # In turn, and the best of each, since other work on the machine comes and goes.
    for _ in range(4):
        for _ in range(25):
            began = time.perf_counter()
            by_hand.iterate(*STEPS.values())
            peer.append(time.perf_counter() - began)
        problem.solve(method="pbgd", max_steps=60, tolerance=0.1, **SETTINGS)
        history = problem.solution.history  # at the ends of slices
        ours.extend(np.diff(history["time"]) / np.diff(history["iteration"]))
    best_ours, best_peer = 1e3 * min(ours), 1e3 * min(peer)
    print(f"\nan iteration {best_ours:.2f} ms, by hand in NumPy {best_peer:.2f} ms (best of each)")
    print(f"medians {1e3 * np.median(ours):.2f} and {1e3 * np.median(peer):.2f} ms; one BLAS thread")
    assert best_ours <= best_peer
