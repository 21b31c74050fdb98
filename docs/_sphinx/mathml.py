"""Formulas as MathML: they show without a network, a script or a LaTeX installation."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def visit_inline(self: Any, node: nodes.math) -> None:
    """A formula within a sentence."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_display(self: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own."""
    number = ""
    if node.get("number"):
        number = f'<span class="eqno">({escape(str(node["number"]))})</span>'
    self.body.append(f'<div class="math-display">{number}{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
