"""Things by name that find their files: a folder is imported when a name is first asked for."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from blomodel.errors import BlomodelError

Entry = TypeVar("Entry")

ALIKE = 0.6  # share of common letters from which one word may be meant by another

_REGISTRIES: list[Registry[Any]] = []  # all that there are


class Registry(Generic[Entry]):
    """Entries by the name that they carry.

    Parameters
    ----------
    word : str
        What an entry is called in messages, such as "method".
    packages : sequence of str
        Folders whose modules register entries when they are imported. They are named, not imported,
        so that a registry can lie below what it lists.
    error : type
        Raised for a name that nothing is registered under.
    """

    word: str
    packages: tuple[str, ...]
    error: type[BlomodelError]

    def __init__(self, word: str, packages: tuple[str, ...], error: type[BlomodelError]) -> None:
        self.word, self.packages, self.error = word, packages, error
        self._entries: dict[str, Entry] = {}
        self._is_complete = False
        _REGISTRIES.append(self)

    def add(self, name: str, entry: Entry) -> None:
        """Register an entry; the same name again replaces it, as when a notebook cell runs twice."""
        self._entries[name] = entry

    def register(self, name: str) -> Callable[[Any], Any]:
        """Class decorator: register the class under a name."""

        def decorate(entry: Any) -> Any:
            self.add(name, entry)
            return entry

        return decorate

    def remove(self, name: str) -> None:
        """Forget an entry."""
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        self._look_for(name)
        return name in self._entries

    def __getitem__(self, name: str) -> Entry:
        return self._entries[self.own_name(name)]

    def own_name(self, name: object) -> str:
        """The name that an entry is registered under, given in any case and with any dashes."""
        self._look_for(name)
        if isinstance(name, str):
            if name in self._entries:
                return name
            for known in self._entries:
                if plain_word(known) == plain_word(name):
                    return known
        known_names = sorted(self._entries)
        raise self.error(
            f"There is no {self.word} {name!r}{did_you_mean(name, known_names)} "
            f"Known {self.word}s: {', '.join(known_names)}."
        )

    def items(self) -> list[tuple[str, Entry]]:
        """Names and entries, in the order of the names."""
        return [(name, self._entries[name]) for name in self]

    def _look_for(self, name: object) -> None:
        """Import the file that is called like an entry, and all files only where that is not enough.

        Importing all of them is a good part of what a first solve would take.
        """
        if isinstance(name, str) and name not in self._entries and not self._is_complete:
            file = name.lower().replace("-", "_")
            for package in self.packages:
                folder = importlib.import_module(package)
                if any(module.name == file for module in pkgutil.iter_modules(folder.__path__)):
                    importlib.import_module(f"{package}.{file}")
        if not (isinstance(name, str) and name in self._entries):
            self._complete()

    def _complete(self) -> None:
        if self._is_complete:
            return
        self._is_complete = True  # first, since the modules may ask the registry themselves
        for package in self.packages:
            folder = importlib.import_module(package)
            for module in pkgutil.iter_modules(folder.__path__):
                importlib.import_module(f"{package}.{module.name}")


@contextmanager
def kept_registries() -> Iterator[None]:
    """Undo on leaving what was registered inside, for trials and tests."""
    for registry in _REGISTRIES:
        registry._complete()
    saved = [(registry, dict(registry._entries)) for registry in _REGISTRIES]
    try:
        yield
    finally:
        for registry, entries in saved:
            registry._entries = entries


def plain_word(word: str) -> str:
    """A name without what people write in different ways: case, dashes, underscores, spaces."""
    return word.lower().replace("-", "").replace("_", "").replace(" ", "")


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that looks like the given one; None where none does."""
    by_plain = {plain_word(name): name for name in known}
    found = difflib.get_close_matches(plain_word(str(word)), by_plain, n=1, cutoff=ALIKE)
    return by_plain[found[0]] if found else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: a suggestion where one is near, else a full stop."""
    like = nearest(word, known)
    return "." if like is None else f"; did you mean {like!r}?"
