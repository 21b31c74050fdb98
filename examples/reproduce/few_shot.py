"""Table 5 of the MEHA paper, few-shot learning: a toy from the digits of scikit-learn.

The paper's tasks are 10-way and 20-way 1-shot from Omniglot with four convolution layers. Here a task
has five classes of shifted digits with one labelled sample each; what all tasks share, one hidden
layer, is the
upper level, and each task's own softmax layer the lower level: (78) at small size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from sklearn.datasets import load_digits

import blomodel as bm
from blomodel.problems.global_optimality_paper import softmax_losses

from .paths import is_there, solved
from .table import Table, timed

WAYS, UNITS, COMPONENTS = 5, 8, 12
RIDGE = 0.05  # of the heads, so that one sample for each class gives a unique answer
Task = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
# Methods of the table: seconds to 90 % in the paper, 10-way.
PAPER = {
    "RHG (unrolled)": "557.71 s",
    "BDA": "869.98 s",
    "CG (implicit-cg)": "363.76 s",
    "BAMM": "180.48 s",
    "BOME": "191.25 s",
    "V-PBGD": "315.59 s",
    "MEHA": "130.81 s",
}


def tasks(random: np.random.Generator, classes: np.ndarray, n_tasks: int, n_queries: int) -> list[Task]:
    """Five classes each, one sample to fit and some to judge by; features are principal components."""
    images, labels = load_digits(return_X_y=True)
    images = images / 16 - (images / 16).mean(axis=0)
    features = images @ np.linalg.svd(images, full_matrices=False)[2][:COMPONENTS].T
    made = []
    for _ in range(n_tasks):
        chosen = random.permutation(classes)[:WAYS]
        drawn = np.concatenate(
            [random.permutation(np.flatnonzero(labels == digit))[: 1 + n_queries] for digit in chosen]
        )
        new = np.repeat(np.arange(WAYS), 1 + n_queries)
        is_support = np.tile(np.arange(1 + n_queries) == 0, WAYS)
        made.append(
            (
                features[drawn[is_support]],
                new[is_support],
                features[drawn[~is_support]],
                new[~is_support],
            )
        )
    return made


def few_shot(given: list[Task]) -> bm.BilevelProblem:
    """(78): the shared layer above, a head for each task below."""
    x = cp.Variable((COMPONENTS, UNITS), name="x")
    heads = [cp.Variable((UNITS, WAYS), name=f"head_{j}") for j in range(len(given))]
    below: Any = 0
    above: Any = 0
    for head, (a, b, c, d) in zip(heads, given, strict=True):
        below += cp.sum(softmax_losses(cp.nlp.tanh(a @ x), b, head, WAYS)) / len(b)
        below += RIDGE / 2 * cp.sum_squares(head)
        above += cp.sum(softmax_losses(cp.nlp.tanh(c @ x), d, head, WAYS)) / len(d)
    lower = bm.Lower(cp.Minimize(below / len(given)), variables=heads)
    return bm.BilevelProblem(cp.Minimize(above / len(given)), [x >= -5, x <= 5], lower)


def judge(x: np.ndarray, given: list[Task]) -> float:
    """Mean accuracy on the queries, with each head fitted by Newton-like gradient steps to its five
    samples.
    """
    shares = []
    for a, b, c, d in given:
        hidden, head, target = np.tanh(a @ x), np.zeros((UNITS, WAYS)), np.eye(WAYS)[b]
        for _ in range(400):
            scores = hidden @ head
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            slope = (
                hidden.T @ (powers / powers.sum(axis=1, keepdims=True) - target) / len(b) + RIDGE * head
            )
            head -= 0.5 * slope
        shares.append(np.mean((np.tanh(c @ x) @ head).argmax(axis=1) == d))
    return float(np.mean(shares))


def runs() -> dict[str, tuple[str, dict[str, Any], int]]:
    """Name, settings and number of iterations."""
    inner = {"inner_steps": 30, "step_x": 1.0, "step_y": 1.0}
    return {
        "RHG (unrolled)": ("unrolled", inner, 100),
        "BDA": ("bda", inner, 100),
        "CG (implicit-cg)": ("implicit-cg", {**inner, "inner_steps": 10}, 100),
        "BAMM": ("bamm", {"max_iterations": 1000}, 1000),
        "BOME": ("bome", {"inner_steps": 10, "step_x": 0.5, "step_y": 1.0}, 1000),
        "V-PBGD": (
            "v-pbgd",
            {"penalty": 10.0, "step_x": 0.1, "step_y": 1.0, "inner_steps": 10, "stop_at": 0.0},
            1000,
        ),
        "MEHA": (
            "meha",
            {
                "penalty": 10.0,
                "penalty_power": 0.08,
                "proximal": 10.0,
                "step_x": 0.5,
                "step_y": 0.5,
                "step_theta": 0.5,
            },
            1000,
        ),
    }


def table_5(data: Path | None = None, *, quick: bool = False) -> Table:
    """Learn the shared layer on tasks from seven digits; new tasks hold the three digits not seen,
    too.
    """
    random = np.random.default_rng(0)
    given = tasks(random, np.arange(7), 4 if quick else 8, 10)
    new = tasks(random, np.arange(10), 50 if quick else 200, 15)
    first = random.normal(0, 0.3, (COMPONENTS, UNITS))
    table = Table(
        f"Table 5 of the MEHA paper, few-shot: {WAYS}-way 1-shot from digits, {len(given)} "
        f"tasks to learn from",
        (
            "method",
            "upper objective",
            "accuracy on new tasks, %",
            "iterations",
            "CPU seconds",
            "paper, 10-way",
        ),
    )
    start_share = 100 * judge(first, new)
    table.add("no learning: the first x", "", f"{start_share:.2f}", 0, "0.0", "")
    problem = few_shot(given)
    start = {"x": first} | {f"head_{j}": np.zeros((UNITS, WAYS)) for j in range(len(given))}
    for label, (method, settings, n_steps) in runs().items():
        if not is_there(method) or (quick and method not in ("v-pbgd", "meha")):
            continue
        with timed() as clock:
            solution = solved(problem, method, start, max_steps=n_steps, time_limit=60.0, **settings)
        share = 100 * judge(solution.iterate["x"], new)
        value = solution.history["value"][-1]
        table.add(
            label,
            f"{value:.3f}",
            f"{share:.2f}",
            solution.iterations,
            f"{clock.seconds:.1f}",
            PAPER[label],
        )
        table.figures[label] = value, share
    table.figures["start"] = start_share
    table.remarks.append(
        "Heads of new tasks are fitted to their five samples; the shared layer is that of the "
        "method's iterate."
    )
    return table
