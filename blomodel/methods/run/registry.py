"""The methods by name: what each takes, needs, assumes and claims, and what its settings mean."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, overload

from blomodel.basics.registry import Registry
from blomodel.errors import IncompleteMethodError, UnknownMethodError
from blomodel.methods.run.capabilities import Assumption, Capability, Extra, words
from blomodel.methods.run.run import Run
from blomodel.methods.run.settings import check_settings, other_names, resolve, setting, words_of

__all__ = ["METHODS", "Method", "create_method", "method", "method_classes", "methods", "setting"]

Need = Callable[[Run, Any], object]  # given the run and the method; raises ModelError


class Method(Protocol):
    """A dataclass whose fields are the settings and whose ``run`` does the work.

    Whether it takes a problem is asked before ``run`` is called, of what the class declares; ``run``
    itself need not ask again.

    Attributes
    ----------
    name, summary, assumes, claims, reference : str
        For people: what it is called and does, what its theory supposes, what its answer is worth,
        where it comes from.
    costs : str
        What one step of it takes.
    capabilities : frozenset of Capability
        What it takes beyond a smooth convex lower level without constraints.
    assumptions : frozenset of Assumption
        What of its theory can be checked; where it does not hold, ``explain()`` cautions.
    needs : tuple of functions
        Checks that are finer than capabilities.
    packages : tuple of Extra, optional
        Packages that do not come with every installation.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    assumes: ClassVar[str]
    costs: ClassVar[str]
    claims: ClassVar[str]
    reference: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]]
    assumptions: ClassVar[frozenset[Assumption]]
    needs: ClassVar[tuple[Need, ...]]
    packages: ClassVar[tuple[Extra, ...]] = ()

    def run(self, run: Run) -> None:
        """Leave candidates (and a bound, if any) in ``run``."""


# What a class must declare, each with an example of how.
REQUIRED: dict[str, tuple[type, str]] = {
    "name": (str, '"coordinate-search"'),
    "summary": (str, '"steps along the axes of x, ever shorter"'),
    "assumes": (str, '"a lower level that can be solved at fixed x"'),
    "costs": (str, '"one lower solve for each trial point"'),
    "claims": (str, '"a point that no step along an axis improves"'),
    "reference": (str, '"Hooke and Jeeves (1961)"'),
    "capabilities": (frozenset, "frozenset({Capability.COUPLED_LOWER}), EVERYTHING or NOTHING_SPECIAL"),
    "assumptions": (frozenset, "frozenset(), or of members of Assumption"),
    "needs": (tuple, "(), or checks such as needs.projections"),
}

# Classes that follow the protocol Method; those of the portfolio use the others, and lie above them.
METHODS: Registry[Any] = Registry(
    "method", ("blomodel.methods", "blomodel.methods.portfolio"), UnknownMethodError
)


def method(cls: Any) -> Any:
    """Class decorator: register a method under its ``name``, its settings checked.

    Raises
    ------
    IncompleteMethodError
        When the class does not declare all of ``REQUIRED``, or is no dataclass with a ``run``.
    """
    _check_declaration(cls)
    check_settings(cls)
    if not hasattr(cls, "packages"):
        cls.packages = ()
    METHODS.add(cls.name, cls)
    return cls


def _check_declaration(cls: Any) -> None:
    missing = [
        f"{name}: ClassVar = {example}"
        for name, (kind, example) in REQUIRED.items()
        if not isinstance(getattr(cls, name, None), kind)
    ]
    if not callable(getattr(cls, "run", None)):
        missing.append("def run(self, run: Run) -> None, which does the work")
    if not dataclasses.is_dataclass(cls):
        missing.append(
            "@dataclass(frozen=True, kw_only=True) below @method, so that fields are settings"
        )
    if missing:
        raise IncompleteMethodError(
            f"The method class {cls.__name__} does not declare all that a method must; add\n  "
            + "\n  ".join(missing)
        )


def method_classes() -> dict[str, Any]:
    """The registered classes by name."""
    return dict(METHODS.items())


def create_method(name: str, settings: dict[str, Any]) -> Method:
    """A method with the user's settings, given by any of their names, checked."""
    cls = METHODS[name]
    made: Method = cls(**resolve(cls, settings, owners_of))
    return made


def owners_of(word: str) -> list[str]:
    """The methods that have a setting of this name."""
    return [name for name, cls in METHODS.items() if word in words_of(cls)]


@dataclasses.dataclass(frozen=True)
class MethodInfo:
    """A registry entry for reading; ``print`` it to see the settings.

    See ``Method`` for what the other fields mean.

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
    costs: str
    capabilities: frozenset[Capability]
    assumptions: frozenset[Assumption]
    packages: tuple[Extra, ...]
    aliases: dict[str, tuple[str, ...]]

    @property
    def takes(self) -> str:
        """The capabilities in words."""
        return words(self.capabilities, self.assumptions)

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
        widths = {"name": 18, "takes": 34, "assumes": 34, "claims": 34, "reference": 34}
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


@overload
def methods(name: None = None) -> MethodList: ...


@overload
def methods(name: str) -> MethodInfo: ...


def methods(name: str | None = None) -> MethodList | MethodInfo:
    """Describe every method that ``solve(method=...)`` accepts, or the one of this name."""
    if name is not None:
        return _describe(METHODS[name])
    return MethodList(_describe(cls) for _, cls in METHODS.items())


def _describe(cls: Any) -> MethodInfo:
    return MethodInfo(
        cls.name,
        cls.summary,
        cls.assumes,
        cls.claims,
        cls.reference,
        {f.name: (f.default, f.metadata["meaning"]) for f in dataclasses.fields(cls)},
        cls.costs,
        cls.capabilities,
        cls.assumptions,
        cls.packages,
        {f.name: other_names(f) for f in dataclasses.fields(cls)},
    )
