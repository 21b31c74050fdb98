"""Write what the Python blocks of a page print into the page (give the pages as arguments).

For use after a change of the output that was meant; read the difference before keeping it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from pathlib import Path

MODULES_OF_EXTRAS = ("unopy",)
FOLD = r"(?:<details>\n<summary>[^\n]*</summary>\s*)?"  # output may be folded
PAIR = re.compile(
    rf"^```python\n(.*?)^```\n(\s*{FOLD})(?:^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)


def refreshed(text: str) -> str:
    """The page with the output of every block that shows one."""
    names: dict[str, object] = {"__name__": "page"}

    def replace(match: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match[1], "page", "exec", dont_inherit=True), names)
        if match[3] is None:
            return match[0]
        output = "\n".join(line.rstrip() for line in printed.getvalue().rstrip().split("\n"))
        return f"```python\n{match[1]}```\n{match[2]}```text\n{output}\n```"

    return PAIR.sub(replace, text)


def hide_extras() -> None:
    """Pages show what a plain installation prints, without the solvers that an extra brings."""
    find_spec = importlib.util.find_spec
    importlib.util.find_spec = lambda name, package=None: (
        None if name in MODULES_OF_EXTRAS else find_spec(name, package)
    )


if __name__ == "__main__":
    hide_extras()
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
