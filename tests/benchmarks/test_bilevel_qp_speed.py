"""Random bilevel QPs: quality against the best known values, speed against CasADi with IPOPT.

Run alone:  pip install ".[test,bench]" && pytest -m benchmark -s tests/benchmarks
"""

import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from bilevel_qp import BEST_KNOWN, BilevelQP, solve_with_ipopt

NEAR = 1.001  # of the best value known


@pytest.mark.parametrize("n", [10, 50])
def test_quality_and_gap(n):
    instance = BilevelQP(n)
    problem, x, _ = instance.model()
    problem.solve()
    assert problem.certificate.accepted
    assert problem.certificate.lower_gap <= 1e-6
    assert "optimal" in problem.status
    assert instance.value(x.value) <= NEAR * BEST_KNOWN[n]


@pytest.mark.slow
def test_quality_and_gap_at_200():
    test_quality_and_gap(200)


@pytest.mark.benchmark
@pytest.mark.parametrize("n", [10, 50, 200])
def test_speed_against_ipopt(n):
    pytest.importorskip("casadi")
    BilevelQP(10, seed=1).model()[0].solve()  # loads what every first solve loads
    instance = BilevelQP(n)
    ours, solving, theirs, values = [], [], [], []
    for _ in range(3 if n < 200 else 1):
        problem, x, _ = instance.model()
        began = time.perf_counter()
        problem.solve()
        ours.append(time.perf_counter() - began)
        solving.append(problem.solution.solve_time)
        point, set_up, solve = solve_with_ipopt(instance)
        theirs.append((set_up, solve))
        values.append((instance.value(x.value), instance.value(point)))
    set_up, solve = min(theirs, key=sum)
    print(
        f"\nn = {n}: blomodel {min(ours):.3f} s in all, {min(solving):.3f} s of it solving, value "
        f"{values[-1][0]:.5g}; IPOPT {set_up:.3f} s set-up, {solve:.3f} s solving, value "
        f"{values[-1][1]:.5g}; IPOPT / blomodel: solving {solve / min(solving):.1f}, "
        f"in all {(set_up + solve) / min(ours):.1f}"
    )
    assert values[-1][0] <= NEAR * BEST_KNOWN[n]
    if n >= 50:
        # Compilation and certificate stand apart, as IPOPT's set-up does; it checks nothing.
        assert solve >= 3 * min(solving)
