"""The cache of compiled kernels on disk, seen from other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from blomodel.kernels import jit

SCRIPT = """
import time
import numpy as np
from blomodel.kernels import jit, machine
jit.announce_compilation(lambda: print("compiling"))
begin = time.process_time()  # other work on the machine does not count
code = np.zeros((1, machine.WIDTH), dtype=np.uint64)
code[0, :4] = machine.EXP, 1, 1, 0
workspace = np.zeros(2)
machine.run(code, np.zeros(1, dtype=np.uint64), workspace, 0, 1)
assert workspace[1] == 1.0
hits, misses = machine.run.stats.cache_hits, machine.run.stats.cache_misses
print("hits", sum(hits.values()), "misses", sum(misses.values()))
print("seconds", time.process_time() - begin)
"""


def in_another_process(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_second_process_finds_the_machine_in_the_cache() -> None:
    in_another_process()  # compiles if need be
    *lines, seconds = in_another_process()
    assert lines == ["hits 1 misses 0"]  # and no announcement
    assert float(seconds.split()[1]) < 2.0  # compiling takes several times as long


def test_cached_code_is_loaded_without_what_a_compilation_needs() -> None:
    in_another_process()  # compiles if need be
    script = SCRIPT + "import sys; print('numba.np.npyimpl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
def test_compilation_is_announced_once_and_cached(tmp_path: Path) -> None:
    first = in_another_process(NUMBA_CACHE_DIR=str(tmp_path))
    assert first[:2] == ["compiling", "hits 0 misses 1"]
    second = in_another_process(NUMBA_CACHE_DIR=str(tmp_path))
    assert second[0] == "hits 1 misses 0"


def test_an_edited_kernel_discards_the_cache(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "loops" / "__pycache__").mkdir(parents=True)
    source = tmp_path / "machine.py"
    source.write_text("")
    cached = [tmp_path / "__pycache__" / "machine.nbi", tmp_path / "loops/__pycache__/loop.nbc"]
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))

    def fill_and_check() -> bool:
        for file in cached:
            file.write_text("")
        jit._discard_stale_cache()
        return any(file.exists() for file in cached)

    assert not fill_and_check()  # never seen before
    assert fill_and_check()  # unchanged: everything is kept
    os.utime(source, ns=(1, 1))
    assert not fill_and_check()


def test_a_division_by_zero_is_infinite() -> None:
    # Flags are set in one place; this one decides whether kernels raise.
    assert jit._FLAGS["error_model"] == "numpy"
    assert not jit._FLAGS["fastmath"]
