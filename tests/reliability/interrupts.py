"""Ctrl-C at random moments of solves of every kind: what is left behind?

Signals are real ones, sent by another thread while ``solve()`` is at work: compiling the model, running
a method, certifying. A second part starts processes whose kernels are not compiled yet, and sends the
signal from outside. Whatever Ctrl-C leaves is judged here, not by blomodel:

- *lost*: no point, though the run had kept one that it found acceptable;
- *worse*: a point, but a worse one than the run had kept;
- *bare*: KeyboardInterrupt left ``solve()``;
- *half-done*: some variables have values and some have none, or one is not finite;
- *unexplained*: a point without certificate, and no reason given;
- *later wrong*: the same problem, solved again afterwards, has another value.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FAULTS = ("lost", "worse", "bare", "half-done", "unexplained", "later wrong", "no end")
SAME = 1e-5  # relative: values that agree
QUICK = 1.0  # seconds of a solve that is always done again; of others every fifth
COLD_LONGEST = 25.0  # seconds in which a process with nothing compiled is interrupted


def measure(count: int = 200, seed: int = 0, cold: int = 4) -> dict[str, Any]:
    """Interrupt ``count`` solves in this process and ``cold`` ones in processes of their own."""
    from interrupted_models import CASES

    random, found, sent = np.random.default_rng(seed), Counter(), 0
    by_stage: Counter[str] = Counter()
    references = {}
    failures = []
    for name in itertools.cycle(CASES):
        if sent >= count:
            break
        make, arguments = CASES[name]
        if name not in references:
            make().solve(**arguments)  # compiles what is missing
            problem, began = make(), time.perf_counter()
            references[name] = problem.solve(**arguments), time.perf_counter() - began
        value, seconds = references[name]
        is_again = seconds < QUICK or sent % 5 == 0
        delay = random.uniform(0, seconds)
        outcome = _interrupt(make(), arguments, value if is_again else None, delay)
        if outcome is None:
            continue  # the solve was over before
        sent += 1
        for word in outcome:
            found[word] += 1
        by_stage[outcome[0]] += 1
        if any(word in FAULTS for word in outcome):
            failures.append([name, *outcome])
    for _ in range(cold):
        word = _interrupt_cold(random.uniform(1.0, COLD_LONGEST))
        found[word] += 1
        sent += 1
        by_stage["kernels"] += 1
        if word in FAULTS:
            failures.append(["cold", word])
    return {
        "sent": sent,
        "with a point": found["point"],
        "without a point, none known yet": found["none known"],
        **{word: found[word] for word in FAULTS},
        "stages": dict(by_stage),
        "failures": failures,
    }


def _interrupt(problem: Any, arguments: dict, reference: float | None, delay: float) -> list[str] | None:
    """Solve, interrupted after a delay; words for the stage and what was left, None if it came late."""
    outcome: list[str] = []
    with _remembering(problem) as kept, _ctrl_c_after(delay) as sent:
        try:
            problem.solve(**arguments)
        except KeyboardInterrupt:
            return ["somewhere", "bare"]
    if not sent:
        return None
    outcome.append(_stage(problem))
    values = [leaf.value for leaf in problem.variables]
    has_point = all(value is not None and np.all(np.isfinite(value)) for value in values)
    if not has_point and any(value is not None for value in values):
        outcome.append("half-done")
    if has_point:
        outcome.append("point")
        if problem.certificate is None and not any("certificate" in n for n in problem.solution.notes):
            outcome.append("unexplained")
        best = min(kept, default=np.inf)
        if problem.sign * problem.solution.value > best + SAME * (1 + abs(best)):
            outcome.append("worse")
    else:
        outcome.append("lost" if kept else "none known")
    if problem.status != "interrupted":
        outcome.append("bare")  # swallowed, which is no better
    if reference is None:
        return outcome
    again = problem.solve(**(arguments | {"warm_start": False}))
    if not abs(again - reference) <= SAME * (1 + abs(reference)):
        outcome.append("later wrong")
    return outcome


def _stage(problem: Any) -> str:
    """What went on when the signal came, by what the solution tells."""
    solution = problem.solution
    if any("before the problem was compiled" in note for note in solution.notes):
        return "compiling"
    return "running" if solution.stopped_by == "user" else "certifying"


@contextmanager
def _remembering(problem: Any) -> Iterator[list[float]]:
    """The values, to be minimised and as the problem counts, of all acceptable points of its run."""
    from blomodel.methods.run.run import Run

    kept: list[float] = []
    keep = Run.keep

    def remember(run: Run, candidate: Any) -> None:
        keep(run, candidate)
        is_own = run.model is vars(problem).get("model", vars(problem).get("plain_model"))
        if is_own and run.is_acceptable(candidate) and np.isfinite(candidate.value):
            kept.append(float(problem.chain.invert_value(candidate.cautious_value)))

    Run.keep = remember
    try:
        yield kept
    finally:
        Run.keep = keep


@contextmanager
def _ctrl_c_after(delay: float) -> Iterator[list[float]]:
    """Send SIGINT once, if ``solve()`` is still listening to it then."""
    sent: list[float] = []
    over = threading.Event()

    def send() -> None:
        is_over = over.wait(delay)
        while not is_over and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            is_over = over.wait(1e-4)  # not yet within solve()
        if not is_over:
            sent.append(delay)
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield sent
    finally:
        over.set()
        sender.join()


COLD = """
import sys
sys.path[:0] = [{folder!r}]
from interrupted_models import CASES
make, arguments = CASES["meha"]
problem = make()
print("begun", flush=True)
try:
    problem.solve(**arguments)
except KeyboardInterrupt:
    print("bare", flush=True)
    raise SystemExit(0)
print(problem.status, len(problem.solution.values), flush=True)
print(abs(problem.solve(**(arguments | dict(warm_start=False))) - 20.0707) < 1e-3, flush=True)
"""


def _interrupt_cold(delay: float) -> str:
    """Interrupt a process that has to compile its kernels first."""
    with tempfile.TemporaryDirectory() as cache:
        code = COLD.format(folder=str(Path(__file__).parent))
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": cache},
            # A background job of a shell ignores the signal, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        try:
            lines = process.communicate(timeout=240)[0].split("\n")
        except subprocess.TimeoutExpired:
            process.kill()
            return "no end"
    if lines[0] == "bare" or not lines[0].startswith("interrupted"):
        return "bare"
    if lines[1] != "True":
        return "later wrong"
    return "point" if lines[0] != "interrupted 0" else "none known"
