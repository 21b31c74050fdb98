"""Yes or no, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Finding:
    """The answer to a question about a problem: true or false, with what shows it.

    Attributes
    ----------
    holds : bool
        What ``bool()`` and ``if`` see. False also where the contrary is not known: the reason tells.
    reason : str

    Examples
    --------
    >>> found = Finding(True, "at fixed x it is a QP")
    >>> found
    True: at fixed x it is a QP
    >>> "yes" if found else "no", found == True, not found
    ('yes', True, False)
    """

    holds: bool
    reason: str

    def __bool__(self) -> bool:
        return self.holds

    def __eq__(self, other: object) -> bool:
        return self.holds == bool(other) if isinstance(other, bool | Finding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.holds)

    def __repr__(self) -> str:
        return f"{self.holds}: {self.reason}"
