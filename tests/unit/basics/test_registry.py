"""A registry imports the file of the entry that is asked for, and the others only where it must."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import sys
from blomodel.methods.run.registry import METHODS
assert {name!r} in METHODS
print(METHODS.own_name({name!r}), METHODS[{name!r}].__name__, "blomodel.methods.galet" in sys.modules)
print(len(list(METHODS)) > 20, "blomodel.methods.galet" in sys.modules)
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("auto", "auto Auto False"),
        ("value-cuts", "value-cuts ValueCuts False"),
        ("bamm", "bamm Bamm True"),  # no file is called so
    ],
)
def test_only_the_file_of_the_entry_is_imported(name: str, found: str) -> None:
    done = subprocess.run([sys.executable, "-c", ASK.format(name=name)], capture_output=True, text=True)
    assert done.stdout.splitlines() == [found, "True True"], done.stderr
