"""kkt-mip on a file of literature problems: value and bound against the best value known.

    BLOMODEL_SUITE=<cases.json> pytest -m slow -s tests/benchmarks/test_kkt_mip_literature.py

A case has nx, ny, F, G (<= 0), Geq (== 0) above, f, g, geq below, best_x, best_y and lower_class.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

MAX_PAIRS = 20
SECONDS = 60.0  # for a case
FUNCTIONS = {
    "sin": cp.nlp.sin, "cos": cp.nlp.cos, "exp": cp.exp, "log": cp.log, "sqrt": cp.sqrt, "abs": cp.abs
}  # fmt: skip
NUMBERS = {name: getattr(np, name) for name in FUNCTIONS}


def build(case: dict) -> bm.BilevelProblem:
    """The case in cvxpy."""
    x, y = cp.Variable(case["nx"], name="x"), cp.Variable(case["ny"], name="y")

    def rows(inside: str, on: str) -> list[cp.Constraint]:
        names = dict(FUNCTIONS, x=x, y=y, __builtins__={})
        found = [(eval(text, names), True) for text in case.get(inside) or []]
        found += [(eval(text, names), False) for text in case.get(on) or []]
        # A row without variables is a number and says nothing.
        found = [(row, is_less) for row, is_less in found if isinstance(row, cp.Expression)]
        return [row <= 0 if is_less else row == 0 for row, is_less in found]

    def term(key: str) -> cp.Expression:
        return eval(case[key], dict(FUNCTIONS, x=x, y=y, __builtins__={}))

    lower = bm.Lower(cp.Minimize(term("f")), rows("g", "geq"), variables=[y])
    return bm.BilevelProblem(cp.Minimize(term("F")), rows("G", "Geq"), lower)


def best_known(case: dict) -> float:
    """F at the best point; published values are rounded, the point is not."""
    point = {key: np.array(case[f"best_{key}"], dtype=float) for key in ("x", "y")}
    return float(eval(case["F"], dict(NUMBERS, **point, __builtins__={})))


def cases() -> list[dict]:
    """The LP and QP cases with a known point."""
    path = os.environ.get("BLOMODEL_SUITE")
    if path is None:
        pytest.skip("BLOMODEL_SUITE does not name a file of cases")
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        case
        for case in found
        if case["lower_class"] in ("LP", "QP")
        and case.get("best_x") is not None
        and case["nx"]
        and not case.get("do_not_score")
    ]


@pytest.mark.slow
def test_value_and_bound_meet_the_best_known():
    warnings.simplefilter("ignore")
    missed, count = [], 0
    print(f"\n{'case':30} {'pairs':>5} {'value':>14} {'bound':>14} {'best known':>14} {'CPU s':>7}")
    for case in cases():
        problem = build(case)
        pairs = len(problem.model.lower_in)
        if pairs > MAX_PAIRS:
            continue
        count += 1
        known, began = best_known(case), time.process_time()
        value = problem.solve(method="kkt-mip", time_limit=SECONDS)
        bound = None if problem.certificate is None else problem.certificate.bound
        shown = np.nan if bound is None else bound
        print(
            f"{case['name']:30} {pairs:5d} {value:14.8g} {shown:14.8g} {known:14.8g} "
            f"{time.process_time() - began:7.2f}"
        )
        scale = 1 + abs(known)
        # A certified point below the best known value is no error of ours.
        is_as_good = value <= known + 1e-3 * scale and problem.certificate.accepted
        is_proved = bound is not None and abs(value - bound) <= 1e-5 * scale
        if not (is_as_good and is_proved and problem.status == "optimal"):
            missed.append(case["name"])
    print(f"{count} cases, {count - len(missed)} proved")
    assert not missed
