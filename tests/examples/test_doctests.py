"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import blomodel.kernels
import pytest

import blomodel

# an editable install keeps the kernels outside the package's own folder, so they are listed apart
MODULES = sorted(
    {
        module.name
        for package in (blomodel, blomodel.kernels)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    }
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0
