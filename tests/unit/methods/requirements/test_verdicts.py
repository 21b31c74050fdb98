"""One check before any method runs: what it refuses, with which words, and what it merely doubts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import MissingPackageError, ModelError, NonconvexLowerError
from blomodel.methods.requirements.demands import _REFUSALS, check_capabilities
from blomodel.methods.requirements.verdicts import _DOUBTS, Caution, check_method
from blomodel.methods.run.capabilities import WITH_INTEGERS, Assumption, Capability, Extra, words
from blomodel.methods.run.run import Run


@dataclass(frozen=True)
class Stub:
    """A method that declares what it is told."""

    capabilities: frozenset[Capability] = frozenset()
    needs: tuple[Any, ...] = ()
    packages: tuple[Extra, ...] = ()
    name: str = field(default="stub")


def run_of(g, below=(), above=(), integer=False):
    x, y = cp.Variable(2, name="x", integer=integer), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(g(x, y)), [c(x, y) for c in below], variables=[y])
    rows = [c(x, y) for c in above]
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) + cp.sum_squares(y)), rows, lower)
    return Run(problem.model, np.zeros(0), None, 1e-6, 0)


def tracking(x, y):
    return cp.sum_squares(y - x)


# For each capability a problem that asks for it and for nothing beyond the others named, and its words.
ASKING = {
    Capability.NONCONVEX_LOWER: (lambda: run_of(lambda x, y: cp.sum(cp.nlp.cos(y))), (), "cos"),
    Capability.LOWER_CONSTRAINTS: (
        lambda: run_of(tracking, [lambda x, y: y >= 0]),
        (),
        "the lower level has the constraint '0 <= y'",
    ),
    Capability.COUPLED_LOWER: (
        lambda: run_of(tracking, [lambda x, y: y <= x]),
        (Capability.LOWER_CONSTRAINTS,),
        "y <= x of the lower level contains upper variables.* blocc or auto",
    ),
    Capability.COUPLED_UPPER: (
        lambda: run_of(tracking, above=[lambda x, y: cp.sum(x + y) <= 3]),
        (),
        "of the upper level contains lower variables.* auto",
    ),
    Capability.MATRIX_INEQUALITIES: (
        lambda: run_of(tracking, [lambda x, y: cp.bmat([[y[0], 1], [1, y[1]]]) >> 0]),
        (Capability.LOWER_CONSTRAINTS,),
        "semidefinite",
    ),
    Capability.PROX_TERMS: (
        lambda: run_of(lambda x, y: tracking(x, y) + cp.norm1(y)),
        (),
        "norm1.* has kinks.* meha or alt-pbgd",
    ),
    Capability.KINKS: (
        lambda: run_of(lambda x, y: tracking(x, y) + cp.max(y)),
        (Capability.PROX_TERMS,),
        "max",
    ),
    Capability.INTEGERS: (
        lambda: run_of(tracking, integer=True),
        (),
        "'x' is declared integer or boolean",
    ),
}


@pytest.mark.parametrize("capability", Capability)
def test_a_capability_that_is_asked_for_and_missing_is_refused_by_name(capability):
    make_run, others, text = ASKING[capability]
    run, has_others = make_run(), frozenset(others)
    with pytest.raises(ModelError, match=text):
        check_capabilities(run, Stub(has_others))
    check_capabilities(run, Stub(has_others | {capability}))
    check_capabilities(run, Stub(WITH_INTEGERS))


def test_a_plain_problem_asks_for_nothing():
    check_capabilities(run_of(tracking), Stub())


def test_every_capability_and_assumption_has_its_check():
    assert set(_REFUSALS) == set(Capability)
    assert set(_DOUBTS) == set(Assumption)


def test_what_is_not_convex_keeps_its_own_error():
    with pytest.raises(NonconvexLowerError):
        check_method(ASKING[Capability.NONCONVEX_LOWER][0](), Stub())


def test_needs_see_the_run_and_the_settings():
    seen = []
    run = run_of(tracking)
    method = Stub(needs=(lambda run, method: seen.append((run, method)),))
    check_method(run, method)
    assert seen == [(run, method)]


def test_a_missing_package_is_named_with_the_command():
    missing = Extra("nlp", "a nonlinear solver", ("no_such_package",))
    with pytest.raises(MissingPackageError, match=r'stub needs a nonlinear solver.* "blomodel\[nlp\]"'):
        check_method(run_of(tracking), Stub(packages=(missing,)))
    check_method(run_of(tracking), Stub(packages=(Extra("nlp", "something", ("no_such", "numpy")),)))


def test_no_method_checks_again(monkeypatch):
    """A method that is called directly runs, whatever it declares; refusing is the check's business."""
    from blomodel.methods.run.registry import create_method

    run = run_of(tracking, above=[lambda x, y: x >= -2, lambda x, y: x <= 2])
    monkeypatch.setattr("blomodel.methods.requirements.verdicts.check_method", None)
    create_method("blocc", {}).run(run)
    assert run.candidates


def test_a_caution_is_said_of_one_and_of_several():
    caution = Caution("g strongly convex in y", "and it is not")
    assert str(caution) == "assumes g strongly convex in y, and it is not"
    assert caution.said_of(2) == "assume g strongly convex in y, and it is not"


def test_words_leave_out_what_is_contained():
    assert words(WITH_INTEGERS).count("lower constraints") == 1
    assert "proximal" not in words(WITH_INTEGERS)
    assert "against its theory" in words(WITH_INTEGERS, {Assumption.SMOOTH_LOWER})
    assert words(()) == "smooth convex lower levels without constraints"


def test_a_run_made_anew_keeps_what_was_given_and_nothing_found():
    run = run_of(tracking)
    run.max_iterations, run.iterations, run.bound = 10, 4, 1.0
    run.watch(np.zeros(2), np.zeros(2))
    run.next_gap = 7
    other = run.anew(seed=3)
    assert (other.max_iterations, other.iterations, other.seed) == (6, 0, 3)
    assert other.bound == -np.inf and other.watched is None and other.next_gap == 1
    kept = {part.name for part in fields(Run) if part.init} - {"max_iterations", "seed"}
    for name in ("model", "p", "start", "tolerance", "n_jobs", "progress", "began"):
        assert name in kept and getattr(other, name) is getattr(run, name)


def test_a_part_of_a_run_has_its_own_start_and_shares_what_it_finds():
    run = run_of(tracking)
    run.next_gap = 5
    with run.part(start=(np.ones(2), None)) as part:
        assert part.start[0][0] == 1.0 and run.start is None
        part.watch(np.zeros(2), np.zeros(2))
        part.step(count=3, value=1.0)
        part.propose(np.zeros(2), np.zeros(2), "test")
        part.evaluations += 2
        part.next_gap = 9
    assert run.start is None and run.watched is None
    assert (run.iterations, run.evaluations, run.next_gap) == (3, 2, 9)
    assert len(run.candidates) == 1 and run.history["value"] == [1.0]


def test_what_parts_share_is_made_once():
    run, made = run_of(tracking), []
    for _ in range(2):
        assert run.once("key", lambda: made.append(1) or len(made)) == 1
    assert run.x_set is run.x_set
    assert run.anew().once("key", lambda: "new") == "new"
