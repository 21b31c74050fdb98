"""One line for a long expression, as messages name it."""

from __future__ import annotations


def shorten(text: object, width: int = 90) -> str:
    """An expression's text, cut in the middle when long, for messages."""
    full = str(text)
    if len(full) <= width:
        return full
    half = (width - 5) // 2
    return f"{full[:half]} ... {full[-half:]}"
