"""``python -m examples.reproduce.fill RESULTS``: put tables and times from a run into the pages.

The results are the file that ``python -m examples.reproduce all --json RESULTS`` writes. A page has a
place ``<!-- made: NAME -->`` ... ``<!-- end -->`` for each table that is made without data files.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
PLACE = re.compile(r"(<!-- made: ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
TIMES = "times"  # the place of the times of all parts


def filled(page: str, results: Mapping[str, Any]) -> str:
    """The page with what was made in its places; others are left as they are."""

    def put(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        if name == TIMES:
            return f"{begin}{times(results)}\n\n{end}"
        part = results["parts"].get(name)
        if part is None or part["error"]:
            return found.group()
        return f"{begin}{made(part)}\n\n{end}"

    return PLACE.sub(put, page)


def made(part: Mapping[str, Any]) -> str:
    """Title, processor time and table."""
    lines = [part["headings"], ["---"] * len(part["headings"]), *part["rows"]]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{part['title']}; made in {part['cpu_seconds']:.0f} CPU seconds.\n\n{table}"


def times(results: Mapping[str, Any]) -> str:
    """How long all parts took together, and each of them."""
    parts = results["parts"]
    failed = [name for name, part in parts.items() if part["error"]]
    load = results["load_of_15_minutes"]
    words = (
        f"{len(parts)} parts, {len(failed)} of them failed: {results['seconds'] / 60:.1f} minutes by "
        f"the clock on {results['cores']} cores, {results['cpu_seconds']:.0f} CPU seconds"
    )
    words += "." if load is None else f"; mean load of the last 15 minutes at the end: {load:.1f}."
    cells = [f"`{name}` {part['cpu_seconds'] or 0:.0f}" for name, part in parts.items()]
    return f"{words} CPU seconds of each: {', '.join(cells)}."


def main() -> None:
    """Fill every page."""
    parser = argparse.ArgumentParser(prog="python -m examples.reproduce.fill", description=__doc__)
    parser.add_argument("results", type=Path)
    results = json.loads(parser.parse_args().results.read_text(encoding="utf-8"))
    for path in (DOCS / "reproduce.md", *sorted((DOCS / "reproduce").glob("*.md"))):
        page = path.read_text(encoding="utf-8")
        other = filled(page, results)
        if other != page:
            path.write_text(other, encoding="utf-8")
            print(f"filled {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
