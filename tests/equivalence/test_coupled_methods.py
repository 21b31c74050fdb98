"""BLOCC, PBGD-Free with coupled rows, LV-HBA, BiC-GAFFA and GAM against their twins."""

from __future__ import annotations

import pytest
import twins_coupled as twins
from twin_problems import same
from twins_coupled import budget, margin

N = 50
pytestmark = [
    pytest.mark.filterwarnings("ignore:pbgd-free"),
    pytest.mark.parametrize("make", [margin, budget]),
]


def test_blocc_with_exact_inner_solves(make):
    t = make()
    found = t.iterates("blocc", N, variant="paper", gamma=10.0)
    same(found, twins.blocc(t, N, 0.01, 10.0))
    assert t.problem.solution.iterations == N


@pytest.mark.parametrize("momentum", [True, False])
def test_blocc_with_the_max_min_solver(make, momentum):
    """From the user's y, with multipliers of 0."""
    t = make()
    found = t.iterates(
        "blocc", N, inner="max-min", gamma=10.0, step_x=0.01, step_y=0.2, step_multiplier=0.3,
        inner_steps=4, multiplier_steps=6, momentum=momentum,
    )  # fmt: skip
    same(found, twins.blocc_max_min(t, N, 0.01, 10.0, (6, 4), (0.3, 0.2), momentum))


def test_blocc_in_a_single_loop(make):
    """Remark 10: one step of descent and one of ascent."""
    t = make()
    found = t.iterates(
        "blocc", N, inner="max-min", gamma=10.0, step_x=0.01, step_y=0.2, step_multiplier=0.3,
        inner_steps=1, multiplier_steps=1, momentum=False,
    )  # fmt: skip
    same(found, twins.blocc_max_min(t, N, 0.01, 10.0, (1, 1), (0.3, 0.2), False))


def test_pbgd_free_over_a_set_that_moves(make):
    t = make()
    found = t.iterates("pbgd-free", N, variant="paper", gamma=10.0, eta=0.02)
    same(found, twins.pbgd_free(t, N, 0.02, 10.0))


def test_lv_hba(make):
    t = make()
    found = t.iterates(
        "lv-hba", N, alpha=0.02, beta=0.05, eta=0.1, gamma_1=2.0, gamma_2=1.5, c=2.0, p=0.3
    )
    same(found, twins.lv_hba(t, N, 0.02, 0.05, 0.1, 2.0, 1.5, 2.0, 0.3))


def test_bic_gaffa(make):
    t = make()
    found = t.iterates(
        "bic-gaffa", N, alpha=0.02, beta=0.05, eta=0.1, gamma_1=2.0, gamma_2=1.5, c=2.0, p=0.3
    )
    same(found, twins.bic_gaffa(t, N, 0.02, 0.05, 0.1, 2.0, 1.5, 2.0, 0.3))


def test_gam(make):
    t = make()
    found = t.iterates("gam", N, step_x=0.02)
    same(found, twins.gam(t, N, 0.02))
