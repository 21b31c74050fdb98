"""The methods by name: what each needs, assumes and claims, and its settings with their meaning."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from typing import Any, ClassVar, Protocol

from blomodel.basics.registry import Registry, nearest
from blomodel.errors import UnknownMethodError, UnknownSettingError
from blomodel.methods.run.run import Run


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


def setting(default: Any, meaning: str, *, minimum: float | None = None) -> Any:
    """Declare a dataclass field as a setting of a method."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "minimum": minimum})


def method(cls: Any) -> Any:
    """Class decorator: register a method under its ``name``."""
    METHODS.add(cls.name, cls)
    return cls


def method_classes() -> dict[str, Any]:
    """The registered classes by name."""
    return dict(METHODS.items())


def create_method(name: str, settings: dict[str, Any]) -> Method:
    """A method with the user's settings, checked."""
    cls = METHODS[name]
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key, value in settings.items():
        if key not in fields:
            if not fields:
                raise UnknownSettingError(f"{name} has no settings, so {key!r} cannot be set.")
            raise UnknownSettingError(
                f"{name} has no setting {key!r}; did you mean {nearest(key, list(fields))!r}? "
                f"Settings of {name}: {', '.join(fields)}."
            )
        minimum = fields[key].metadata.get("minimum")
        if minimum is not None and value is not None and not value >= minimum:
            raise UnknownSettingError(
                f"{name}: {key} = {value!r} is too small; it must be at least {minimum}."
            )
    return cls(**settings)


@dataclasses.dataclass(frozen=True)
class MethodInfo:
    """A registry entry for reading."""

    name: str
    summary: str
    assumes: str
    claims: str
    reference: str
    settings: dict[str, tuple[Any, str]]


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
        )
        for _, cls in METHODS.items()
    )
