"""Formulas as MathML: they show without a network, a script or a LaTeX installation."""

from __future__ import annotations

import re
from html import escape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

LONGEST_INLINE = 40  # characters of LaTeX that fit into a line of a phone
LONGEST = 130  # characters of LaTeX that fit into a line of a page
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)


def to_mathml(latex: str, display: str) -> str:
    """MathML of a formula, with what the converter does not do: arg, and limits below min and max."""
    latex = latex.replace(r"\arg\min", r"\text{arg}\min").replace(r"\arg\max", r"\text{arg}\max")
    tree = ElementTree.fromstring(convert(latex, display=display))
    for element in tree.iter(f"{{{NAMESPACE}}}msub"):
        if display == "block" and element[0].text in ("min", "max"):
            element.tag = f"{{{NAMESPACE}}}munder"
    return ElementTree.tostring(tree, encoding="unicode")


def lines(latex: str) -> list[str]:
    """A long formula in several lines, broken where parts follow one another: MathML does not break."""
    parts = re.split(r"(?<=[,;])\s*\\q?quad\s*", latex)
    broken = [parts[0]]
    for part in parts[1:]:
        if len(broken[-1]) + len(part) > LONGEST:
            broken.append(part)
        else:
            broken[-1] += rf" \quad {part}"
    return broken


def visit_inline(self: Any, node: nodes.math) -> None:
    """A formula within a sentence; a long one scrolls by itself where the page is narrow."""
    formula = to_mathml(node.astext(), "inline")
    is_long = len(node.astext()) > LONGEST_INLINE
    self.body.append(f'<span class="math-long">{formula}</span>' if is_long else formula)
    raise nodes.SkipNode


def visit_display(self: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own."""
    number = f'<span class="eqno">({escape(str(node["number"]))})</span>' if node.get("number") else ""
    formulas = "".join(to_mathml(line, "block") for line in lines(node.astext()))
    self.body.append(f'<div class="math-display">{number}{formulas}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
