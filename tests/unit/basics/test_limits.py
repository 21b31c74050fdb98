"""Limits of size: one table, with units and reasons, and no such constant anywhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from blomodel.basics.limits import LIMITS, Limit

LIBRARY = Path(__file__).resolve().parents[3] / "blomodel"
# Constants that decide by size which way is taken are called so.
OF_SIZE = re.compile(r"^_?(MAX|LARGE|LARGEST|DENSE|MANY|FEW|SMALL|DEAR)(_|$)|_(LIMIT|DENSE|LARGE)$")
# Numbers of repetitions, of things kept or shown, and tolerances are no sizes of a problem.
OTHER = re.compile(
    r"_(STEPS|ROUNDS|SWEEPS|ITERATIONS|PRODUCTS|HALVINGS|MISSES|TANGENTS|CORNERS|STARTS|NEWTON_STEPS|"
    r"DIRECTIONS|NODES|CERTIFIED|TAKEN|KNOWN|SHOWN|ROWS|ENTRIES|LOOKED_AT|SLOPE|CHANGE|GAP)$"
)
# Numbers that stand for "too large" or "too small" in computations.
NUMERICAL = {
    ("model/local_search.py", "LARGE"),
    ("solvers/branching/scip.py", "LARGE"),
    ("methods/pbgd_free.py", "LARGE"),
    ("methods/first_order/constants.py", "SMALL"),
    ("certification/below/lower_check.py", "SMALL"),
    ("reformulations/value_function.py", "LARGE"),
    ("reformulations/forms/interval_kkt.py", "LARGEST"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_has_a_unit_and_a_reason(name):
    limit = LIMITS[name]
    assert isinstance(limit.value, int) and limit.value > 0
    assert limit.unit and limit.reason.startswith(("beyond it, ", "up to it, "))
    assert limit.allows(limit.value) and not limit.allows(limit.value + 1)


def test_every_limit_is_used():
    texts = [path.read_text(encoding="utf-8") for path in LIBRARY.rglob("*.py")]
    used = set(re.findall(r"\blimits\.([A-Z_]+)\b", "\n".join(texts)))
    assert used == set(LIMITS)


def test_no_limit_of_size_is_defined_elsewhere():
    strays = []
    for path in LIBRARY.rglob("*.py"):
        place = path.relative_to(LIBRARY).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                name = target.id if isinstance(target, ast.Name) else ""
                is_size = OF_SIZE.search(name) and not OTHER.search(name)
                if is_size and (place, name) not in NUMERICAL and place != "basics/limits.py":
                    strays.append(f"{place}: {name}")
    assert not strays, f"move these to basics/limits.py, with a unit and a reason: {strays}"


def test_a_limit_as_text():
    assert str(Limit(4_000, "entries", "beyond it, more")) == "4,000 entries"
