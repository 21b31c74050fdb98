"""What ``explain()`` takes, in seconds, for models of growing size on an idle machine.

    python tests/benchmarks/explaining.py

The performance page shows the table.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import cvxpy as cp  # noqa: E402
import numpy as np  # noqa: E402
from growth_models import FAMILIES, make  # noqa: E402

import blomodel as bm  # noqa: E402


def customers(count: int) -> bm.BilevelProblem:
    """Prices of three products; each customer is a follower with a quadratic program."""
    draw = np.random.default_rng(1)
    price, followers, revenue = cp.Variable(3, name="price"), [], 0
    for k in range(count):
        bought = cp.Variable(3, name=f"bought{k}")
        loss = cp.sum_squares(bought) / 2 + (price - draw.uniform(1, 5, 3)) @ bought
        rows = [bought >= 0, cp.sum(bought) <= 2]
        followers.append(bm.Lower(cp.Minimize(loss), rows, variables=[bought], name=f"customer {k}"))
        revenue = revenue + price @ bought
    return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 5], followers)


def weighted_ridge(samples: int, features: int) -> bm.BilevelProblem:
    """A weight for each feature of a ridge regression."""
    draw = np.random.default_rng(0)
    x, w = cp.Variable(features, name="x"), cp.Variable(features, name="w")
    A, a = draw.standard_normal((samples, features)), draw.standard_normal(samples)
    B, b = draw.standard_normal((samples // 4, features)), draw.standard_normal(samples // 4)
    fit = cp.sum_squares(A @ w - a) / samples + cp.exp(x) @ cp.square(w)
    lower = bm.Lower(cp.Minimize(fit), variables=[w])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ w - b) / len(b)), [-8 <= x, x <= 3], lower)


def tasks(count: int, size: int) -> bm.BilevelProblem:
    """A common start for many ridge regressions, each a follower."""
    draw = np.random.default_rng(2)
    start, followers, error = cp.Variable(size, name="start"), [], 0
    for k in range(count):
        A, B = draw.standard_normal((2, 20, size))
        a, b = draw.standard_normal((2, 20))
        w = cp.Variable(size, name=f"w{k}")
        fit = cp.sum_squares(A @ w - a) / 20 + cp.sum_squares(w - start) / 2
        followers.append(bm.Lower(cp.Minimize(fit), variables=[w], name=f"task {k}"))
        error = error + cp.sum_squares(B @ w - b) / 20
    return bm.BilevelProblem(cp.Minimize(error / count), [-5 <= start, start <= 5], followers)


MODELS: dict[str, Callable[[], bm.BilevelProblem]] = {
    "customers as followers, 100": lambda: customers(100),
    "customers as followers, 1,000": lambda: customers(1000),
    "meta ridge, 50 tasks of 30 weights": lambda: tasks(50, 30),
    "ridge, 10,000 samples, 1,000 features": lambda: weighted_ridge(10_000, 1000),
    **{
        f"{name}, {family.sizes[-1]} {family.unit}": lambda n=name, f=family: make(  # type: ignore[misc]
            n, f.sizes[-1]
        ).problem()
        for name, family in FAMILIES.items()
    },
}


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    customers(3).explain()  # loads what every first call loads
    for name, state in MODELS.items():
        problem = state()
        began = time.perf_counter()
        problem.explain()
        print(f"{name:45s} {time.perf_counter() - began:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
