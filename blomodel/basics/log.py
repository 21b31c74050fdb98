"""The library's logger, ``logging.getLogger("blomodel")``.

Warnings (there is no answer) reach the screen in programs that set up no logging; everything else is
for those who ask: ``logging.getLogger("blomodel").setLevel(logging.INFO)`` and a handler.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOGGER = logging.getLogger("blomodel")
_IS_HUSHED: ContextVar[bool] = ContextVar("blomodel_hushed", default=False)


def log(level: int, message: str, *parts: object) -> None:
    """Hand a message to the logger, unless what runs is a part of something that reports by itself."""
    if not _IS_HUSHED.get():
        LOGGER.log(level, message, *parts)


@contextmanager
def hushed() -> Iterator[None]:
    """Log nothing inside: whoever asked reports in its own way."""
    token = _IS_HUSHED.set(True)
    try:
        yield
    finally:
        _IS_HUSHED.reset(token)
