"""A text file line by line, and complaints that name the line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from blomodel.errors import FileFormatError

INFINITE = 1e20  # numbers of this size stand for infinity, as in all solvers that read such files


@dataclass(frozen=True)
class Line:
    """One line that is neither empty nor a comment."""

    path: Path
    number: int
    text: str

    @property
    def words(self) -> list[str]:
        """What stands in it, between blanks."""
        return self.text.split()

    def refuse(self, what: str) -> NoReturn:
        """Say what is wrong with the line."""
        raise FileFormatError(f"{self.path}, line {self.number}: {what} ({self.text.strip()[:60]!r}).")

    def value(self, word: str) -> float:
        """A number; those beyond 1e20 are infinite."""
        try:
            number = float(word)
        except ValueError:
            self.refuse(f"{word!r} is no number")
        if number != number:
            self.refuse("NaN is no number to compute with")
        if abs(number) >= INFINITE:
            return float("inf") if number > 0 else float("-inf")
        return number

    def finite(self, word: str) -> float:
        """A number that is finite."""
        number = self.value(word)
        if abs(number) == float("inf"):
            self.refuse(f"{word!r} is not finite")
        return number


def read_lines(path: Path, comment: str) -> Iterator[Line]:
    """The lines of a file without comments and empty ones."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith(comment):
            yield Line(path, number, line)
