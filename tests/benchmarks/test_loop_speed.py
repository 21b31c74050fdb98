"""Compiled loops against the same algorithm written by hand for one problem; ratios are printed."""

import importlib.util
import time
from functools import partial
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run

_spec = importlib.util.spec_from_file_location("handwritten", Path(__file__).with_name("handwritten.py"))
by_hand = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(by_hand)

pytestmark = pytest.mark.benchmark

GAMMA, C, P, ALPHA, BETA, ETA = 0.4, 20.0, 0.49, 1e-3, 0.2, 0.2
INNER = 5


def strongly_convex(n):
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(y) - x @ y), variables=[y])
    upper = 0.5 * cp.sum_squares(x - 1) + 0.5 * cp.sum_squares(y)
    return bm.BilevelProblem(cp.Minimize(upper), [], lower), np.zeros(n), ()


def nonconvex(n):
    x, y = cp.Variable(name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(cp.nlp.sin(x + y - 2))), variables=[y])
    upper = cp.square(x - 2) + cp.sum_squares(y - 4)
    return bm.BilevelProblem(cp.Minimize(upper), [], lower), np.array([2.0]), ()


def lasso(n):
    v = np.repeat([1.0, -1.0], n // 2) / n
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.sum_squares(y - v) + cp.sum(cp.multiply(x, cp.abs(y)))
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [0 <= x, x <= 1], lower)
    return problem, np.full(n, 0.5 / n), (v,)


PROBLEMS = {"strongly_convex": strongly_convex, "nonconvex": nonconvex, "lasso": lasso}


class Stopwatch:
    """Takes the place of the driver: keeps the loop that a method would run."""

    def __init__(self, monkeypatch):
        from blomodel.methods import meha
        from blomodel.methods.first_order import frame, stages

        for module in (meha, stages):
            monkeypatch.setattr(module, "run_stages", self._keep)
        monkeypatch.setattr(frame, "propose_end", lambda *arguments: None)

    def _keep(self, run, loop, *, stages, begin, state, **_):
        begin(stages[0], True)
        self.loop, self.state = loop, state


def fastest(*functions, repeats):
    """The shortest time of each, run in turn: other work on the machine only ever adds."""
    best = [np.inf] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            began = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - began)
    return best


def prepare(monkeypatch, method, problem, n):
    """Our loop, the handwritten one, and the points of both, from the same start."""
    model, x, data = PROBLEMS[problem](n)
    run = Run(
        model=model.model, p=model.parameter_values(), start=(x, np.zeros(n)), tolerance=1e-6, seed=0
    )
    watch = Stopwatch(monkeypatch)
    x, y, second = x.copy(), np.zeros(n), np.zeros(n)
    if method == "meha":
        steps = {"alpha": ALPHA, "beta": BETA, "eta": ETA, "gamma": GAMMA, "c": C, "p": P}
        create_method(method, steps).run(run)
        done = [0.0]

        def loop(count):
            arguments = (ALPHA, BETA, ETA, GAMMA, C, P, done[0])
            getattr(by_hand, f"meha_{problem}")(count, x, y, second, *data, *arguments)
            done[0] += count

        return watch.loop, watch.state, loop, (x, y, second)
    eta = ALPHA / n  # one x that all y pull at needs a small step
    steps = {"step_size": eta, "inner_step_size": BETA, "inner_steps": INNER, "gamma": C}
    create_method(method, steps).run(run)

    def loop(count):
        getattr(by_hand, f"alt_pbgd_{problem}")(count, x, y, second, *data, eta, BETA, C, INNER)

    return watch.loop, watch.state, loop, (x, y, second)


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", ["meha", "alt-pbgd"])
def test_close_to_handwritten_code(method, problem, n, monkeypatch, capsys):
    ours, state, theirs, points = prepare(monkeypatch, method, problem, n)
    ours(50), theirs(50)
    for a, b in zip(state, points, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    count = 1000 if n == 10 else 20  # shorter than what a busy machine gives a process at a time
    spent = fastest(partial(ours, count), partial(theirs, count), repeats=300)
    own, other = spent[0] / count, spent[1] / count
    limit = 3 if n == 10 else 2
    with capsys.disabled():
        print(
            f"\n{method:9s} {problem:16s} n = {n:5d}: {own * 1e6:8.2f} us an iteration, by hand "
            f"{other * 1e6:8.2f} us, ratio {own / other:.2f} (goal {limit})"
        )
    assert own <= limit * other


@pytest.mark.parametrize("problem", PROBLEMS)
def test_time_of_an_iteration_grows_with_n(problem, monkeypatch, capsys):
    sizes, times, by_hand_times = [1000, 10_000, 100_000, 1_000_000], [], []
    for n in sizes:
        with monkeypatch.context() as patch:
            ours, _, theirs, _ = prepare(patch, "meha", problem, n)
        ours(1), theirs(1)
        count = max(20, 300_000 // n)  # a call measures its last step, which is not part of an iteration
        own, other = fastest(partial(ours, count), partial(theirs, count), repeats=15)
        times.append(own / count / n * 1e9)
        by_hand_times.append(other / count / n * 1e9)
    with capsys.disabled():
        print(f"\nmeha {problem}, ns for each entry at n = {sizes}: {np.round(times, 2)}", end="")
        print(f", by hand {np.round(by_hand_times, 2)}")
    # Vectors of a million entries live in main memory, for the handwritten loop as well.
    assert times[-1] / times[0] <= 2 * max(1.0, by_hand_times[-1] / by_hand_times[0])
