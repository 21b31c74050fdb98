"""The works that the library builds on: the page that lists them, and links to it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

WORKS = Path(__file__).resolve().parents[1] / "works.json"


@dataclass(frozen=True)
class Work:
    """One work: how it is cited, what it is, and where it can be found."""

    cited: str
    title: str
    where: str
    link: str = ""

    @property
    def key(self) -> str:
        """The name of its place on the page."""
        return "work-" + re.sub(r"[^a-z0-9]+", "-", self.cited.lower()).strip("-")

    @property
    def line(self) -> str:
        """Its entry."""
        found = f" [{self.link.removeprefix('https://')}]({self.link})" if self.link else ""
        return f"({self.key})=\n**{self.cited}.** {self.title}. {self.where}.{found}"


def groups() -> dict[str, list[Work]]:
    """The works of each part of the page."""
    known = json.loads(WORKS.read_text(encoding="utf-8"))
    return {group: [Work(**work) for work in works] for group, works in known.items()}


def works(group: str) -> str:
    """The entries of one part of the page."""
    return "\n\n".join(work.line for work in groups()[group])


def with_links(reference: str) -> str:
    """A reference in which each work leads to its entry."""
    for work in sum(groups().values(), []):
        reference = reference.replace(work.cited, f"{{ref}}`{work.cited} <{work.key}>`")
    return reference
