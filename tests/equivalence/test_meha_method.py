"""MEHA against its twin: smooth, in boxes, with kinks, with every step and weight on a schedule."""

from __future__ import annotations

import numpy as np
import pytest
from twin_problems import logistic, quadratic, same
from twins_meha import lasso, meha, smooth, sparse_regression

import blomodel as bm

N = 50
MAKE = {
    "quadratic": lambda: smooth(quadratic()),
    "logistic in boxes": lambda: smooth(logistic(0.6)),
    "lasso (20)": lasso,
    "sparse regression": sparse_regression,
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_constant_steps_and_a_weight_that_grows(make):
    t = make()
    found = t.iterates(
        "meha", N, variant="paper", alpha=0.1, beta=0.2, eta=0.25, gamma=4.0, c=2.0, p=0.49
    )
    same(
        found,
        meha(t, N, lambda k: 0.1, lambda k: 0.2, lambda k: 0.25, 4.0, lambda k: 2.0 * (k + 1) ** 0.49),
    )


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_schedules_and_a_first_theta(make):
    t = make()
    theta = np.linspace(-0.3, 0.2, t.start[1].size)
    found = t.iterates(
        "meha",
        N,
        variant="paper",
        alpha=bm.schedules.annealing(0.1, 0.1, 0.5),
        beta=bm.schedules.cosine(0.2, 0.05, 40),
        eta=lambda k: 0.3 if k < 20 else 0.2,
        gamma=4.0,
        c=bm.schedules.geometric(1.0, 1.3, every=5, last=6.0),
        theta=theta,
    )
    wanted = meha(
        t,
        N,
        lambda k: 0.1 / np.sqrt(1 + 0.1 * k),
        lambda k: 0.05 + 0.15 * (1 + np.cos(np.pi * min(k, 40) / 40)) / 2,
        lambda k: 0.3 if k < 20 else 0.2,
        4.0,
        lambda k: min(1.3 ** (k // 5), 6.0),
        theta,
    )
    same(found, wanted)
