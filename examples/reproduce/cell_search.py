"""Tables 7 and 9 of the MEHA paper: architecture search, as one cell on the digits of scikit-learn.

As in DARTS a softmax over candidates is the architecture: the hidden layer is a mixture of smooth
activations whose
shares the upper level chooses on validation data, and the weights are fitted to training data below:
(80) at
small size. The paper's cells are those of DARTS on CIFAR-10, 50 epochs of search on a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from sklearn.datasets import load_digits

import blomodel as bm
from blomodel.atoms import sigmoid
from blomodel.problems.global_optimality_paper import softmax_losses

from .cleaning_curves import reduced
from .paths import solved
from .table import Table, timed

UNITS, COMPONENTS, RIDGE = 8, 15, 0.01
Data = tuple[np.ndarray, np.ndarray]
# Smooth candidates, as Table 9 wants them; in NumPy and in cvxpy.
CANDIDATES = {
    "tanh": (np.tanh, cp.nlp.tanh),
    "swish": (lambda s: s / (1 + np.exp(-s)), lambda s: cp.multiply(s, sigmoid(s))),
    "sine": (np.sin, cp.nlp.sin),
    "identity": (lambda s: s, lambda s: s),
}


def split(n_train: int) -> list[Data]:
    """Training, validation and test samples as principal components with a column of ones."""
    features, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    parts = [
        (np.hstack([features[rows] / 16, np.ones((len(rows), 1))]), labels[rows])
        for rows in np.split(order, [n_train, 2 * n_train])
    ]
    return reduced(tuple(parts), COMPONENTS)


def cell(train: Data, validation: Data) -> bm.BilevelProblem:
    """Shares of the activations above, both layers below."""
    x = cp.Variable(len(CANDIDATES), name="x")
    first = cp.Variable((train[0].shape[1], UNITS), name="first")
    second = cp.Variable((UNITS, 10), name="second")
    shares = cp.exp(x) / cp.sum(cp.exp(x))

    def losses(features: np.ndarray, labels: np.ndarray) -> cp.Expression:
        hidden: Any = 0
        for k, (_, activation) in enumerate(CANDIDATES.values()):
            hidden = hidden + shares[k] * activation(features @ first)
        return cp.sum(softmax_losses(hidden, labels, second, 10)) / len(labels)

    ridge = RIDGE / 2 * (cp.sum_squares(first) + cp.sum_squares(second))
    lower = bm.Lower(cp.Minimize(losses(*train) + ridge), variables=[first, second])
    return bm.BilevelProblem(cp.Minimize(losses(*validation)), [x >= -5, x <= 5], lower)


def accuracy(shares: np.ndarray, first: np.ndarray, second: np.ndarray, samples: Data) -> float:
    """Per cent of the samples that the mixed cell recognises."""
    inner = samples[0] @ first
    hidden = sum(s * f(inner) for s, (f, _) in zip(shares, CANDIDATES.values(), strict=True))
    return float(100 * np.mean((hidden @ second).argmax(axis=1) == samples[1]))


def shares_of(x: np.ndarray) -> np.ndarray:
    """Softmax."""
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def retrained(
    shares: np.ndarray, start: dict[str, np.ndarray], train: Data
) -> tuple[np.ndarray, np.ndarray]:
    """Both layers for fixed shares by L-BFGS, as the evaluation stage trains a network from scratch."""
    from scipy.optimize import minimize

    features, target = train[0], np.eye(10)[train[1]]
    n_first = start["first"].size
    step = 1e-6

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        first, second = (
            z[:n_first].reshape(start["first"].shape),
            z[n_first:].reshape(start["second"].shape),
        )
        inner = features @ first
        parts = [f for f, _ in CANDIDATES.values()]
        hidden = sum(s * f(inner) for s, f in zip(shares, parts, strict=True))
        slope = sum(
            s * (f(inner + step) - f(inner - step)) / (2 * step)
            for s, f in zip(shares, parts, strict=True)
        )
        scores = hidden @ second
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = powers / powers.sum(axis=1, keepdims=True)
        value = -np.mean(np.log(np.maximum((chances * target).sum(axis=1), 1e-300))) + RIDGE / 2 * z @ z
        residual = (chances - target) / len(target)
        into_first = features.T @ ((residual @ second.T) * slope)
        return float(value), np.concatenate(
            [into_first.ravel(), (hidden.T @ residual).ravel()]
        ) + RIDGE * z

    found = minimize(
        loss,
        np.concatenate([start["first"].ravel(), start["second"].ravel()]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500},
    )
    return found.x[:n_first].reshape(start["first"].shape), found.x[n_first:].reshape(
        start["second"].shape
    )


def table_7(data: Path | None = None, *, quick: bool = False) -> Table:
    """Search by MEHA, V-PBGD and steps in turn as DARTS takes them; then the largest share alone,
    trained anew.
    """
    train, validation, test = split(100 if quick else 300)
    random = np.random.default_rng(1)
    start = {
        "x": np.zeros(len(CANDIDATES)),
        "first": random.normal(0, 0.3, (train[0].shape[1], UNITS)),
        "second": random.normal(0, 0.3, (UNITS, 10)),
    }
    table = Table(
        "Tables 7 and 9 of the MEHA paper: one cell on digits",
        (
            "method",
            "shares of " + ", ".join(CANDIDATES),
            "search: train, valid, %",
            "chosen",
            "evaluation: train, valid, test, %",
            "iterations",
            "CPU seconds",
        ),
    )
    problem = cell(train, validation)
    n_steps, seconds = (100, 4.0) if quick else (1000, 15.0)
    runs: dict[str, tuple[str, dict[str, Any]]] = {
        "MEHA": (
            "meha",
            {
                "penalty": 2.0,
                "penalty_power": 0.49,
                "proximal": 10.0,
                "step_x": 0.5,
                "step_y": 0.1,
                "step_theta": 0.1,
            },
        ),
        "V-PBGD": (
            "v-pbgd",
            {"penalty": 5.0, "step_x": 0.05, "step_y": 0.2, "inner_steps": 5, "stop_at": 0.0},
        ),
        "DARTS' first order (pbgd-free)": (
            "pbgd-free",
            {"penalty": 100.0, "step_x": 0.5, "step_y": 0.2, "inner_steps": 1},
        ),
    }
    for label, (method, settings) in runs.items():
        with timed() as clock:
            solution = solved(problem, method, start, max_steps=n_steps, time_limit=seconds, **settings)
        point = solution.iterate
        shares = shares_of(point["x"])
        row(
            table,
            label,
            shares,
            (point["first"], point["second"]),
            start,
            (train, validation, test),
            clock.seconds,
            str(solution.iterations),
        )
    for k, name in enumerate(CANDIDATES):
        shares = np.eye(len(CANDIDATES))[k]
        with timed() as clock:
            layers = retrained(shares, start, train)
        row(table, f"{name} alone", shares, layers, start, (train, validation, test), clock.seconds)
    table.remarks.append(
        "Search: the mixed cell with the method's own weights. Evaluation: the candidate of the "
        "largest share alone, "
        "trained from scratch. The rows below are every candidate alone, which a search must be "
        "compared with."
    )
    return table


def row(
    table: Table,
    label: str,
    shares: np.ndarray,
    layers: tuple[np.ndarray, np.ndarray],
    start: dict[str, np.ndarray],
    parts: tuple[Data, Data, Data],
    seconds: float,
    iterations: str = "",
) -> None:
    """One row: the mixed cell, and its largest share trained anew."""
    searched = [accuracy(shares, *layers, samples) for samples in parts[:2]]
    best = int(shares.argmax())
    alone = np.eye(len(CANDIDATES))[best]
    again = retrained(alone, start, parts[0])
    judged = [accuracy(alone, *again, samples) for samples in parts]
    table.add(
        label,
        ", ".join(f"{share:.2f}" for share in shares),
        ", ".join(f"{s:.2f}" for s in searched),
        list(CANDIDATES)[best],
        ", ".join(f"{s:.2f}" for s in judged),
        iterations,
        f"{seconds:.1f}",
    )
    table.figures[label] = shares, searched, judged
