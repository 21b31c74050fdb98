"""The methods by name: what each needs, assumes and claims, and its settings with their meaning."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from typing import Any, ClassVar, Protocol

from blomodel.basics.registry import Registry
from blomodel.errors import UnknownMethodError
from blomodel.methods.run.run import Run
from blomodel.methods.run.settings import check_declaration, other_names, resolve, setting

__all__ = ["METHODS", "Method", "create_method", "method", "method_classes", "methods", "setting"]


class Method(Protocol):
    """A dataclass whose fields are the settings and whose ``run`` does the work."""

    name: ClassVar[str]
    summary: ClassVar[str]
    assumes: ClassVar[str]
    claims: ClassVar[str]
    reference: ClassVar[str]

    def run(self, run: Run) -> None:
        """Leave candidates (and a bound, if any) in ``run``."""


# Classes that follow the protocol Method; those of the portfolio use the others, and lie above them.
METHODS: Registry[Any] = Registry(
    "method", ("blomodel.methods", "blomodel.methods.portfolio"), UnknownMethodError
)


def method(cls: Any) -> Any:
    """Class decorator: register a method under its ``name``, its settings checked."""
    check_declaration(cls)
    METHODS.add(cls.name, cls)
    return cls


def method_classes() -> dict[str, Any]:
    """The registered classes by name."""
    return dict(METHODS.items())


def create_method(name: str, settings: dict[str, Any]) -> Method:
    """A method with the user's settings, given by any of their names, checked."""
    cls = METHODS[name]
    made: Method = cls(**resolve(cls, settings))
    return made


@dataclasses.dataclass(frozen=True)
class MethodInfo:
    """A registry entry for reading; ``print`` it to see the settings.

    Attributes
    ----------
    settings : dict
        Default and meaning of each setting.
    aliases : dict
        The further names by which each setting may be given.
    """

    name: str
    summary: str
    assumes: str
    claims: str
    reference: str
    settings: dict[str, tuple[Any, str]]
    aliases: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.summary}", *self.setting_lines()]
        return "\n  ".join(lines)

    def setting_lines(self) -> list[str]:
        """Each setting in a line: name, default, meaning, and further names if it has any."""
        lines = []
        for name, (default, meaning) in self.settings.items():
            also = f" (also {', '.join(self.aliases[name])})" if self.aliases[name] else ""
            lines.append(f"{name} = {default!r}: {meaning}{also}")
        return lines


class MethodList(list[MethodInfo]):
    """A list whose text is a table."""

    def __str__(self) -> str:
        widths = {"name": 18, "assumes": 34, "claims": 34, "reference": 34}
        lines = [_columns([[word] for word in widths], widths)]
        lines.append(_columns([["-" * width] for width in widths.values()], widths))
        for info in self:
            wrapped = [textwrap.wrap(getattr(info, word), width) for word, width in widths.items()]
            lines.append(_columns(wrapped, widths))
        return "\n".join(lines)


def _columns(cells: list[list[str]], widths: dict[str, int]) -> str:
    rows = itertools.zip_longest(*cells, fillvalue="")
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(row, widths.values(), strict=True)).rstrip()
        for row in rows
    )


def methods() -> MethodList:
    """Describe every method that ``solve(method=...)`` accepts."""
    return MethodList(
        MethodInfo(
            cls.name,
            cls.summary,
            cls.assumes,
            cls.claims,
            cls.reference,
            {f.name: (f.default, f.metadata["meaning"]) for f in dataclasses.fields(cls)},
            {f.name: other_names(f) for f in dataclasses.fields(cls)},
        )
        for _, cls in METHODS.items()
    )
