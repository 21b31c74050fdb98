"""MNIST hyper-cleaning at full size: 5000 training samples, half of them with wrong labels.

The data are those of the file ``mnist_hc.npz`` (X_train, y_train, X_val, y_val, X_test, y_test) in the
folder that the environment variable BLOMODEL_DATA names. Run with ``pytest -m benchmark -s``.

Nothing is chosen by the test samples, nor by which labels are wrong: the steps are the best of 18 (1250,
5000, 20000 in x; 0.1, 0.5 in w; 0.25, 0.5, 1 in y) by the loss after 150 iterations on a fifth of the
validation samples, which the upper level does not see in that trial, and the iterations end when another
150 of them lower that loss by less than 1 %.

The classifier that is measured is the iterate of the method (``solution.iterate``), as in the papers.
With gamma = 1 it fits the clean validation samples too and is no exact lower answer, so that a solve
returns the lower answer at the same x. That one is fitted to the weighted training samples alone and
does not reach the goal: the same classifier fitted to the right training labels alone, which is perfect
cleaning, is at 89 to 90 %. The output shows all of them.
"""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from reproduce import measures

from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run
from blomodel.problems.global_optimality_paper import corrupted, softmax_cleaning
from blomodel.solvers.threads import one_blas_thread

pytestmark = pytest.mark.benchmark


STEPS = {"step_size": 5000.0, "inner_step_size": 0.5, "second_step_size": 1.0}
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
    noisy, _ = corrupted(labels, 0.5, np.random.default_rng(100))
    trial = measures.SoftmaxPbgd((features, noisy), [part[:n_seen] for part in validation])
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
    noisy, is_wrong = corrupted(labels, 0.5, np.random.default_rng(seed))
    problem, x, weights = softmax_cleaning((features, noisy), validation)
    x.value, weights.value = np.zeros(x.shape), np.zeros(weights.shape)
    began = time.process_time()
    problem.solve("pbgd", max_steps=iterations, **SETTINGS)
    seconds = time.process_time() - began

    def accuracy(matrix):
        return np.mean((test_features @ matrix).argmax(axis=1) == test_labels)

    solution, nothing = problem.solution, np.zeros(0)
    own, lower = solution.iterate["weights"], problem.model.lower_program
    reached = float(problem.model.g(solution.iterate["x"], own.ravel(order="F"), nothing)[0])
    best = problem.certificate.lower_value
    perfect = lower.solve(np.where(is_wrong, -20.0, 20.0), nothing).y.reshape(weights.shape, order="F")
    f1 = measures.f1_score(solution.iterate["x"] < 0, is_wrong)
    print(
        f"\nMNIST hyper-cleaning, pbgd, wrong labels of seed {seed}, {iterations} iterations\n"
        f"  test accuracy of the iterate {accuracy(own):.4f} (goal 0.91), its relative lower gap "
        f"{(reached - best) / (1 + abs(best)):.4f}\n"
        f"  answer of the solve, lower-optimal at the same x: {accuracy(weights.value):.4f}, status "
        f"{problem.status}, gap {problem.certificate.lower_gap:.1e}\n"
        f"  fitted to the right training labels alone {accuracy(perfect):.4f}\n"
        f"  F1 {f1:.4f} (goal 0.94); {seconds:.1f} CPU seconds with compiling and certificate"
    )
    assert accuracy(own) >= 0.91
    assert f1 >= 0.94
    np.testing.assert_array_equal(x.value, solution.iterate["x"])
    assert problem.certificate.accepted and problem.certificate.lower_gap <= 1e-6
    assert accuracy(weights.value) > accuracy(perfect)


def test_an_iteration_is_not_slower_than_by_hand_in_numpy(mnist, monkeypatch):
    (features, labels), validation, _ = mnist
    noisy, _ = corrupted(labels, 0.5, np.random.default_rng(0))
    problem, x, weights = softmax_cleaning((features, noisy), validation)
    by_hand = measures.SoftmaxPbgd((features, noisy), validation)
    # On a busy machine slices would be single iterations, and half of the time would go to the history.
    monkeypatch.setattr("blomodel.methods.run.slices.LONG", np.inf)
    ours, peer = [], []
    for turn in range(4):  # in turn, since other work on the machine comes and goes
        stamps = []
        run = Run(
            model=problem.model,
            p=np.zeros(0),
            start=(np.zeros(x.size), np.zeros(weights.size)),
            tolerance=0.1,
            seed=0,
            progress=lambda count, figures, to=stamps: to.append((count, time.process_time())),
        )
        with one_blas_thread():
            create_method("pbgd", {"max_steps": 60, **SETTINGS}).run(run)
            for _ in range(40):
                began = time.process_time()
                by_hand.iterate(*STEPS.values())
                peer.append(time.process_time() - began)
        counts, times = np.array(stamps).T
        if turn > 0:  # the first run loads or compiles kernels
            ours.extend(np.diff(times)[2:] / np.diff(counts)[2:])
    ours, peer = 1e3 * np.median(ours), 1e3 * np.median(peer)
    print(f"\nan iteration {ours:.2f} ms, by hand in NumPy {peer:.2f} ms (medians of processor time)")
    assert ours <= peer
