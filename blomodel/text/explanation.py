"""A text of several lines that shows itself well wherever it turns up."""

from __future__ import annotations

from html import escape


class Explanation(str):
    r"""A string that a Python prompt shows with its lines, and a notebook as preformatted text.

    Examples
    --------
    >>> Explanation("one\ntwo")
    one
    two
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.35;white-space:pre-wrap">{escape(self)}</pre>'
