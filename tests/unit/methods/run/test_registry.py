"""A class that is registered as a method declares all that a method must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import blomodel as bm
from blomodel.basics.registry import kept_registries
from blomodel.errors import IncompleteMethodError
from blomodel.methods.run.capabilities import EVERYTHING
from blomodel.methods.run.registry import REQUIRED, method

DECLARED: dict[str, Any] = {
    "name": "complete",
    "summary": "does nothing",
    "assumes": "nothing",
    "costs": "nothing",
    "claims": "nothing",
    "reference": "none",
    "capabilities": EVERYTHING,
    "assumptions": frozenset(),
    "needs": (),
}


def declaring(**attributes: Any) -> Any:
    """A dataclass with a ``run`` and these class attributes."""
    body = {
        "__annotations__": {name: ClassVar[Any] for name in attributes},
        "run": lambda self, run: None,
        **attributes,
    }
    return dataclass(frozen=True, kw_only=True)(type("Example", (), body))


def test_a_complete_class_is_registered():
    with kept_registries():
        method(declaring(**DECLARED))
        info = next(info for info in bm.methods() if info.name == "complete")
    assert info.packages == ()
    assert info.takes


@pytest.mark.parametrize("forgotten", REQUIRED)
def test_what_is_forgotten_is_named(forgotten):
    rest = {name: value for name, value in DECLARED.items() if name != forgotten}
    with kept_registries(), pytest.raises(IncompleteMethodError) as refusal:
        method(declaring(**rest))
    lines = str(refusal.value).split("\n")
    assert "Example" in lines[0]
    assert [line.split(":")[0].strip() for line in lines[1:]] == [forgotten]


def test_all_that_is_forgotten_is_named_at_once():
    class Empty:
        pass

    with pytest.raises(IncompleteMethodError) as refusal:
        method(Empty)
    assert all(name in str(refusal.value) for name in (*REQUIRED, "run", "dataclass"))


def test_a_wrong_kind_counts_as_forgotten():
    with kept_registries(), pytest.raises(IncompleteMethodError, match="capabilities"):
        method(declaring(**DECLARED | {"capabilities": "everything"}))


def test_the_table_of_methods_says_what_they_take():
    text = str(bm.methods())
    assert "takes" in text.split("\n")[0]
    assert "upper constraints that contain y" in " ".join(text.split())
