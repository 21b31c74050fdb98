"""Settings shared by all tests: which package is tested, threads, seeds."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# `python -m pytest` puts the source folder first on the path. There `blomodel` has no `kernels`
# beside it (they are installed from a folder of their own), so the tests must see the installed
# package.
# The same holds for the processes that tests start: safe path keeps their working folder out.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
os.environ["PYTHONSAFEPATH"] = "1"

# What several test files share: tables of atoms, small problems with known gradients.
sys.path.append(str(ROOT / "tests" / "support"))
sys.path.append(str(ROOT / "examples"))  # for what the reproductions measure

# Small matrices gain nothing from threads, and sums in a fixed order give the same digits every
# time. This has to be set before NumPy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# A shell lets what it starts in the background ignore Ctrl-C, which some tests send to themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402

# The same examples in every run, and no time limit on the first one, which may load compiled code.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Several processes where all tests are run; one where some are named, shown or measured."""
    is_named = any(
        not argument.startswith("-") and Path(argument.split("::")[0]).exists()
        for argument in config.invocation_params.args
    )
    is_measured = config.option.markexpr == "benchmark" or config.option.capture == "no"
    return 0 if is_named or is_measured else min(os.cpu_count() or 1, 4)


# Files that take longest: one that began last would leave the other processes without work. The first
# has the loops of all methods compiled, where that is due; while it does, those that need none of them
# come, so that no loop is compiled by two processes.
LONG = (
    "contracts/test_methods.py",
    "fuzz/test_fuzz.py",
    "regression/test_hostile_claims.py",
    "unit/certification/below/test_hidden_slopes.py",
    "unit/basics/test_just_above_limits.py",
    "regression/test_integer_problems.py",
    "regression/test_hostile_statuses.py",
    "examples/test_pages.py",
    "unit/solve/test_explain.py",
    "examples/test_reproduce.py",
    "unit/methods/test_edge_of_answers.py",
    "unit/methods/first_order/test_batches.py",
    "contracts/test_solver_trouble.py",
    "contracts/test_settings.py",
    "unit/solve/test_solve.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the others as they are."""
    ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep half a million objects of modules and tests out of every garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Say which copy of the package is under test."""
    import blomodel

    return f"blomodel: {getattr(blomodel, '__version__', '?')} from {Path(blomodel.__file__).parent}"


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def light_heap() -> None:
    """Keep what other tests left behind out of garbage collections, which else make long pauses."""
    gc.collect()
    gc.freeze()
