"""Check that every link within the built pages leads somewhere: ``python check_links.py FOLDER``.

Links to other sites are not followed, so no network is needed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESSES = {"href", "src"}


class Page(HTMLParser):
    """The links of a page, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value and name in ADDRESSES:
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.places.add(value)


def broken_links(folder: Path) -> list[str]:
    """Links that lead nowhere, each with its page."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            misses_place = target in pages and place and place not in pages[target].places
            if not target.exists() or misses_place:
                broken.append(f"{path.relative_to(folder)}: {link}")
    return broken


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    broken = broken_links(folder)
    print("\n".join(broken) or f"every link within {folder.name} leads somewhere")
    sys.exit(bool(broken))
