"""PBGD, JNT-PBGD, ALT-PBGD, PBGD-Free, F2SA and BOME against their twins, iterate by iterate."""

from __future__ import annotations

import pytest
import twins_penalty as twins
from twin_problems import logistic, quadratic, same, sine, steep

import blomodel as bm

N = 50
pytestmark = pytest.mark.filterwarnings("ignore:pbgd-free")


@pytest.mark.parametrize("make", [sine, quadratic])
def test_pbgd_in_the_jacobi_order(make):
    t = make()
    found = t.iterates(
        "pbgd", N, variant="paper", alpha=0.02, beta=0.3, gamma=5.0, inner_steps=4, order="jacobi"
    )
    same(found, twins.pbgd_jacobi(t, N, 0.02, 0.3, 5.0, 4))


@pytest.mark.parametrize("make", [sine, logistic])
def test_pbgd_in_the_gauss_seidel_order(make):
    t = make()
    found = t.iterates(
        "pbgd",
        N,
        variant="paper",
        order="gauss-seidel",
        alpha=0.05,
        beta=0.3,
        step_y_penalised=0.04,
        gamma=5.0,
        inner_steps=4,
    )
    same(found, twins.pbgd_gauss_seidel(t, N, 0.05, 0.3, 0.04, 5.0, 4))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("radius", [None, 0.6])
@pytest.mark.parametrize("name", ["jnt-pbgd", "v-pbgd"])
def test_jnt_pbgd(make, radius, name):
    t = make(radius)
    found = t.iterates(name, N, variant="paper", gamma=10.0, eta=0.01, step_y=0.3, inner_steps=5)
    same(found, twins.jnt_pbgd(t, N, 0.01, 0.3, 10.0, 5))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("radius", [None, 0.6])
@pytest.mark.parametrize("inner", [1, 5])
def test_alt_pbgd(make, radius, inner):
    t = make(radius)
    found = t.iterates(
        "alt-pbgd", N, variant="paper", gamma=10.0, eta=0.05, step_y=0.3, inner_steps=inner
    )
    same(found, twins.alt_pbgd(t, N, 0.05, 0.3, 10.0, inner))


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_f2sa_as_the_alt_pbgd_paper_has_it(make):
    t = make()
    found = t.iterates("f2sa", N, gamma=15.0, eta=0.05, step_y=0.3)
    same(found, twins.alt_pbgd(t, N, 0.05, 0.3, 15.0, 10))


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_f2sa_as_its_own_paper_has_it(make):
    t = make()
    weight = bm.schedules.power(8.0, 1 / 3)
    found = t.iterates("f2sa", N, variant="paper", penalty=weight, step_y=0.3, inner_steps=2)
    same(found, twins.f2sa(t, N, 0.3, 8.0, 2))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("radius", [None, 0.6])
def test_pbgd_free_with_inner_steps(make, radius):
    t = make(radius)
    found = t.iterates("pbgd-free", N, variant="paper", gamma=10.0, eta=0.05, step_y=0.3, inner_steps=5)
    same(found, twins.pbgd_free(t, N, 0.05, 0.3, 10.0, 5))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize(
    ("settings", "sees_old"),
    [
        ({}, False),
        ({"slope_at": "old"}, True),
        ({"variant": "paper"}, True),
        ({"slope_at": "new"}, False),
    ],
)
def test_pbgd_free_in_a_single_loop(make, settings, sees_old):
    t = make(0.6)
    found = t.iterates(
        "pbgd-free", N, version="single-loop", gamma=10.0, eta=0.05, step_y=0.3, **settings
    )
    same(found, twins.pbgd_free(t, N, 0.05, 0.3, 10.0, 1, sees_old))


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_bome(make):
    """With steps so small that the zigzag across the lower answers, which is chaotic, is not reached."""
    t = make()
    found = t.iterates("bome", N, xi=0.01, step_y=0.3, inner_steps=5, eta=0.5)
    same(found, twins.bome(t, N, 0.01, 0.3, 5, 0.5))


def test_given_numbers_count_in_the_units_of_the_problem():
    """Where the library would divide the objectives by their sizes, steps would mean something else."""
    t = steep()
    assert t.problem.model is not t.problem.plain_model  # it would
    settings = {"gamma": 1e12, "step_y": 1e5, "inner_steps": 3}
    found = t.iterates("alt-pbgd", N, eta=3e-8, **settings)
    same(found, twins.alt_pbgd(t, N, 3e-8, 1e5, 1e12, 3))
    assert t.problem.model is not t.problem.plain_model
