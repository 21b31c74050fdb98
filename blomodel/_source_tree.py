"""In a source tree the kernels lie beside the package and not inside it, as they do once installed.

Importing blomodel from the root of the tree must work all the same.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path


def _load_kernels() -> None:
    folder = Path(__file__).resolve().parent.parent / "kernels"
    spec = spec_from_file_location(
        "blomodel.kernels", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if not (folder / "machine.py").is_file() or spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


if find_spec("blomodel.kernels") is None:
    _load_kernels()
