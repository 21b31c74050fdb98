"""The page shows what was recorded, and nothing else."""

import importlib.util
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"


def test_the_page_shows_what_was_recorded():
    spec = importlib.util.spec_from_file_location("reliability_command", HERE / "__main__.py")
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    record = json.loads((DOCS / "reliability.json").read_text(encoding="utf-8"))
    shown = command.TABLE.search((DOCS / "reliability.md").read_text(encoding="utf-8"))
    assert shown.group() == command.table(record)
    for part in record.values():
        figures = part["figures"]
        for bad in (
            "false claims",
            "crashes",
            "hangs",
            "refused without need",
            "lost",
            "worse",
            "bare",
            "half-done",
            "later wrong",
        ):
            assert not figures.get(bad)
        assert not figures.get("different")
        assert figures.get(command.RATIO, 0.0) <= 2.0
