"""A table of results that prints itself as Markdown, with the pictures that belong to it."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

DOTS = 80  # per inch: a page shows a picture at this size
COLOURS = 96  # of a saved picture, which keeps it below 60 kB


@dataclass
class Table:
    """Rows of text under headings, with remarks below; ``figures`` keeps the numbers for tests."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    figures: dict = field(default_factory=dict)
    picture: Figure | None = None

    def add(self, *cells: object) -> None:
        """One more row; it must have a cell for each heading."""
        if len(cells) != len(self.headings):
            raise ValueError(f"{len(cells)} cells for {len(self.headings)} headings: {cells}")
        self.rows.append(tuple(str(cell) for cell in cells))
        print("  ".join(self.rows[-1]), file=sys.stderr, flush=True)  # some rows take minutes

    def __str__(self) -> str:
        lines = [self.headings, ("---",) * len(self.headings), *self.rows]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n".join([f"### {self.title}", "", table, *("\n" + remark for remark in self.remarks)])

    def save(self, path: Path) -> bool:
        """Write the picture as a small PNG file; False where there is none."""
        if self.picture is None:
            return False
        from PIL import Image  # comes with matplotlib

        drawn = io.BytesIO()
        self.picture.savefig(drawn, dpi=DOTS, format="png")
        few = Image.open(drawn).convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
        few.save(path, optimize=True)  # this way of choosing keeps colours that are rare
        return True


class Clock:
    """Seconds of processor time of a block of code."""

    seconds = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Measure the block: ``with timed() as clock: ...`` and then ``clock.seconds``.

    Processor time, because a solve runs on one core and other work on the machine should not count.
    """
    clock, began = Clock(), time.process_time()
    try:
        yield clock
    finally:
        clock.seconds = time.process_time() - began
