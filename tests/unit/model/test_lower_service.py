"""What the lower level is at fixed x, compiled on demand, and who answers it."""

from __future__ import annotations

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.model.lower_service import describe_service

KINDS = {
    "LP": (lambda x, y: -cp.sum(y), "a linear program, answered by active-set, then clarabel."),
    "QP": (
        lambda x, y: cp.sum_squares(y - x),
        "a quadratic program, answered by active-set, then osqp, then clarabel.",
    ),
    "conic": (lambda x, y: cp.sum(cp.exp(y - x)), "a cone program, answered by clarabel."),
    "nonconvex": (
        lambda x, y: cp.sum(cp.nlp.cos(y)) + x * y[0],
        "not known to be convex, answered by local searches from many starts.",
    ),
}


def build(kind: str) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(KINDS[kind][0](x, y)), [y <= 1 + x, y >= -1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(x**2 + y[0]), [0 <= x, x <= 1], lower)


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_who_answers(kind):
    problem = build(kind)
    assert problem.model.is_convex_below == (kind != "nonconvex")
    sentence = describe_service(problem.model)
    assert sentence == f"At fixed x the lower level is {KINDS[kind][1]}"
    assert sentence in " ".join(problem.explain().split())
