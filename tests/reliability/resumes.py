"""Runs that are stopped, saved, and resumed in another process: are they the same bit by bit?

Each compiled method runs 2K iterations at once, and K iterations whose run is saved. Another process
reads the files and does the other K. Points, values and iterates are compared as bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent / "unit" / "solve"

RESUMING = """
import sys, json, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{tests!r}, {here!r}]
from resumes import cases
from test_resuming import digits
found = {{}}
for name, make, few in cases():
    problem = make()
    problem.solve(resume="{folder}/" + name.replace(", ", "-") + ".json", max_iterations=few)
    found[name] = b"".join(digits(problem.solution)).hex()
print(json.dumps(found))
"""


def cases() -> list[tuple[str, Any, int]]:
    """Names, problems and iterations before and after the stop."""
    from test_resuming import FEW, METHODS, WITH_ROWS, stated

    return [
        (name, lambda name=name: stated(name in WITH_ROWS), 1 if name == "gam" else FEW)
        for name in METHODS
    ]


def measure() -> dict[str, Any]:
    """How many methods go on bit by bit, how many damaged files are refused."""
    sys.path.append(str(TESTS))
    warnings.simplefilter("ignore")
    import test_resuming as tests

    from blomodel.errors import BlomodelError

    whole: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make, few in cases():
            method, settings = name.split(",")[0], tests.METHODS[name]
            problem = make()
            problem.solve(method, max_iterations=2 * few, **settings)
            whole[name] = b"".join(tests.digits(problem.solution)).hex()
            problem = make()
            problem.solve(method, max_iterations=few, **settings)
            path = problem.solution.save(Path(folder) / (name.replace(", ", "-") + ".json"))
        code = RESUMING.format(tests=str(TESTS), here=str(HERE), folder=folder)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        resumed = json.loads(done.stdout.splitlines()[-1])
        problem = make()
        refused = accepted = 0
        for text in tests.damaged(path.read_text()).values():
            other = Path(folder) / "damaged.json"
            other.write_text(text)
            try:
                problem.solve(resume=other)
                accepted += 1
            except BlomodelError:
                refused += 1
    same = [name for name in whole if whole[name] == resumed[name]]
    return {
        "methods and variants": len(whole),
        "bit-identical in another process": len(same),
        "different": sorted(set(whole) - set(same)),
        "damaged files refused": refused,
        "damaged files accepted": accepted,
    }
