"""The stop rules of the papers' experiments, against the history of a run without them."""

from __future__ import annotations

import numpy as np
import pytest

from blomodel.problems.meha_paper import strongly_convex

# alpha, beta, eta, gamma, c, p of section A.11
A_11 = {"alpha": 1.5, "beta": 0.8, "eta": 0.8, "gamma": 10.0, "c": 33.3, "p": 0.49}


def solve(**settings):
    problem = strongly_convex(3)
    for variable in problem.variables:
        variable.value = np.zeros(3)
    problem.solve(
        method="meha", max_iterations=300, history_every=1, tolerance=1e-12, **A_11, **settings
    )
    return problem.solution


@pytest.fixture(scope="module")
def path():
    history = solve().history
    return history["x"], history["value"]


@pytest.mark.parametrize("rule", ["stop_move", "stop_relative_move", "stop_change"])
def test_it_stops_at_the_first_iteration_that_meets_the_rule(path, rule):
    x, value = path
    moves = np.linalg.norm(np.diff(x, axis=0), axis=1)
    figures = {
        "stop_move": moves,
        "stop_relative_move": moves / np.linalg.norm(x[1:], axis=1),
        "stop_change": np.abs(np.diff(value)),
    }[rule]
    limit = 3e-3
    first = int(np.flatnonzero(figures <= limit)[0]) + 2
    stopped = solve(**{rule: limit})
    assert stopped.iterations == first < 300
    assert stopped.stopped_by == "its stop rule"
    np.testing.assert_array_equal(stopped.iterate["x"], x[first - 1])
