"""Every method leads to the work that it follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import blomodel as bm

SPHINX = Path(__file__).resolve().parents[2] / "docs" / "_sphinx"


@pytest.fixture
def bibliography(monkeypatch):
    monkeypatch.syspath_prepend(str(SPHINX))
    import bibliography

    return bibliography


def test_every_year_that_a_method_cites_is_in_the_bibliography(bibliography):
    for info in bm.methods():
        linked = bibliography.with_links(info.reference)
        without = re.sub(r"\{ref\}`[^`]*`", "", linked)
        assert not re.search(r"\((19|20)\d\d\)", without), (info.name, without)


def test_no_two_works_have_one_place(bibliography):
    keys = [work.key for works in bibliography.groups().values() for work in works]
    assert len(set(keys)) == len(keys) > 30
