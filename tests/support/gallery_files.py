"""The examples of the gallery: a folder for each group, reproduce/ apart."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GROUPS = sorted(path.parent for path in (ROOT / "examples").glob("*/GALLERY_HEADER.rst"))
SCRIPTS = sorted(path for group in GROUPS for path in group.glob("*.py"))


def quick(*names: str) -> pytest.MarkDecorator:
    """One test for each example; those not named are slow (the building of the pages runs all)."""
    return pytest.mark.parametrize(
        "script",
        [
            pytest.param(path, id=path.stem, marks=[] if path.stem in names else pytest.mark.slow)
            for path in SCRIPTS
        ],
    )
